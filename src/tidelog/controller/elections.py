"""Who leads a partition: the rules, in one place for every reason to elect.

A `PartitionChange` starts from a partition as it is, is told what happens to it (a node leaves the
ISR, replicas are moved), and `record` settles the rest, always in this order:

1. A reassignment whose targets are all in sync is complete.
2. The leader stays if it may; else `choose_leader` takes the first replica in sync, else the first
   eligible one. Else, only where an unclean election is allowed, the usable replica with the most
   of the log (`log_ends.py`): where there are several, not before they were asked what they have.
3. Eligible leader replicas (KIP-966): whoever leaves the ISR while it falls below the least number
   of in-sync replicas keeps every committed record, because nothing more is committed from then
   on; so it may lead later. With enough in sync again, nobody outside the ISR is eligible.
4. The leader epoch grows with every leader, also none; the partition epoch with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto

from tidelog.controller.log_ends import LogEnd, LogEnds, choose_fullest
from tidelog.metadata.image import Image, PartitionState
from tidelog.metadata.records import LEADER_UNCHANGED, PartitionChangeRecord
from tidelog.model.ids import NO_LEADER, NodeId
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard


class Loss(Enum):
    """What a node may have lost of a partition."""

    NOTHING = auto()
    UNFLUSHED = auto()  # in a crash, as `flush.policy=os` allows: what was written last
    ANYTHING = auto()  # its directory is another one, or damaged


class Election(Enum):
    """How far an election may go."""

    CLEAN = auto()  # the leader stays; else one that has every committed record
    PREFERRED = auto()  # as clean, but the first replica comes before the present leader
    UNCLEAN = auto()  # as clean; else the usable replica with the most of the log


def choose_leader(
    replicas: Sequence[NodeId],
    *,
    isr: Sequence[NodeId],
    eligible: Sequence[NodeId],
    is_usable: Callable[[NodeId], bool],
) -> NodeId:
    """Who has every committed record, is alive, and comes first; `NO_LEADER` if nobody."""
    for candidates in (isr, eligible):
        for node_id in replicas:
            if node_id in candidates and is_usable(node_id):
                return node_id
    return NO_LEADER


def choose_unclean_leader(
    replicas: Sequence[NodeId],
    *,
    last_known: Sequence[NodeId],
    is_usable: Callable[[NodeId], bool],
    log_ends: Mapping[NodeId, LogEnd],
) -> NodeId:
    """The usable replica with the most of the log. Of equals, and of those that did not say what
    they have, the one that was eligible last, else the first."""
    usable = [node for node in _ordered((*reversed(last_known), *replicas)) if is_usable(node)]
    return choose_fullest(usable, log_ends) if usable else NO_LEADER


class PartitionChange:
    """One partition's change in the making. Decided on `image`: where a node's standing changes in
    the same decision, the image in which it has."""

    def __init__(
        self,
        image: Image,
        state: PartitionState,
        *,
        safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
    ) -> None:
        self._image = image
        self._state = state
        self._safeguards = safeguards
        self._lost: list[NodeId] = []
        self._is_unclean = False
        self._heir: NodeId = NO_LEADER
        """Who leads next, while the one that does is still there."""
        self.replicas = list(state.replicas)
        self.adding = list(state.adding_replicas)
        self.removing = list(state.removing_replicas)
        self.isr = list(state.isr)
        self.elr = list(state.elr)
        self.last_known_elr = list(state.last_known_elr)
        self.election = Election.CLEAN
        self.must_bump_epoch = False
        self.log_ends: LogEnds | None = None
        """What the replicas have, once they were asked."""

    def remove(self, node_id: NodeId, loss: Loss) -> None:
        """The node is out of sync; if it may have lost data, it is not eligible either. Where
        waiting would bring nobody better, it stays so: the only replica there is, whatever
        happened; and after crashes of all who had everything, the last of them."""
        is_best = self.has_only(node_id) or (loss is Loss.UNFLUSHED and self._is_last(node_id))
        if loss is not Loss.NOTHING and not is_best:
            self._lost.append(node_id)
        self.isr = [each for each in self.isr if each != node_id]

    def _is_last(self, node_id: NodeId) -> bool:
        return all(each == node_id for each in (*self.isr, *self.elr))

    def has_only(self, node_id: NodeId) -> bool:
        """Whether no other replica ever had a record: those that are just being added have not."""
        had_records = (*self.isr, *self.elr, *self.last_known_elr)
        return all(
            each == node_id or (each in self.adding and each not in had_records)
            for each in self.replicas
        )

    def record(self) -> PartitionChangeRecord | None:
        """What changes of the partition; None if nothing does."""
        self._complete_reassignment()
        leader = self._elected()
        self._settle_eligible()
        return self._difference(leader)

    def _complete_reassignment(self) -> None:
        """As soon as all who are to have it are in sync, and nobody alive who is to go: the leader
        takes out who has fetched from it. If the leader itself is to go, it hands over, and goes
        like the others. Nothing is acknowledged before that; so what somebody still tells who led
        and has not heard of its end is true."""
        targets = [node for node in self.replicas if node not in self.removing]
        is_due = (self.adding or self.removing) and all(node in self.isr for node in targets)
        if not is_due:
            return
        leader, is_usable = self._state.leader, self._image.is_usable
        lingering = [node for node in self.isr if node not in targets and is_usable(node)]
        if leader in lingering:
            self._heir = choose_leader(targets, isr=self.isr, eligible=(), is_usable=is_usable)
        if not lingering:
            self.replicas, self.adding, self.removing = targets, [], []
            self.isr = [node for node in self.isr if node in targets]

    def _elected(self) -> NodeId:
        leader = self._chosen()
        if leader not in (NO_LEADER, *self.isr):
            self.isr = [leader]
        return leader

    def _chosen(self) -> NodeId:
        is_usable = self._image.is_usable
        if self._heir != NO_LEADER:
            return self._heir
        if self.election is Election.PREFERRED:
            preferred = self.replicas[0]
            if preferred in self.isr and is_usable(preferred):
                return preferred
        if self._state.leader in self.isr and is_usable(self._state.leader):
            return self._state.leader
        eligible = [node for node in self.elr if node not in self._lost]
        if Safeguard.ELIGIBLE_LEADERS not in self._safeguards:
            eligible += [*self.last_known_elr, *self._lost]
        leader = choose_leader(self.replicas, isr=self.isr, eligible=eligible, is_usable=is_usable)
        if leader == NO_LEADER and self.election is Election.UNCLEAN and not self._must_ask():
            known = {} if self.log_ends is None else self.log_ends.current(self._image, self._state)
            leader = choose_unclean_leader(
                self.replicas,
                last_known=self.last_known_elr,
                is_usable=is_usable,
                log_ends=known if self._is_by_log else {},
            )
            self._is_unclean = leader != NO_LEADER
        return leader

    @property
    def _is_by_log(self) -> bool:
        return Safeguard.UNCLEAN_BY_LOG in self._safeguards

    def _must_ask(self) -> bool:
        """Several replicas could be elected, and nobody has told yet how much each has."""
        usable = [node_id for node_id in self.replicas if self._image.is_usable(node_id)]
        return self._is_by_log and self.log_ends is None and len(usable) > 1

    def _settle_eligible(self) -> None:
        least = self._image.min_isr(self._state, replicas=len(self.replicas))
        if len(self.isr) >= least or self._is_unclean:
            self.elr, self.last_known_elr = [], []
            return
        out_of_sync = [node for node in self.replicas if node not in self.isr]
        had_everything = [*self.elr, *self._state.isr]
        self.elr = _ordered(
            node for node in had_everything if node in out_of_sync and node not in self._lost
        )
        self.last_known_elr = _ordered(
            node
            for node in (*self.last_known_elr, *had_everything)
            if node in out_of_sync and node not in self.elr
        )

    def _difference(self, leader: NodeId) -> PartitionChangeRecord | None:
        state = self._state
        is_smaller = any(node not in self.replicas for node in state.replicas)
        must_bump = (self.must_bump_epoch or is_smaller) and leader != NO_LEADER
        record = PartitionChangeRecord(
            topic_id=state.key.topic_id,
            partition=state.key.partition,
            leader=leader if leader != state.leader or must_bump else LEADER_UNCHANGED,
            isr=_changed(self.isr, state.isr),
            replicas=_changed(self.replicas, state.replicas),
            adding_replicas=_changed(self.adding, state.adding_replicas),
            removing_replicas=_changed(self.removing, state.removing_replicas),
            elr=_changed(self.elr, state.elr),
            last_known_elr=_changed(self.last_known_elr, state.last_known_elr),
        )
        nothing = PartitionChangeRecord(topic_id=record.topic_id, partition=record.partition)
        return None if record == nothing else record


def _changed(after: Sequence[NodeId], before: Sequence[NodeId]) -> list[int] | None:
    return None if list(after) == list(before) else list(after)


def _ordered(nodes: Iterable[NodeId]) -> list[NodeId]:
    return list(dict.fromkeys(nodes))
