"""Leaders and followers of one partition, in a test's hand."""

from __future__ import annotations

from random import Random
from uuid import UUID

from tests.unit.log.logs import a_batch, append, flush, open_log, settings

from tidelog.log.log import Log
from tidelog.metadata.image import NodeState, PartitionState
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.partition.follower import Follower
from tidelog.partition.leader import Leader
from tidelog.partition.membership import Membership, ReplicationSettings
from tidelog.partition.progress import FollowerFetch
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.fetch import EpochEndOffset, PartitionData

ME, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)
KEY = PartitionKey(TopicId(UUID(int=7)), 0)
LAG_MS = 30_000


def a_state(
    *,
    leader: NodeId = ME,
    epoch: int = 5,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
    elr: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(
        KEY,
        TopicPartition("orders", 0),
        tuple(NodeId(node) for node in replicas),
        tuple(NodeId(node) for node in isr),
        leader,
        LeaderEpoch(epoch),
        partition_epoch=partition_epoch,
        elr=tuple(NodeId(node) for node in elr),
        removing_replicas=tuple(NodeId(node) for node in removing),
    )


def a_membership(node_id: NodeId = ME) -> Membership:
    membership = Membership(node_id, ReplicationSettings(lag_time_max_ms=LAG_MS))
    membership.broker_epoch = 10
    membership.nodes = {
        node: NodeState(node, f"host{node}", 9092, f"rack{node}", BrokerEpoch(10 * node))
        for node in (ME, OTHER, THIRD)
    }
    return membership


def a_log(records: int = 0, *, epoch: int = 0, seed: int = 0) -> Log:
    """So many records, flushed."""
    log = open_log(SimDisk(Random(seed)))
    for _ in range(records):
        append(log, a_batch(), epoch=epoch)
    flush(log)
    return log


def a_leader(
    log: Log | None = None,
    state: PartitionState | None = None,
    *,
    min_isr: int = 1,
    high_watermark: int = -1,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Leader:
    return Leader(
        state or a_state(),
        log or a_log(),
        settings(min_insync_replicas=min_isr),
        a_membership(),
        now_ms=0,
        high_watermark=Offset(high_watermark),
        safeguards=safeguards,
    )


def produce(leader: Leader, count: int = 1, *, flushed: bool = True) -> Offset:
    """The last offset."""
    last = Offset(-1)
    for _ in range(count):
        appended = leader.append(a_batch(), 1000)
        assert appended.error is ErrorCode.NONE
        last = appended.last_offset
    if flushed:
        flush(leader.log)
        leader.flushed()
    return last


def a_fetch(
    offset: int, *, node: NodeId = OTHER, epoch: int = 5, last: int = 5, broker_epoch: int = -1
) -> FollowerFetch:
    known = 10 * node if broker_epoch == -1 else broker_epoch
    last = -1 if offset == 0 else last
    return FollowerFetch(
        node, known, LeaderEpoch(epoch), Offset(offset), LeaderEpoch(last), Offset(0)
    )


def fetch(leader: Leader, offset: int, *, node: NodeId = OTHER, now_ms: float = 1) -> None:
    """A fetch by somebody whose log is ours so far."""
    last = leader.log.epochs.epoch_of(offset - 1)
    said = a_fetch(offset, node=node, epoch=leader.leader_epoch, last=last)
    assert leader.check_fetch(said) is None
    leader.note_fetch(said, now_ms)


def a_follower(
    log: Log, *, epoch: int = 5, isr: tuple[int, ...] = (1, 2, 3), high_watermark: int = -1
) -> Follower:
    return Follower(
        a_state(leader=OTHER, epoch=epoch, isr=isr),
        log,
        settings(),
        a_membership(),
        high_watermark=Offset(high_watermark),
    )


def an_answer(
    records: bytes = b"",
    *,
    high_watermark: int = 0,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    log_start_offset: int = 0,
) -> PartitionData:
    parts = EpochEndOffset()
    if diverging is not None:
        parts = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        diverging_epoch=parts,
        aborted_transactions=None,
        records=records,
    )


def hear(follower: Follower, answer: PartitionData, *, now_ms: float = 0) -> None:
    """The answer to what the follower would ask now; what it wrote is flushed."""
    follower.take(Now(now_ms, 1000), answer, asked=follower.position)
    flush(follower.log)
