"""Groups under random traffic: members of both protocols come, go, die and commit, the node
crashes, topics change; and after every step what must always hold does.

- G1: generations and epochs of a group never go back, and none is given to two memberships.
- G2: a partition has one owner among those who are up to date, as the clients see it themselves.
- G3: a commit succeeds only from the present generation (or member epoch).
- G4: what is recorded is a function of the log, whole or compacted.
- Liveness: left in peace, the group becomes stable and everything is read by somebody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.group_driver import FixedTopics, GroupDriver

from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import GroupRecord
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

TOPICS = ("x", "y")
SLOTS = 5


@dataclass
class Client:
    """A consumer that does what the protocol tells it to, when the test lets it."""

    name: str
    instance: str | None = None
    is_newer: bool = False
    is_cooperative: bool = False
    member_id: str = ""
    epoch: int = 0
    owned: set[tuple[str, int]] = field(default_factory=set)
    join_ticket: int | None = None
    sync_ticket: int | None = None
    leads: list[str] = field(default_factory=list)
    """The members it has to assign to."""
    topics_seen: int = 0
    """A leader looks at the topics, and joins again when they have changed."""
    must_report: bool = False
    must_rejoin: bool = False
    """Has given up what a cooperative leader took from it, and has to say so."""
    has_lost_answer: bool = False

    def lost(self) -> None:
        """The coordinator does not know us: start over with nothing."""
        self.member_id, self.epoch = ("" if not self.is_newer else self.member_id), 0
        self.owned = set()
        self.join_ticket = self.sync_ticket = None


def named(owned: set[tuple[str, int]]) -> list[TopicPartition]:
    return [
        TopicPartition(topic=name, partitions=sorted(p for t, p in owned if t == name))
        for name in sorted({topic for topic, _ in owned})
    ]


class Groups(RuleBasedStateMachine):
    """One group `g`, five consumers, two topics."""

    @initialize(
        delay=st.sampled_from([0, 3_000]),
        crew=st.lists(
            st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=2, max_size=4
        ),
        rounds=st.integers(0, 8),
    )
    def start(self, delay: int, crew: list[tuple[bool, bool, bool]], rounds: int) -> None:
        self.driver = GroupDriver(
            FixedTopics(x=3, y=2), group_initial_rebalance_delay_ms=delay, group_max_size=4
        )
        self.clients: dict[int, Client] = {}
        self.born = 0
        self.highest = 0
        self.begun: dict[int, frozenset[str]] = {}
        for slot, (is_newer, is_cooperative, is_static) in enumerate(crew):
            self.start_consumer(slot, is_newer, is_cooperative, is_static)
            self.everybody_goes_on(1)
        self.everybody_goes_on(rounds)

    # Consumers come and go.

    @rule(
        slot=st.integers(0, SLOTS - 1),
        is_newer=st.booleans(),
        is_cooperative=st.booleans(),
        is_static=st.booleans(),
    )
    def start_consumer(
        self, slot: int, is_newer: bool, is_cooperative: bool, is_static: bool
    ) -> None:
        """In the place of one that was killed without a word, if there was one."""
        self.born += 1
        before = self.clients.get(slot)
        if before is not None:
            self.disconnect(before)
        name = f"m{self.born}"
        self.clients[slot] = Client(
            name=name,
            instance=f"i{slot}" if is_static else None,
            is_newer=is_newer,
            is_cooperative=is_cooperative,
            member_id=name if is_newer else "",
        )

    def disconnect(self, client: Client) -> None:
        for ticket in (client.join_ticket, client.sync_ticket):
            if ticket is not None:
                self.driver.coordinator.abandon(ticket)
        client.join_ticket = client.sync_ticket = None

    @rule(slot=st.integers(0, SLOTS - 1))
    def break_connection(self, slot: int) -> None:
        if slot in self.clients:
            self.disconnect(self.clients[slot])

    @rule(slot=st.integers(0, SLOTS - 1))
    def leave(self, slot: int) -> None:
        client = self.clients.pop(slot, None)
        if client is None:
            return
        self.disconnect(client)
        if client.is_newer and client.epoch:
            self.driver.pulse(
                client.member_id, -1 if client.instance is None else -2, instance=client.instance
            )
        elif client.member_id and client.instance is None:
            self.driver.leave(client.member_id)

    # What a consumer does next.

    @rule(
        slot=st.integers(0, SLOTS - 1),
        subscribe_to=st.sampled_from([["x"], ["x", "y"]]),
        loses_answer=st.booleans(),
    )
    def go_on(self, slot: int, subscribe_to: list[str], loses_answer: bool) -> None:
        client = self.clients.get(slot)
        if client is None:
            return
        if client.is_newer:
            self.pulse(client, subscribe_to, loses_answer=loses_answer)
        elif client.join_ticket is None and client.sync_ticket is None:
            self.classic_step(client, subscribe_to)
        self.collect()

    @rule(rounds=st.integers(1, 4))
    def everybody_goes_on(self, rounds: int) -> None:
        for _ in range(rounds):
            for slot in sorted(self.clients):
                self.go_on(slot, ["x", "y"], loses_answer=False)
            self.driver.advance(500)

    def pulse(self, client: Client, topics: list[str], *, loses_answer: bool) -> None:
        is_joining = client.epoch == 0
        is_full = is_joining or client.has_lost_answer
        owned = {t.topic: t.partitions for t in named(client.owned)}
        gone = [name for name in owned if self.driver.topics.topic_id(name) is None]
        for name in gone:
            del owned[name]
        answer = self.driver.pulse(
            client.member_id,
            client.epoch,
            topics=topics if is_full else None,
            owned=owned if is_full or client.must_report else None,
            rebalance_timeout_ms=20_000 if is_full else -1,
            instance=client.instance,
        )
        client.has_lost_answer = loses_answer and not is_joining
        if client.has_lost_answer:
            return
        client.must_report = False
        if answer.error_code is not ErrorCode.NONE:
            client.lost()
            return
        client.epoch = answer.member_epoch
        assigned = self.driver.assigned(answer)
        if assigned is not None:
            client.owned = {(t, p) for t, numbers in assigned.items() for p in numbers}
            client.must_report = True

    def classic_step(self, client: Client, topics: list[str]) -> None:
        has_news = bool(client.leads) and client.topics_seen != self.driver.topics.version
        if client.epoch and not client.must_rejoin and not has_news:
            error = self.driver.beat(client.member_id, client.epoch, instance=client.instance)
            if error is ErrorCode.NONE:
                return
            if error is not ErrorCode.REBALANCE_IN_PROGRESS:
                client.lost()
        self.join(client, topics)

    def join(self, client: Client, topics: list[str]) -> None:
        client.must_rejoin = False
        client.topics_seen = self.driver.topics.version
        if not client.is_cooperative:
            client.owned = set()
        said = ConsumerProtocolSubscription(
            topics=topics, owned_partitions=named(client.owned), generation_id=client.epoch
        )
        client.join_ticket = self.driver.join(
            client.member_id,
            instance=client.instance,
            protocols={"p": encode_subscription(said, 2)},
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            two_step=True,
        )

    def collect(self) -> None:
        """Deliver the answers that have come."""
        for client in self.clients.values():
            while (ticket := client.join_ticket) in self.driver.replies and ticket is not None:
                client.join_ticket = None
                self.joined(client, self.driver.joined(ticket))
            if client.sync_ticket in self.driver.replies and client.sync_ticket is not None:
                answer = self.driver.synced(client.sync_ticket)
                client.sync_ticket = None
                if answer.error_code is ErrorCode.NONE:
                    self.receive(client, answer.assignment)
                else:
                    client.lost()

    def joined(self, client: Client, answer: Any) -> None:
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            self.join(client, ["x"])
            return
        if answer.error_code is not ErrorCode.NONE:
            client.lost()
            return
        client.member_id, client.epoch = answer.member_id, answer.generation_id
        client.leads = [member.member_id for member in answer.members]
        if client.leads and not answer.skip_assignment:
            known = self.begun.setdefault(answer.generation_id, frozenset(client.leads))
            assert known == frozenset(client.leads), "two memberships of one generation"
        shares = self.assign(client.leads) if client.leads else None
        client.sync_ticket = self.driver.sync(
            client.member_id, client.epoch, shares, instance=client.instance
        )

    def assign(self, members: list[str]) -> dict[str, bytes]:
        """As a leader does it, not giving to anybody what another still owns."""
        owners = {
            partition: client.member_id
            for client in self.clients.values()
            for partition in client.owned
            if client.member_id in members
        }
        shares: dict[str, set[tuple[str, int]]] = {member: set() for member in members}
        for place, partition in enumerate(self.everything()):
            taker = members[place % len(members)]
            if owners.get(partition, taker) == taker:
                shares[taker].add(partition)
        return {
            member: encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named(share)))
            for member, share in shares.items()
        }

    def receive(self, client: Client, assignment: bytes) -> None:
        given = decode_assignment(assignment).assigned_partitions if assignment else []
        before = client.owned
        client.owned = {(topic.topic, number) for topic in given for number in topic.partitions}
        client.must_rejoin = not before <= client.owned

    @rule(is_late=st.booleans())
    def everybody_commits(self, is_late: bool) -> None:
        for slot in sorted(self.clients):
            self.commit(slot, is_late, 1)

    @rule(slot=st.integers(0, SLOTS - 1), is_late=st.booleans(), offset=st.integers(0, 9))
    def commit(self, slot: int, is_late: bool, offset: int) -> None:
        client = self.clients.get(slot)
        if client is None or not client.member_id:
            return
        epoch = client.epoch - is_late
        present = self.present_epochs().get(client.member_id)
        reached = self.reached_epochs().get(client.member_id, present)
        error = self.driver.commit(
            offset, member_id=client.member_id, generation=epoch, topic="x", partition=0
        )
        if error is ErrorCode.NONE and present is not None:
            assert epoch in (present, reached), "a commit from another generation was taken"
        if error is ErrorCode.NONE and present is None:
            assert epoch < 0, "a commit of a stranger was taken"

    # The world.

    @rule(milliseconds=st.sampled_from([100, 4_000, 11_000, 50_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)
        self.collect()

    @rule()
    def crash(self) -> None:
        self.driver.restart()
        for client in self.clients.values():
            client.join_ticket = client.sync_ticket = None

    @rule(partitions=st.integers(3, 5))
    def grow(self, partitions: int) -> None:
        if self.driver.topics.partitions("x") or partitions > 9:
            self.driver.topics.grow("x", partitions)

    def teardown(self) -> None:
        """In peace, everybody who can be in the group is, and nobody waits."""
        for _ in range(40):
            for slot in sorted(self.clients):
                self.go_on(slot, ["x", "y"], loses_answer=False)
            self.time_passes(2_000)
        group = self.group()
        present = self.present_epochs()
        members = [c for c in self.clients.values() if c.member_id in present]
        if not self.clients:
            return
        assert group is not None
        assert members
        newer = group["type"] == "consumer"
        state = self.driver.newer_state() if newer else self.driver.state()
        assert state == "Stable"
        assert sorted(c.member_id for c in members) == sorted(present)
        assert all(client.epoch == present[client.member_id] for client in members)
        read = {partition for client in members for partition in client.owned}
        assert {partition for partition in self.everything() if partition[0] == "x"} <= read

    def everything(self) -> list[tuple[str, int]]:
        return [
            (name, number)
            for name in TOPICS
            for number in range(self.driver.topics.partitions(name) or 0)
        ]

    # What must hold.

    def group(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.driver.coordinator.recorded()["groups"].get("g")
        return found

    def present_epochs(self) -> dict[str, int]:
        """By member id."""
        group = self.group()
        if group is None:
            return {}
        if group["type"] == "classic":
            return dict.fromkeys(group["members"], group["generation"])
        return {member_id: member["epoch"] for member_id, member in group["members"].items()}

    def reached_epochs(self) -> dict[str, int]:
        """Of members that were behind when the group came back to the classic protocol: until the
        rebalance that follows is over, they go on in the epoch that they had reached."""
        group = self.group()
        if group is None or group["type"] != "classic":
            return {}
        epochs = {name: member["epoch_reached"] for name, member in group["members"].items()}
        return {name: epoch for name, epoch in epochs.items() if epoch >= 0}

    @invariant()
    def numbers_never_go_back(self) -> None:
        group = self.group()
        if group is not None:
            number = group["generation"] if group["type"] == "classic" else group["epoch"]
            assert number >= self.highest
            self.highest = number

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        present = self.present_epochs()
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients.values():
            if client.epoch and present.get(client.member_id) == client.epoch:
                for partition in client.owned:
                    other = owners.setdefault(partition, client.member_id)
                    assert other == client.member_id, f"{partition} has two owners"

    @invariant()
    def nobody_has_what_the_coordinator_gave_to_another(self) -> None:
        """Of the newer protocol also those who are behind: theirs is what they have not given up,
        whether our answer has reached them or not."""
        group = self.group()
        if group is None or group["type"] == "classic":
            return
        for client in self.clients.values():
            member = group["members"].get(client.member_id)
            if member is not None and client.epoch:
                theirs = {*member["assigned"], *member["revoking"]}
                for topic, number in client.owned:
                    assert f"{self.driver.topic_id(topic)}-{number}" in theirs

    @invariant()
    def the_log_tells_all(self) -> None:
        recorded = self.driver.coordinator.recorded()
        last = {record.key: index for index, record in enumerate(self.driver.log)}
        compacted = [self.driver.log[index] for index in sorted(last.values())]
        without_tombstones = [record for record in compacted if record.value is not None]
        for log in (compacted, without_tombstones):
            assert self.replayed(log).recorded() == recorded

    def replayed(self, log: list[GroupRecord]) -> Coordinator:
        return self.driver.replayed(log)


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
