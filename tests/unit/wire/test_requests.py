"""Headers and whole frames, in both directions."""

from __future__ import annotations

import importlib
import io
import struct
from dataclasses import dataclass

import pytest
from kio.serial import entity_writer
from kio.static.primitive import i16, i32
from tests.unit.wire.instances import frame_of, joined

from tidelog.model.errors import ErrorCode
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tidelog.wire.requests import (
    RequestHeader,
    UnknownVersion,
    decode_body,
    decode_header,
    decode_response,
    encode_request,
    encode_response,
)


@dataclass(frozen=True)
class _Elsewhere:
    size: int


@pytest.mark.parametrize("version", [1, 4, 8, 9, 13])
@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "é" * 300])
def test_a_request_arrives_as_it_was_sent(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=[])
    frame = frame_of(encode_request(request, version, correlation_id=77, client_id=client_id))
    header, position = decode_header(frame)
    assert header == RequestHeader(3, version, 77, client_id)
    assert decode_body(header, frame, position) == request


@pytest.mark.parametrize(("version", "topics"), [(0, None), (1, [])])
def test_an_empty_list_asks_for_all_topics_in_metadata_v0_only(
    version: int, topics: list[MetadataRequestTopic] | None
) -> None:
    request = MetadataRequest(topics=[])
    frame = frame_of(encode_request(request, version, correlation_id=1, client_id=None))
    header, position = decode_header(frame)
    assert decode_body(header, frame, position).topics == topics


@pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
def test_the_request_header_is_kafkas(version: int, header_version: int) -> None:
    module = importlib.import_module(f"kio.schema.request_header.v{header_version}.header")
    theirs = io.BytesIO()
    header = module.RequestHeader(
        request_api_key=i16(3),
        request_api_version=i16(version),
        correlation_id=i32(5),
        client_id="me",
    )
    entity_writer(module.RequestHeader)(theirs, header)
    ours = encode_request(MetadataRequest(topics=[]), version, correlation_id=5, client_id="me")
    assert ours[4:].startswith(theirs.getvalue())


@pytest.mark.parametrize("version", [8, 9])
def test_a_response_arrives_as_it_was_sent(version: int) -> None:
    response = MetadataResponse(brokers=[], topics=[], cluster_id="c")
    parts = encode_response(RequestHeader(3, version, 42), response)
    assert decode_response(3, version, frame_of(joined(parts))) == (42, response)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_the_header_of_an_api_versions_response_has_no_tagged_fields(version: int) -> None:
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
    )
    encoded = joined(encode_response(RequestHeader(18, version, 1), response))
    assert encoded[4:10].hex() == "000000010023"
    assert decode_response(18, version, frame_of(encoded)) == (1, response)


def test_the_length_counts_the_spans() -> None:
    partition = PartitionData(
        partition_index=0, high_watermark=1, aborted_transactions=None, records=_Elsewhere(5000)
    )
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    parts = encode_response(RequestHeader(1, 12, 9), FetchResponse(responses=[topic]))
    head, span, tail = parts
    assert isinstance(head, bytearray)
    assert isinstance(tail, bytearray)
    assert span == _Elsewhere(5000)
    (length,) = struct.unpack_from(">i", head)
    assert length == len(head) - 4 + 5000 + len(tail)


@pytest.mark.parametrize(("api_key", "version"), [(18, 99), (0, 14), (1, 3), (999, 0), (-1, -1)])
def test_an_unknown_api_or_version_still_tells_whom_to_answer(api_key: int, version: int) -> None:
    frame = memoryview(struct.pack(">hhi", api_key, version, 1234) + b"\xff" * 9)
    with pytest.raises(UnknownVersion) as caught:
        decode_header(frame)
    assert caught.value.header == RequestHeader(api_key, version, 1234)


def test_an_unknown_version_of_api_versions_can_be_answered_in_version_zero() -> None:
    with pytest.raises(UnknownVersion) as caught:
        decode_header(memoryview(struct.pack(">hhi", 18, 99, 7)))
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[])
    parts = encode_response(caught.value.header._replace(api_version=0), answer)
    assert decode_response(18, 0, frame_of(joined(parts))) == (7, answer)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    request = ApiVersionsRequest(client_software_name="x")
    plain = encode_request(request, 3, correlation_id=1, client_id="c")[4:]
    assert plain[11] == 0
    tagged = memoryview(plain[:11] + bytes.fromhex("010502ffff") + plain[12:])
    header, position = decode_header(tagged)
    assert decode_body(header, tagged, position) == request


@pytest.mark.parametrize("tail", ["", "00", "fffe", "7fff", "0005616263", "0001ff00"])
def test_a_lying_client_id_is_refused(tail: str) -> None:
    with pytest.raises(DecodeError):
        decode_header(memoryview(struct.pack(">hhi", 18, 3, 1) + bytes.fromhex(tail)))


@pytest.mark.parametrize("tags", ["", "01", "0105", "010505", "ffffffffff", "01058080808001"])
def test_lying_tagged_fields_of_a_header_are_refused(tags: str) -> None:
    head = struct.pack(">hhih", 18, 3, 1, -1)
    with pytest.raises(DecodeError):
        decode_header(memoryview(head + bytes.fromhex(tags)))


@pytest.mark.parametrize("size", range(8))
def test_a_frame_shorter_than_a_header_is_refused(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_header(memoryview(bytes(size)))


@pytest.mark.parametrize(("version", "size"), [(8, 3), (9, 4)])
def test_a_response_shorter_than_its_header_is_refused(version: int, size: int) -> None:
    with pytest.raises(DecodeError):
        decode_response(3, version, memoryview(bytes(size)))
