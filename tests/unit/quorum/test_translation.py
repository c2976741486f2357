"""Messages through the wire's bytes and back; batches through the log's."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.quorum_driver import key
from tests.unit.wire.instances import joined

from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.quorum import admin_translation, batches, translation
from tidelog.quorum import messages as m
from tidelog.quorum.batches import Batch, LeaderChange, VotersChange
from tidelog.quorum.ports import EpochEnd, SnapshotId
from tidelog.quorum.voters import Endpoint, Voter, VoterSet
from tidelog.wire.codec import decoder, encode_body
from tidelog.wire.errors import DecodeError
from tidelog.wire.messages import vote
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.records import Record, encode_batch

HERE = Endpoint("CONTROLLER", "localhost", 9093)
VOTERS = VoterSet.of([Voter(key(1), (HERE,)), Voter(key(2))])
BATCHES = (
    Batch(
        Offset(7),
        LeaderEpoch(3),
        control=LeaderChange(key(1), (key(1), key(2)), (key(2),)),
    ),
    Batch(Offset(8), LeaderEpoch(3), (b"a", b"", b"c")),
    Batch(Offset(11), LeaderEpoch(3), control=VotersChange(VOTERS)),
)
EPOCH, SNAPSHOT = LeaderEpoch(3), SnapshotId(Offset(40), LeaderEpoch(2))
NONE, FENCED = ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH

REQUESTS: list[m.PeerRequest] = [
    m.VoteRequest(key(1), key(2), EPOCH, LeaderEpoch(-1), Offset(0), True, "c"),
    m.VoteRequest(key(1), key(2), EPOCH, EPOCH, Offset(9), False),
    m.BeginQuorumEpochRequest(key(1), NodeId(2), EPOCH, (HERE,), "c"),
    m.EndQuorumEpochRequest(NodeId(2), EPOCH, (key(3), key(1)), "c"),
    m.FetchRequest(key(1), EPOCH, Offset(9), LeaderEpoch(2), Offset(5), 500, 1000, "c", heard=7),
    m.FetchSnapshotRequest(key(1), EPOCH, SNAPSHOT, 17, 1000, "c"),
]

RESPONSES: list[m.PeerResponse] = [
    m.VoteResponse(NONE, None, EPOCH, True),
    m.VoteResponse(FENCED, NodeId(2), EPOCH),
    m.BeginQuorumEpochResponse(NONE, NodeId(2), EPOCH),
    m.EndQuorumEpochResponse(FENCED, None, EPOCH),
    m.FetchResponse(NONE, NodeId(2), EPOCH, Offset(5), Offset(0), batches=BATCHES, number=8),
    m.FetchResponse(NONE, NodeId(2), EPOCH, Offset(5), Offset(0), EpochEnd(EPOCH, Offset(0))),
    m.FetchResponse(NONE, NodeId(2), EPOCH, Offset(50), Offset(40), snapshot_id=SNAPSHOT),
    m.FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, EPOCH),
    m.FetchSnapshotResponse(NONE, NodeId(2), EPOCH, SNAPSHOT, 100, 17, b"piece"),
    m.FetchSnapshotResponse(ErrorCode.SNAPSHOT_NOT_FOUND, NodeId(2), EPOCH, SNAPSHOT),
]


def through_bytes(wire: object, version: int) -> object:
    data = joined(encode_body(wire, version))
    return decoder(type(wire), version)(memoryview(data), 0)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_arrives_as_it_was_sent(request_: m.PeerRequest) -> None:
    version = translation.VERSIONS[type(request_)]
    wire = through_bytes(translation.request_to_wire(request_), version)
    assert translation.request_from_wire(wire) == request_


@pytest.mark.parametrize("response", RESPONSES, ids=lambda each: type(each).__name__)
def test_a_response_arrives_as_it_was_sent(response: m.PeerResponse) -> None:
    kind = type(response).__name__.replace("Response", "Request")
    version = translation.VERSIONS[getattr(m, kind)]
    wire = through_bytes(translation.response_to_wire(response), version)
    assert translation.response_from_wire(wire) == response


def test_a_fetch_of_the_metadata_log_is_known_as_such() -> None:
    fetch = translation.request_to_wire(REQUESTS[4])
    assert translation.is_metadata_fetch(fetch)
    fetch.topics[0].topic_id = UUID(int=2)
    assert not translation.is_metadata_fetch(fetch)


def test_a_vote_about_another_partition_is_refused() -> None:
    wire = translation.request_to_wire(REQUESTS[0])
    assert isinstance(wire, vote.VoteRequest)
    wire.topics[0].topic_name = "orders"
    with pytest.raises(DecodeError, match="not the metadata log"):
        translation.request_from_wire(wire)
    wire.topics.clear()
    with pytest.raises(DecodeError, match="one partition"):
        translation.request_from_wire(wire)


def test_batches_are_read_back_from_the_log() -> None:
    data = b"".join(bytes(batches.encode(batch)) for batch in BATCHES)
    assert batches.decode(data) == BATCHES
    assert [batch.next_offset for batch in BATCHES] == [8, 11, 12]


def test_a_control_record_of_an_unknown_kind_is_refused() -> None:
    data = bytes(encode_batch([Record(0, 0, key=b"\0\0\0\7", value=b"")]))
    with pytest.raises(DecodeError, match="unknown kind"):
        batches.decode(data)


def test_the_times_of_a_description_become_times_of_day() -> None:
    voters = (m.ReplicaProgress(key(2), Offset(9), 900.0, None),)
    response = m.DescribeQuorumResponse(
        NONE, NodeId(1), EPOCH, Offset(9), voters, (), ((NodeId(1), (HERE,)),)
    )
    wire = admin_translation.describe_to_wire(response, Now(1_000.0, 1_700_000_000_000))
    assert through_bytes(wire, 2) == wire
    (state,) = wire.topics[0].partitions[0].current_voters
    assert (state.last_fetch_timestamp, state.last_caught_up_timestamp) == (1_699_999_999_900, -1)
    assert wire.nodes[0].listeners[0].port == 9093


def test_administrators_requests_are_understood() -> None:
    listener = Listener(name=HERE.name, host=HERE.host, port=HERE.port)
    add = AddRaftVoterRequest(
        cluster_id="c",
        timeout_ms=5,
        voter_id=4,
        voter_directory_id=UUID(int=4),
        listeners=[listener],
    )
    assert admin_translation.add_voter_from_wire(add) == m.AddRaftVoterRequest(
        key(4), (HERE,), 5, True, "c"
    )
    remove = RemoveRaftVoterRequest(cluster_id="c", voter_id=4, voter_directory_id=UUID(int=4))
    assert admin_translation.remove_voter_from_wire(remove) == m.RemoveRaftVoterRequest(key(4), "c")
