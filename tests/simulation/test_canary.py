"""Nodes that are wrong on purpose: a simulator that does not notice them is no use."""

from __future__ import annotations

import pytest

from tidelog.broker.apis.fetch import FetchWait
from tidelog.broker.effects import Effect, SendResponse
from tidelog.broker.events import Event, FrameReceived, RangeRead
from tidelog.broker.node import Node
from tidelog.broker.registration import Stage
from tidelog.log.disk import FileSpan
from tidelog.log.log import Log
from tidelog.metadata.records import MetadataRecord, ProducerIdsRecord
from tidelog.model.clock import Now
from tidelog.model.ids import Offset
from tidelog.sim.ablations import find_broken
from tidelog.sim.run import ANY_SIZE
from tidelog.wire.batch import read_header
from tidelog.wire.messages.fetch import FetchResponse

_NOW_AND_THEN = 50


class ForgetfulNode(Node):
    """Now and then it loses the last record of a partition, acknowledged or not."""

    steps = 0

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        self.steps += 1
        if self.steps % _NOW_AND_THEN == 0 and not self._is_stopped:
            for replica in list(self.state.replicas.by_key.values())[:1]:
                log, leader = replica.log, replica.leader
                if leader is not None and log.log_end_offset > log.log_start_offset:
                    log.truncate_to(Offset(log.log_end_offset - 1))
                    leader.high_watermark = min(leader.high_watermark, log.log_end_offset)
        return effects


class HoardingNode(Node):
    """It holds on to a request's memory and answers with it later, when it is another's."""

    hoard: memoryview | None = None

    def receive(self, now: Now, event: Event) -> list[Effect]:
        effects = super().receive(now, event)
        answers = [effect for effect in effects if isinstance(effect, SendResponse)]
        if isinstance(event, FrameReceived):
            if self.hoard is not None and answers and len(self.hoard) >= 8:
                answers[0].parts = [bytes(4), self.hoard[4:8]]
            self.hoard = event.frame
        return effects


class ThoroughNode(Node):
    """It reads all that it has again whenever somebody asks it for something."""

    def receive(self, now: Now, event: Event) -> list[Effect]:
        effects = super().receive(now, event)
        if isinstance(event, FrameReceived) and not self._is_stopped:
            for replica in self.state.replicas.by_key.values():
                self._read(replica.log)
        return effects

    def _read(self, log: Log) -> None:
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            span = log.read(offset, max_bytes=1, limit_offset=log.log_end_offset, at_least_one=True)
            if not isinstance(span, FileSpan):
                return
            offset = Offset(read_header(memoryview(span.read())).next_offset)


class HastyNode(Node):
    """It forgets to answer now and then: nothing is lost, but somebody waits for ever."""

    answers = 0

    def receive(self, now: Now, event: Event) -> list[Effect]:
        return self._without_some(super().receive(now, event))

    def settle(self, now: Now) -> list[Effect]:
        return self._without_some(super().settle(now))

    def _without_some(self, all_effects: list[Effect]) -> list[Effect]:
        effects = []
        for effect in all_effects:
            self.answers += isinstance(effect, SendResponse)
            if not isinstance(effect, SendResponse) or self.answers % _NOW_AND_THEN:
                effects.append(effect)
        return effects


class StubbornNode(Node):
    """It goes on leading when its session is over, and tells what was true once."""

    def start(self, now: Now) -> list[Effect]:
        effects = super().start(now)
        assert self._member is not None
        registration = self._member.registration

        def may_lead(now_ms: float, *, lease_until_ms: float = 0.0) -> bool:
            return registration.stage is Stage.SERVING

        registration.may_lead = may_lead  # type: ignore[method-assign]
        return effects


class LenientNode(Node):
    """Its leaders are content with however few are in sync."""

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        for replica in self.state.replicas.by_key.values():
            if replica.leader is not None:
                replica.leader.has_enough_replicas = True
                replica.leader.flushed()
        return effects


class LonelyNode(Node):
    """Its leaders forget now and then who is in sync beside them."""

    steps = 0

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        self.steps += 1
        for replica in self.state.replicas.by_key.values():
            if replica.leader is not None and self.steps % _NOW_AND_THEN == 0:
                replica.leader.isr.committed = (self._config.node_id,)
        return effects


class DeafNode(Node):
    """It hears of no producer ids that were given out."""

    def start(self, now: Now) -> list[Effect]:
        effects = super().start(now)
        journal = self.state.journal
        take_all = journal.take_committed

        def take_committed() -> list[MetadataRecord]:
            return [each for each in take_all() if not isinstance(each, ProducerIdsRecord)]

        if self._config.node_id == 1:
            journal.take_committed = take_committed  # type: ignore[method-assign]
        return effects


class TrustingNode(Node):
    """What a fetch would get when a read for it begins is what it gets when the read has ended,
    whatever has happened meanwhile."""

    def start(self, now: Now) -> list[Effect]:
        self._found: dict[int, FetchResponse] = {}
        return super().start(now)

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        for row in () if self._is_stopped else self.state.pending.rows():
            wait = row.wait
            if row.number not in self._found and isinstance(wait, FetchWait):
                fetch = wait._fetch
                if fetch.cold is not None and fetch.cold.awaited:
                    fetch.collect(now.monotonic_ms, may_block=True)
                    self._found[row.number] = fetch.respond()
                    fetch.forget()
        return effects

    def _on_range_read(self, now: Now, event: RangeRead, effects: list[Effect]) -> None:
        for number in self.state.reads.done(event):
            response, row = self._found.pop(number, None), self.state.pending.row(number)
            if row is not None and response is not None:
                self.state.pending.remove(row)
                self._give_out(response)
                self._requests.answer(row.slot, response, effects)

    def _give_out(self, response: FetchResponse) -> None:
        """As it was found."""


class RememberingNode(TrustingNode):
    """The same, and it remembers where in the file the batches were, but keeps no file."""

    def settle(self, now: Now) -> list[Effect]:
        effects = super().settle(now)
        for response in self._found.values():
            for topic in response.responses:
                for data in topic.partitions:
                    if isinstance(data.records, FileSpan):
                        span = data.records
                        where = (span.file, span.position, span.size)
                        data.records = where  # type: ignore[assignment]
        return effects

    def _give_out(self, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if isinstance(data.records, tuple):
                    data.records = FileSpan(*data.records)


def test_a_node_that_loses_acknowledged_records_is_caught() -> None:
    discovery = find_broken(ForgetfulNode, max_seeds=20)
    assert discovery is not None
    properties = {finding.property for finding in discovery.outcome.findings}
    assert properties & {"C1", "C3", "C4", "S1"}, properties


def test_a_node_that_keeps_a_requests_memory_is_caught() -> None:
    discovery = find_broken(HoardingNode, max_seeds=20)
    assert discovery is not None


def test_a_node_whose_steps_grow_with_its_data_is_caught() -> None:
    discovery = find_broken(ThoroughNode, max_seeds=20)
    assert discovery is not None
    assert "events takes" in discovery.outcome.findings[0].text


def test_a_node_that_does_not_look_again_after_a_read_is_caught() -> None:
    """It keeps deleted files from giving their room back."""
    discovery = find_broken(TrustingNode, max_seeds=20)
    assert discovery is not None
    assert "a deleted file takes up room" in discovery.outcome.findings[0].text


def test_a_node_that_remembers_where_batches_were_before_a_read_is_caught() -> None:
    """It sends from files that are not there any more."""
    discovery = find_broken(RememberingNode, max_seeds=40, likely=137)
    assert discovery is not None
    assert "was deleted before somebody sent from it" in discovery.outcome.findings[0].text


def test_a_node_that_swallows_an_answer_is_caught() -> None:
    discovery = find_broken(HastyNode, max_seeds=20)
    assert discovery is not None


@pytest.mark.parametrize("consensus", ["quorum", "zookeeper"])
def test_nodes_of_a_cluster_that_lose_acknowledged_records_are_caught(consensus: str) -> None:
    """Most seeds end with an assertion of the node's own, soon; the listed one gets further."""
    discovery = find_broken(
        ForgetfulNode, nodes=ANY_SIZE, consensus=consensus, max_seeds=10, likely=4
    )
    assert discovery is not None
    properties = {finding.property for finding in discovery.outcome.findings}
    assert properties & {"C1", "C3", "C4", "I7", "I8", "I10"}, properties
    assert "I13" in properties, properties


def test_nodes_of_a_cluster_that_keep_a_requests_memory_are_caught() -> None:
    discovery = find_broken(HoardingNode, nodes=ANY_SIZE, max_seeds=10)
    assert discovery is not None


def test_nodes_that_lead_on_without_a_session_are_caught() -> None:
    discovery = find_broken(StubbornNode, nodes=ANY_SIZE, max_seeds=120, likely=102)
    assert discovery is not None
    assert {finding.property for finding in discovery.outcome.findings} & {"C11"}


@pytest.mark.parametrize(("broken", "property"), [(LenientNode, "I12"), (LonelyNode, "I9")])
def test_leaders_that_count_the_others_wrong_are_caught(broken: type[Node], property: str) -> None:
    discovery = find_broken(broken, nodes=ANY_SIZE, max_seeds=40)
    assert discovery is not None
    properties = {finding.property for finding in discovery.outcome.findings}
    assert property in properties, properties


@pytest.mark.parametrize("consensus", ["quorum", "zookeeper"])
def test_a_node_that_sees_another_cluster_than_the_others_is_caught(consensus: str) -> None:
    discovery = find_broken(DeafNode, nodes=ANY_SIZE, consensus=consensus, max_seeds=10)
    assert discovery is not None
    properties = {finding.property for finding in discovery.outcome.findings}
    assert "I14" in properties, properties
