"""Who may vote, and since which offset of the log.

A replica is a node *with its directory*: a node that comes back with an empty disk is another
replica, which has promised nothing and holds nothing. Voters from the configuration have no known
directory (`NO_DIRECTORY`), and match whatever the node has.

A set of voters counts from the moment its record is in the log, committed or not (KIP-853): so the
sets are kept with their offsets, and one whose record is cut off counts no longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from tidelog.model.ids import NodeId, Offset

NO_DIRECTORY = UUID(int=0)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """One replica for good: a node and the directory it keeps its log in."""

    node_id: NodeId
    directory_id: UUID = NO_DIRECTORY

    def is_same(self, other: ReplicaKey) -> bool:
        """The same replica as far as either side knows its directory."""
        if self.node_id != other.node_id:
            return False
        ours, theirs = self.directory_id, other.directory_id
        if ours is theirs or ours is NO_DIRECTORY or theirs is NO_DIRECTORY:
            return True  # as nearly always, and to compare ids takes long
        return ours == theirs or NO_DIRECTORY in (ours, theirs)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a voter is reached."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def node_id(self) -> NodeId:
        return self.key.node_id


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The members of the quorum, by node id."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        ordered = tuple(sorted(voters, key=lambda voter: voter.node_id))
        ids = [voter.node_id for voter in ordered]
        assert len(ids) == len(set(ids)), f"a voter is named twice: {ids}"
        return cls(ordered)

    @classmethod
    def of_ids(cls, node_ids: Iterable[int]) -> VoterSet:
        """Voters of whom only the node is known: those of the configuration."""
        return cls.of(Voter(ReplicaKey(NodeId(node_id))) for node_id in node_ids)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        return tuple(voter.node_id for voter in self.voters)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def get(self, node_id: NodeId) -> Voter | None:
        for voter in self.voters:
            if voter.key.node_id == node_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        voter = self.get(key.node_id)
        return voter is not None and voter.key.is_same(key)

    def others(self, key: ReplicaKey) -> list[Voter]:
        return [voter for voter in self.voters if voter.node_id != key.node_id]

    def with_voter(self, voter: Voter) -> VoterSet:
        return VoterSet.of((*self.voters, voter))

    def without(self, node_id: NodeId) -> VoterSet:
        return VoterSet(tuple(voter for voter in self.voters if voter.node_id != node_id))


@dataclass(slots=True)
class VoterHistory:
    """The sets that are in the log, each with the offset of its record. The first is from the
    configuration, or from the snapshot, and lies before every offset of the log."""

    first: VoterSet
    later: list[tuple[Offset, VoterSet]]

    @property
    def latest(self) -> VoterSet:
        return self.later[-1][1] if self.later else self.first

    @property
    def latest_offset(self) -> Offset | None:
        """Where the latest set's record is; none if the set has no record in this log."""
        return self.later[-1][0] if self.later else None

    def note(self, offset: Offset, voters: VoterSet) -> None:
        assert not self.later or self.later[-1][0] < offset
        self.later.append((offset, voters))

    def cut(self, end_offset: Offset) -> bool:
        """The log now ends at `end_offset`. True if that made another set the latest."""
        before = len(self.later)
        self.later = [(offset, voters) for offset, voters in self.later if offset < end_offset]
        return len(self.later) < before

    def at(self, end_offset: Offset) -> VoterSet:
        """The set that counts for a log that ends at `end_offset`."""
        sets = [voters for offset, voters in self.later if offset < end_offset]
        return sets[-1] if sets else self.first

    def begin_at(self, start_offset: Offset) -> None:
        """The log now begins at `start_offset`."""
        self.first = self.at(start_offset)
        self.later = [(offset, voters) for offset, voters in self.later if offset >= start_offset]
