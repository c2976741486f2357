"""A follower's work, and an observer's: fetch, append, flush, fetch again.

One request is under way at a time. It names the end of our log, which is durable when we say so,
and the epoch of the last record in it. If the leader's log parts from ours before that, the answer
says where the leader's next lower epoch ends; we cut to there, or to where that epoch ends here,
and ask again. If the leader's log begins later than ours ends, its snapshot comes in pieces, and
takes the place of our log when it is whole.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.quorum import roles, snapshots
from tidelog.quorum.core import Core, Download, Pursuit
from tidelog.quorum.events import ApplyCommitted, LoadSnapshot
from tidelog.quorum.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PeerRequest,
)
from tidelog.quorum.ports import EpochEnd
from tidelog.wire.errors import DecodeError


def pursue(core: Core, now_ms: float) -> None:
    """The end of a follower's step: ask for more, if it is time to."""
    pursuit = core.pursuit
    if pursuit is None:
        return
    _note_commit(core, pursuit)
    core.want_flush()
    is_due = pursuit.retry_at_ms is not None and now_ms >= pursuit.retry_at_ms
    is_durable = core.log.durable_end_offset >= core.log.end_offset
    if pursuit.number is not None or not is_due or not is_durable:
        return
    destination = pursuit.leader_id
    if destination is None:
        destination = _anybody(core)
    if destination is None:
        pursuit.retry_at_ms = None
        return
    pursuit.retry_at_ms = None
    pursuit.number = core.send(now_ms, destination, _next_request(core, pursuit))


def _anybody(core: Core) -> NodeId | None:
    """Any voter knows the leader, or will soon."""
    known = dict.fromkeys((*core.voters.node_ids, *core.bootstrap))
    known.pop(core.key.node_id, None)
    return core.random.choice(list(known)) if known else None


def _next_request(core: Core, pursuit: Pursuit) -> PeerRequest:
    settings, download = core.settings, pursuit.download
    if download is not None:
        return FetchSnapshotRequest(
            core.key,
            core.epoch,
            download.snapshot_id,
            len(download.data),
            settings.snapshot_piece_bytes,
            core.cluster_id,
        )
    return FetchRequest(
        core.key,
        core.epoch,
        core.log.end_offset,
        core.log.last_epoch,
        core.high_watermark,
        settings.fetch_max_wait_ms,
        settings.fetch_max_bytes,
        core.cluster_id,
        heard=pursuit.heard,
    )


def on_fetched(core: Core, now_ms: float, response: FetchResponse) -> None:
    pursuit = _answered(core, now_ms, response)
    if pursuit is None:
        return
    pursuit.heard = response.number
    if response.diverging is not None:
        _cut(core, now_ms, response.diverging)
    elif response.snapshot_id is not None:
        pursuit.download = Download(response.snapshot_id)
    else:
        for batch in response.batches:
            assert batch.base_offset == core.log.end_offset, "a leader skipped records"
            core.store_batch(batch)
        pursuit.leader_high_watermark = response.high_watermark
        roles.reconsider(core, now_ms)


def _answered(
    core: Core, now_ms: float, response: FetchResponse | FetchSnapshotResponse
) -> Pursuit | None:
    """The pursuit, if the leader has answered and the next request may follow at once."""
    pursuit = core.pursuit
    assert pursuit is not None, "an answer to nobody"
    pursuit.number = None
    pursuit.retry_at_ms = now_ms + core.settings.retry_backoff_ms
    if response.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return None
    is_unled = response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    has_resigned = (
        is_unled and response.leader_epoch == core.epoch and pursuit.leader_id is not None
    )
    if has_resigned or response.leader_epoch > core.epoch:
        core.promise = None  # the leader says itself that it is none any more
    if roles.learn(core, now_ms, response.leader_epoch, response.leader_id):
        return None
    if response.error is not ErrorCode.NONE or pursuit.leader_id is None:
        pursuit.download = None
        if has_resigned:
            _lose_leader(core, now_ms)
        return None
    core.promise_to(pursuit.leader_id, now_ms)
    pursuit.retry_at_ms = now_ms
    core.role_deadline_ms = now_ms + core.settings.fetch_timeout_ms
    return pursuit


def _lose_leader(core: Core, now_ms: float) -> None:
    """It says itself that it leads this epoch no longer (it was restarted, or its resignation got
    lost): there is no point in waiting for the fetch timeout."""
    roles.lose_leader(core, now_ms, core.backoff_at(now_ms))
    if core.pursuit is not None:
        core.pursuit.retry_at_ms = now_ms + core.settings.retry_backoff_ms


def _cut(core: Core, now_ms: float, diverging: EpochEnd) -> None:
    own = core.log.epoch_end(diverging.epoch)
    end = Offset(min(diverging.end_offset, max(own.end_offset, core.log.start_offset)))
    assert end >= core.high_watermark, f"cut to {end}, below what is committed"
    core.log.truncate_to(end)
    assert core.log.end_offset >= core.high_watermark, "a committed batch was cut"
    if core.history.cut(core.log.end_offset):
        roles.reconsider(core, now_ms)


def on_snapshot_fetched(core: Core, now_ms: float, response: FetchSnapshotResponse) -> None:
    pursuit = _answered(core, now_ms, response)
    if pursuit is None or pursuit.download is None:
        return
    download = pursuit.download
    if (response.snapshot_id, response.position) != (download.snapshot_id, len(download.data)):
        pursuit.download = None
        return
    download.data += response.data
    if len(download.data) < response.size:
        return
    pursuit.download = None
    try:
        state = snapshots.install(core, download.snapshot_id, bytes(download.data))
    except DecodeError:
        # Damaged on its way: the next fetch leads to it again.
        pursuit.retry_at_ms = now_ms + core.settings.retry_backoff_ms
        return
    core.effects.append(LoadSnapshot(download.snapshot_id, state))
    roles.reconsider(core, now_ms)


def on_failed(core: Core, now_ms: float) -> None:
    """No answer: try again soon, until the fetch timeout."""
    if core.pursuit is not None:
        core.pursuit.number = None
        core.pursuit.retry_at_ms = now_ms + core.settings.retry_backoff_ms


def give_up_leader(core: Core, now_ms: float) -> None:
    """An observer whose leader does not answer asks around."""
    core.role_deadline_ms = None
    core.pursuit = Pursuit(None, retry_at_ms=now_ms)


def _note_commit(core: Core, pursuit: Pursuit) -> None:
    """What the leader says is committed, as far as we have it durably."""
    known = min(pursuit.leader_high_watermark, core.log.durable_end_offset)
    if known > core.high_watermark:
        core.high_watermark = Offset(known)
        core.effects.append(ApplyCommitted(core.high_watermark))
