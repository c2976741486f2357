"""An answer that is the same for everybody is made once per image."""

from __future__ import annotations

from tidelog.broker.encoded_answers import EncodedAnswers
from tidelog.metadata.image import Image
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tidelog.wire.requests import METADATA, RequestHeader, encode_response


class Maker:
    def __init__(self) -> None:
        self.times = 0

    def make(self) -> MetadataResponse:
        self.times += 1
        brokers = [MetadataResponseBroker(node_id=self.times, host="h", port=1)]
        return MetadataResponse(brokers=brokers, controller_id=1, topics=[])


def test_an_answer_is_made_once_per_image_version_and_what_it_depends_on() -> None:
    answers, maker, image = EncodedAnswers(), Maker(), Image()
    for version, controller in ((9, 1), (9, 1), (1, 1), (9, 2), (9, 1), (1, 1)):
        header = RequestHeader(METADATA, version, 7)
        answers.answer(image, header, controller, maker.make)
    assert maker.times == 3
    answers.answer(Image(version=1), RequestHeader(METADATA, 9, 7), 1, maker.make)
    assert maker.times == 4


def test_the_bytes_are_those_of_an_answer_made_anew() -> None:
    for version in (0, 1, 9, 12):
        header = RequestHeader(METADATA, version, 1234)
        body = EncodedAnswers().answer(Image(), header, None, Maker().make)
        kept, anew = (
            b"".join(bytes(part) for part in encode_response(header, each))  # type: ignore[arg-type]
            for each in (body, Maker().make())
        )
        assert kept == anew
