"""Elections that somebody asks for (ElectLeaders), and leaders going home by themselves.

The first of a partition's replicas is its preferred leader: placement spread those evenly. After a
node was away its leaders are elsewhere; once it is in sync again they may go back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tidelog.controller.decision import Decision
from tidelog.controller.elections import Election, PartitionChange
from tidelog.controller.log_ends import LogEnds, LogEndsByPartition
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

MAX_MOVED_AT_ONCE = 1000
"""Leaders that go back in one round: clients follow them, and not all should at once."""


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    name: TopicPartition
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def decide_elect_leaders(
    image: Image,
    names: Sequence[TopicPartition] | None,
    election: Election,
    *,
    log_ends: LogEndsByPartition | None = None,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[list[ElectionOutcome]]:
    """For the named partitions; for all (None), those that need none are passed over. An unclean
    election goes by `log_ends`."""
    is_all = names is None
    asked = [state.name for state in image.partitions()] if names is None else list(names)
    records: list[MetadataRecord] = []
    outcomes: list[ElectionOutcome] = []
    for name in dict.fromkeys(asked):
        error = _elect(image, name, election, records, log_ends or {}, safeguards)
        if not (is_all and error is ErrorCode.ELECTION_NOT_NEEDED):
            message = None if error is ErrorCode.NONE else error.explanation
            outcomes.append(ElectionOutcome(name, error, message))
    return Decision(records, outcomes)


def plan_leader_rebalance(
    image: Image, *, safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS
) -> list[MetadataRecord]:
    """Leaders that could go back to their preferred replicas."""
    return list(islice(_homecomings(image, safeguards), MAX_MOVED_AT_ONCE))


def _homecomings(image: Image, safeguards: frozenset[Safeguard]) -> Iterable[MetadataRecord]:
    for state in image.partitions():
        preferred = state.replicas[0]
        if state.leader != preferred and preferred in state.isr and image.is_usable(preferred):
            change = PartitionChange(image, state, safeguards=safeguards)
            change.election = Election.PREFERRED
            record = change.record()
            if record is not None:
                yield record


def _elect(
    image: Image,
    name: TopicPartition,
    election: Election,
    records: list[MetadataRecord],
    log_ends: LogEndsByPartition,
    safeguards: frozenset[Safeguard],
) -> ErrorCode:
    state = find_partition(image, name)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_preferred = election is Election.PREFERRED
    if state.leader == state.replicas[0] if is_preferred else state.leader != NO_LEADER:
        return ErrorCode.ELECTION_NOT_NEEDED
    change = PartitionChange(image, state, safeguards=safeguards)
    change.election = election
    change.log_ends = log_ends.get(state.key, LogEnds(state.leader_epoch))
    record = change.record()
    after = state if record is None else state.changed(record)
    if is_preferred and after.leader != state.replicas[0]:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    if after.leader == NO_LEADER or record is None:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    records.append(record)
    return ErrorCode.NONE


def find_partition(image: Image, name: TopicPartition) -> PartitionState | None:
    topic = image.topics.get(name.topic)
    if topic is None or not 0 <= name.partition < len(topic.partitions):
        return None
    return topic.partitions[name.partition]
