"""What the generated functions do at the edges: spans, nulls, tags, lying lengths."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from uuid import UUID

import pytest
from tests.unit.wire.instances import joined

from tidelog.model.errors import ErrorCode
from tidelog.model.limits import MAX_DECODED_ELEMENTS
from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.encoding import LARGE_RECORDS
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.parts import Records, Span, size_of
from tidelog.wire.requests import LENGTH_BYTES, decode_body, decode_header, encode_request
from tidelog.wire.schema import boolean, int32, message, string, struct


@dataclass(frozen=True)
class _Elsewhere:
    size: int


def _fetch_response(*records: Records | None) -> FetchResponse:
    partitions = [
        PartitionData(
            partition_index=index, high_watermark=9, aborted_transactions=None, records=each
        )
        for index, each in enumerate(records)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def _produce_request(records: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="orders", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic])


@pytest.mark.parametrize("version", [11, 12])
def test_a_span_is_put_between_the_bytes_around_it(version: int) -> None:
    span = _Elsewhere(size=300)
    parts = encode_body(_fetch_response(span, b"small"), version)
    assert [part is span for part in parts] == [False, True, False]
    whole = joined([bytes(300) if isinstance(part, _Elsewhere) else part for part in parts])
    assert len(whole) == size_of(parts)
    decoded = decoder(FetchResponse, version)(memoryview(whole), 0)
    assert [p.records for p in decoded.responses[0].partitions] == [bytes(300), b"small"]


def test_large_immutable_records_are_not_copied_and_small_ones_are() -> None:
    large, small = bytes(LARGE_RECORDS), bytes(LARGE_RECORDS - 1)
    assert encode_body(_fetch_response(large), 12)[1] is large
    assert len(encode_body(_fetch_response(small), 12)) == 1


def test_mutable_records_are_copied_because_their_owner_may_reuse_them() -> None:
    buffer = bytearray(b"a" * LARGE_RECORDS)
    parts = encode_body(_fetch_response(memoryview(buffer)), 12)
    buffer[:] = b"b" * LARGE_RECORDS
    assert len(parts) == 1
    assert b"b" not in joined(parts)


def test_decoded_records_are_a_writable_view_of_the_frame() -> None:
    frame = bytearray(joined(encode_body(_produce_request(b"batch"), 9)))
    request = decoder(ProduceRequest, 9)(memoryview(frame), 0)
    request.topic_data[0].partition_data[0].records[0:1] = b"B"
    assert b"Batch" in frame


def test_null_records_stay_null() -> None:
    encoded = joined(encode_body(_fetch_response(None), 12))
    decoded = decoder(FetchResponse, 12)(memoryview(encoded), 0)
    assert decoded.responses[0].partitions[0].records is None


def test_the_bytes_are_the_protocols() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ab")])
    assert joined(encode_body(request, 1)).hex() == "0000000100026162"
    assert joined(encode_body(request, 4)).hex() == "000000010002616201"
    flexible = "020361620001000000"
    assert joined(encode_body(request, 9)).hex() == flexible


def test_a_field_the_version_lacks_decodes_to_its_default() -> None:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    encoded = joined(encode_body(request, 1))
    assert decoder(MetadataRequest, 1)(memoryview(encoded), 0).allow_auto_topic_creation is True


def test_null_where_the_version_does_not_allow_it_is_refused() -> None:
    with pytest.raises(DecodeError, match="topics"):
        decoder(MetadataRequest, 0)(memoryview(b"\xff\xff\xff\xff"), 0)
    with pytest.raises(DecodeError, match="topics"):
        decoder(FetchRequest, 12)(memoryview(bytes(21) + b"\x00" * 10), 0)
    with pytest.raises(DecodeError, match="name"):
        decoder(MetadataRequest, 1)(memoryview(bytes.fromhex("00000001ffff")), 0)


def test_a_negative_length_other_than_null_is_refused() -> None:
    with pytest.raises(DecodeError):
        decoder(MetadataRequest, 1)(memoryview(b"\xff\xff\xff\xfe"), 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    known = joined(encode_body(ApiVersionsRequest(client_software_name="x"), 3))
    assert known[-1] == 0
    tagged = known[:-1] + bytes.fromhex("026303616263c80100")
    decoded = decoder(ApiVersionsRequest, 3)(memoryview(tagged), 0)
    assert decoded.client_software_name == "x"


@pytest.mark.parametrize(
    "section",
    ["01", "0163", "01630a00", "01ffffffffff00", "ffffffff0f", "0163ffffffff0f"],
)
def test_a_lying_section_of_tagged_fields_is_refused(section: str) -> None:
    known = joined(encode_body(ApiVersionsRequest(), 3))
    with pytest.raises(DecodeError):
        decoder(ApiVersionsRequest, 3)(memoryview(known[:-1] + bytes.fromhex(section)), 0)


def test_a_known_tagged_field_must_be_of_the_size_its_tag_claims() -> None:
    plain = joined(encode_body(ApiVersionsResponse(api_keys=[]), 3))
    epoch = (7).to_bytes(8, "big").hex()
    decode = decoder(ApiVersionsResponse, 3)
    right = memoryview(plain[:-1] + bytes.fromhex("010108" + epoch))
    assert decode(right, 0).finalized_features_epoch == 7
    for size in ("07", "09"):
        with pytest.raises(DecodeError):
            decode(memoryview(plain[:-1] + bytes.fromhex("0101" + size + epoch + "00")), 0)


def test_a_tagged_struct_travels_only_when_it_differs_from_its_default() -> None:
    response = _fetch_response(b"")
    silent = joined(encode_body(response, 12))
    response.responses[0].partitions[0].current_leader = LeaderIdAndEpoch()
    assert joined(encode_body(response, 12)) == silent
    leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=4)
    response.responses[0].partitions[0].current_leader = leader
    spoken = joined(encode_body(response, 12))
    decoded = decoder(FetchResponse, 12)(memoryview(spoken), 0)
    assert decoded.responses[0].partitions[0].current_leader == leader


def test_a_shared_default_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        _fetch_response(b"").responses[0].partitions[0].current_leader.leader_id = 3  # type: ignore[misc]


def test_bytes_after_the_message_are_ignored_because_librdkafka_sends_some() -> None:
    request = MetadataRequest(topics=None)
    encoded = joined(encode_body(request, 13))
    assert decoder(MetadataRequest, 13)(memoryview(encoded + b"\x00\x01\x00"), 0) == request


def test_a_message_cut_off_anywhere_is_refused() -> None:
    for version in (3, 8, 9, 13):
        encoded = joined(encode_body(_produce_request(b"batch"), version))
        decode = decoder(ProduceRequest, version)
        for size in range(len(encoded)):
            with pytest.raises(DecodeError):
                decode(memoryview(encoded[:size]), 0)


def test_a_string_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError, match="UTF-8"):
        decoder(MetadataRequest, 1)(memoryview(bytes.fromhex("000000010002fffe")), 0)


def test_an_error_code_of_the_future_is_an_unknown_error() -> None:
    response = InitProducerIdResponse(producer_id=1, producer_epoch=2)
    encoded = bytearray(joined(encode_body(response, 0)))
    encoded[4:6] = (9999).to_bytes(2, "big")
    decoded = decoder(InitProducerIdResponse, 0)(memoryview(encoded), 0)
    assert decoded.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_any_byte_but_zero_is_true() -> None:
    encoded = bytearray(joined(encode_body(MetadataRequest(topics=None), 4)))
    encoded[-1] = 0x7F
    assert decoder(MetadataRequest, 4)(memoryview(encoded), 0).allow_auto_topic_creation is True


@pytest.mark.parametrize(
    ("version", "hexadecimal"),
    [
        (1, "7fffffff"),
        (1, "000000017fff"),
        (9, "ffffffff0f"),
        (9, "ffffffffff01"),
        (9, "02ffffffff0f"),
        (12, "808080808000"),
    ],
)
def test_a_lying_length_costs_no_memory(version: int, hexadecimal: str) -> None:
    decode = decoder(MetadataRequest, version)
    frame = memoryview(bytes.fromhex(hexadecimal) + bytes(20))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(frame, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1024


def test_all_arrays_together_have_a_budget_of_elements() -> None:
    count = MAX_DECODED_ELEMENTS + 1
    frame = memoryview(count.to_bytes(4, "big") + bytes(count * 2))
    with pytest.raises(DecodeError, match="too many"):
        decoder(MetadataRequest, 1)(frame, 0)


@message
class _Inner:
    x: int = int32()


@message(api_key=999, versions="0-1", flexible="1+")
class _Nested:
    """Shapes that no API in the list has yet."""

    always: _Inner = struct(_Inner)
    sometimes: _Inner | None = struct(_Inner, nullable="0+")
    name: str = string()
    flag: bool = boolean()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("sometimes", [None, _Inner(x=5)])
def test_nested_structs_may_be_null(version: int, sometimes: _Inner | None) -> None:
    original = _Nested(always=_Inner(x=1), sometimes=sometimes, name="n", flag=True)
    encoded = joined(encode_body(original, version))
    assert decoder(_Nested, version)(memoryview(encoded), 0) == original


def test_anything_with_a_size_is_a_span() -> None:
    assert isinstance(_Elsewhere(size=1), Span)


def test_more_uuids_than_are_remembered_still_decode() -> None:
    topics = [MetadataRequestTopic(topic_id=UUID(int=n), name=None) for n in range(5000)]
    encoded = joined(encode_body(MetadataRequest(topics=topics), 12))
    assert decoder(MetadataRequest, 12)(memoryview(encoded), 0).topics == topics


def test_a_string_longer_than_kafkas_longest_is_refused() -> None:
    request = HeartbeatRequest(group_id="g" * 0x8000, generation_id=1, member_id="m")
    frame = encode_request(request, 4, correlation_id=1, client_id=None)[LENGTH_BYTES:]
    header, position = decode_header(memoryview(frame))
    with pytest.raises(DecodeError, match="group_id"):
        decode_body(header, memoryview(frame), position)
