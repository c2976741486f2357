"""What a fetch of a follower says of its progress, above all within a fetch session (KIP-227).

A fetch names a partition if something else is to be said of it than before. Of every other one in
the session it says what was said last, at the time of this fetch: the same offset, so the same
durable end, in the same leader epoch and by the same incarnation of the node. That is noted

- one by one for the **dirty** partitions of the session: those just named, and those that moved
  since they were looked at. Both epochs are checked each time, against what is true now, so that
  nothing said to an earlier leadership counts for this one. What is refused ends what the session
  said of the partition before;
- for all others together, as the time of the session's last fetch (`partition/progress.py`): such a
  partition was looked at and there was nothing to give or to tell, so the follower had all that its
  leader had, and since its leader's log has not grown, it has all of it.

A partition that is forgotten is spoken for no longer. If another session of the follower (or a
fetch without one) says something of a partition, it is dirty in the others: whichever goes on to be
used has the last word.
"""

from __future__ import annotations

from tidelog.broker.fetch_sessions import FetchItem, FetchPlan, FetchSession, SessionReader
from tidelog.broker.state import BrokerState
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.partition.progress import FollowerFetch
from tidelog.partition.replica import Replica


def said_in(item: FetchItem, reader: SessionReader, session: FetchSession | None) -> FollowerFetch:
    """What a follower says of one partition."""
    return FollowerFetch(
        NodeId(reader.replica_id),
        reader.replica_epoch,
        item.current_leader_epoch,
        item.fetch_offset,
        item.last_fetched_epoch,
        item.log_start_offset,
        None if session is None else session.last_fetch,
    )


def note(state: BrokerState, plan: FetchPlan, reader: SessionReader, now_ms: float) -> None:
    """Once, when the fetch arrives: how far the follower has come."""
    session = plan.session
    if session is not None and plan.is_incremental and state.advanced:
        session.look_at(state.advanced)  # before this fetch counts for what has not moved
    for item in plan.forgotten:
        _fell_silent(state, item, reader, session)
    for item in plan.due():
        _note(state, item, reader, session, now_ms)
    if session is not None:
        session.last_fetch.at_ms = now_ms


def _note(
    state: BrokerState,
    item: FetchItem,
    reader: SessionReader,
    session: FetchSession | None,
    now_ms: float,
) -> None:
    replica = _find(state, item)
    if replica is None or replica.leader is None:
        return
    said = said_in(item, reader, session)
    if replica.leader.check_fetch(said) is not None:
        _fell_silent(state, item, reader, session)
        return
    if replica.leader.note_fetch(said, now_ms):
        state.advanced[replica] = None
    state.replicas.stir(replica)
    state.follower_sessions.heard_elsewhere(item, reader, session)


def _fell_silent(
    state: BrokerState, item: FetchItem, reader: SessionReader, session: FetchSession | None
) -> None:
    replica = _find(state, item)
    if session is not None and replica is not None and replica.leader is not None:
        replica.leader.fell_silent(NodeId(reader.replica_id), session.last_fetch)


def _find(state: BrokerState, item: FetchItem) -> Replica | None:
    found = state.replicas.find(item.topic, item.partition, topic_id=item.topic_id)
    return None if isinstance(found, ErrorCode) else found


def validate(state: BrokerState) -> None:
    """Of a partition that is not dirty, the follower has all there is and knows it, and its leader
    counts on just what the session says."""
    if state.advanced:
        return  # which sessions are to look at that is still to be told
    speaking = {session.last_fetch: session for session in state.follower_sessions.sessions()}
    for session in speaking.values():
        for key, item in session.items.items():
            if key not in session.dirty:
                _validate(state, session, item)
    for replica in state.replicas.by_key.values():
        for known in () if replica.leader is None else replica.leader.progress.values():
            items = speaking[known.session].items if known.session in speaking else None
            is_in = items is None or replica.key in items or replica.name in items
            assert is_in, f"{replica.name}: the session that speaks for {known.node_id} dropped it"


def _validate(state: BrokerState, session: FetchSession, item: FetchItem) -> None:
    key, replica, said = item.key, _find(state, item), said_in(item, session.reader, session)
    assert replica is not None, f"{key}: its follower is not told that it is gone"
    leader = replica.leader
    assert leader is not None, f"{key}: its follower is not told that it is led elsewhere"
    assert leader.check_fetch(said) is None, f"{key}: its follower is not told what is wrong"
    assert said.fetch_offset == leader.log.log_end_offset, f"{key}: there is more to fetch"
    assert not leader.has_news_for(said.node_id), f"{key}: its follower is not told the news"
    known = leader.progress[said.node_id]
    assert known.fetch_offset == said.fetch_offset, f"{key}: {known.fetch_offset} was noted"
    assert known.session is session.last_fetch, f"{key}: another session speaks for it"
