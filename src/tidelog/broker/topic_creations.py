"""Requests about topics that are too large to be decided in one step.

Such a request waits in `Pending` while its topics are decided on a slice at a time, each slice a
decision of its own in the metadata log. After the last one it waits for the commit as any other.
A crash in between leaves the first of its topics created; Kafka promises no more.

`SlicedTopics` is what they share: CreateTopics and Metadata, which creates topics that are asked
for (`SlicedCreation`), and CreatePartitions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidelog.broker.pending import Wait
from tidelog.broker.state import BrokerState, SlicedWait
from tidelog.controller.topics import USE_DEFAULT, TopicOutcome, TopicSpec
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, Offset

PARTITIONS_PER_SLICE = 32
"""Partitions to decide on in one slice; a topic is always decided on as a whole."""

MOST_AT_ONCE = 4 * PARTITIONS_PER_SLICE
"""A request for more is divided."""


class SlicedTopics(SlicedWait):
    """One request, as indexes of its topics, in slices."""

    def __init__(
        self, state: BrokerState, slices: deque[list[int]], *, deadline_ms: float, label: str
    ) -> None:
        self._state = state
        self._slices = slices
        self._deadline_ms = deadline_ms
        self._label = label

    @abstractmethod
    def decide(self, indexes: list[int], now: Now) -> ErrorCode:
        """Decide on these topics. An error is the answer for all the topics of the request."""

    @abstractmethod
    def conclude(self) -> tuple[Wait, Offset]:
        """After the last slice: what gives the answer, once metadata is committed past the offset
        (`NO_OFFSET` where nothing was to be recorded)."""

    @abstractmethod
    def refused(self, error: ErrorCode) -> Any:
        """The same for all: what was decided on so far may or may not come about."""

    def turn(self, number: int, now: Now) -> bool:
        """The next slice. Whether that was the last, or the last that could be decided on."""
        state = self._state
        error = self._obstacle(now) or self.decide(self._slices.popleft(), now)
        if error:
            state.complete(number, self.refused(error))
            return True
        if self._slices:
            return False
        wait, offset = self.conclude()
        if offset < state.journal.committed_offset:
            state.complete(number, wait.resume(now, is_expired=False))
        elif (row := state.pending.take(number)) is not None:
            state.pending.park_on_metadata(
                row.slot, wait, offset=offset, deadline_ms=self._deadline_ms
            )
        return True

    def resume(self, now: Now, *, is_expired: bool) -> Any | None:
        """Expired: the node stops."""
        return self.refused(ErrorCode.NOT_CONTROLLER) if is_expired else None

    def describe(self) -> str:
        left = sum(len(indexes) for indexes in self._slices)
        return f"{self._label} waits until its last {left} topics are decided on"

    def _obstacle(self, now: Now) -> ErrorCode:
        if self._state.active_controller is None:
            return ErrorCode.NOT_CONTROLLER
        if now.monotonic_ms >= self._deadline_ms:
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE


class SlicedCreation(SlicedTopics):
    """Topics to create. `result` makes a topic's result of its spec and outcome, `wait` of all
    results, in the order of `specs`, what the request waits for when the last record is at an
    offset; `refuse` makes the answer that says no.

    Where the topics are not `to_be_made` nothing is recorded, and each slice is told what the
    slices before it would have taken of the room for partitions.
    """

    def __init__(
        self,
        state: BrokerState,
        specs: Sequence[TopicSpec],
        *,
        deadline_ms: float,
        result: Callable[[TopicSpec, TopicOutcome], Any],
        wait: Callable[[list[Any], Offset], Wait],
        refuse: Callable[[ErrorCode], Any],
        label: str = "CreateTopics",
        to_be_made: bool = True,
    ) -> None:
        slices = slices_of(specs, state.config.settings.num_partitions)
        super().__init__(state, slices, deadline_ms=deadline_ms, label=label)
        self._specs = specs
        self._result = result
        self._wait = wait
        self._refuse = refuse
        self._to_be_made = to_be_made
        self._planned = 0
        self._results: dict[int, Any] = {}
        self._offset = NO_OFFSET

    def decide(self, indexes: list[int], now: Now) -> ErrorCode:
        specs = [self._specs[index] for index in indexes]
        decision = self._state.controller.create_topics(specs, planned=self._planned)
        for index, spec, outcome in zip(indexes, specs, decision.response, strict=True):
            self._results[index] = self._result(spec, outcome)
        if not self._to_be_made:
            made = (each for each in decision.response if each.error is ErrorCode.NONE)
            self._planned += sum(outcome.partitions for outcome in made)
            return ErrorCode.NONE
        offset = self._state.commit(decision, now)
        if isinstance(offset, ErrorCode):
            return offset
        self._offset = offset
        return ErrorCode.NONE

    def conclude(self) -> tuple[Wait, Offset]:
        results = [self._results[index] for index in range(len(self._specs))]
        return self._wait(results, self._offset), self._offset

    def refused(self, error: ErrorCode) -> Any:
        return self._refuse(error)


def is_for_slices(specs: Sequence[TopicSpec], default_partitions: int) -> bool:
    """Whether it is too much for one step, and can be divided."""
    return is_too_much([_size(spec, default_partitions) for spec in specs])


def is_too_much(sizes: Sequence[int]) -> bool:
    """The same, of topics with so many partitions each."""
    return len(sizes) > 1 and sum(sizes) > MOST_AT_ONCE


def slices_of(specs: Sequence[TopicSpec], default_partitions: int) -> deque[list[int]]:
    """Indexes into `specs`, in slices."""
    return divided((spec.name, _size(spec, default_partitions)) for spec in specs)


def divided(topics: Iterable[tuple[str, int]]) -> deque[list[int]]:
    """Indexes of topics, each a name and how many partitions, in slices. Topics of one name are in
    one slice: they are refused, or decided on one after the other."""
    by_name: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for index, (name, size) in enumerate(topics):
        by_name.setdefault(name, []).append(index)
        sizes[name] = sizes.get(name, 0) + size
    slices: deque[list[int]] = deque()
    room = 0
    for name, indexes in by_name.items():
        if room <= 0:
            slices.append([])
            room = PARTITIONS_PER_SLICE
        slices[-1] += indexes
        room -= sizes[name]
    return slices


def _size(spec: TopicSpec, default_partitions: int) -> int:
    """How many partitions are decided on, whatever becomes of it."""
    if spec.assignments:
        return len(spec.assignments)
    return default_partitions if spec.partitions == USE_DEFAULT else max(1, spec.partitions)
