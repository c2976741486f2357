"""librdkafka's consumer, told what is right here; what both forms of our `Consumer` share.

When a message counts as processed, and when that is written down as the group's offset, is the
difference between losing and repeating:

- *at least once*: a message is processed when the next one is asked for. Its offset is then stored,
  and librdkafka commits stored offsets every few seconds, when partitions leave, and at the end. A
  crash repeats what was not committed.
- *at most once*: messages are committed, some together, before the first of them is handed over. A
  crash loses those that were not.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tidelog.client.connection import Connection, Option
from tidelog.client.damage import DamageWatch, OnDamage
from tidelog.client.errors import (
    ClientError,
    DamagedBatch,
    explained,
    explained_exception,
    no_topic,
)
from tidelog.client.message import Message
from tidelog.client.reader import UNUSED_GROUP

log = logging.getLogger("tidelog.client")

Processing = Literal["at-least-once", "at-most-once"]
Start = Literal["earliest", "latest"]
Protocol = Literal["classic", "consumer"]

TAKEN_TOGETHER = 100
"""Messages per commit at most once: what a crash can lose, against a round trip for each."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read, by whom, and how. Without a group: all partitions, and nothing is committed."""

    topics: Sequence[str]
    group: str | None = None
    processing: Processing = "at-least-once"
    start: Start = "earliest"
    protocol: Protocol = "classic"
    instance_id: str | None = None
    until_end: bool = False
    skip_damaged: bool = False
    """Pass over batches that can't be read, rather than raise `DamagedBatch`."""

    def __post_init__(self) -> None:
        if not self.topics:
            raise ClientError("a consumer needs a topic to read")
        for name, choices in (("processing", Processing), ("start", Start), ("protocol", Protocol)):
            if getattr(self, name) not in get_args(choices):
                known = " or ".join(repr(choice) for choice in get_args(choices))
                raise ClientError(f"{name} must be {known}, not {getattr(self, name)!r}")

    @property
    def commits_first(self) -> bool:
        return self.group is not None and self.processing == "at-most-once"

    def options(self) -> dict[str, Option]:
        """For librdkafka. The newer protocol leaves sessions and assignments to the broker."""
        options: dict[str, Option] = {
            "group_id": self.group or UNUSED_GROUP,
            "enable_auto_commit": self.group is not None and not self.commits_first,
            "enable_auto_offset_store": False,
            "auto_offset_reset": self.start,
            "enable_partition_eof": self.until_end,
            "fetch_wait_max_ms": 100,
        }
        if self.instance_id is not None:
            options["group_instance_id"] = self.instance_id
        if self.group is not None and self.protocol == "consumer":
            options["group_protocol"] = "consumer"
        else:
            options["partition_assignment_strategy"] = "cooperative-sticky"
        return options


def _log_damage(damage: DamagedBatch) -> None:
    log.warning("%s; passed over", damage.what)


class Inbox:
    """Messages as they come."""

    def __init__(
        self,
        connection: Connection,
        subscription: Subscription,
        *,
        on_broker_lost: Callable[[], None] | None = None,
        on_damage: OnDamage | None = None,
    ) -> None:
        """`on_broker_lost` is called, within `take`, when no broker answers any more, and
        `on_damage` with each batch that is passed over, which is logged otherwise."""
        connection.probe()
        self._on_broker_lost = on_broker_lost
        self._connection = connection
        self._subscription = subscription
        self._taken: deque[Message] = deque()
        self._trouble: ClientError | None = None
        self._ended: set[tuple[str, int]] = set()
        self.is_at_end = False
        """Everything assigned has been read to its end (known only with `until_end`)."""
        self.client = confluent_kafka.Consumer(
            {"error_cb": self._on_trouble} | connection.configuration(**subscription.options())
        )
        self._watch = DamageWatch(
            self.client,
            connection,
            begins_at_end=subscription.start == "latest",
            on_damage=(on_damage or _log_damage) if subscription.skip_damaged else None,
        )
        try:
            self._begin()
        except BaseException:
            self.client.close()
            raise

    def take(self, timeout_s: float) -> Message | None:
        """The next message, or None if none came in time."""
        if self._taken:
            return self._taken.popleft()
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        message = self._poll(timeout_s)
        if message is not None and self._subscription.commits_first:
            return self._commit_first(message)
        return message

    def take_many(self, count: int, timeout_s: float) -> list[Message]:
        """The next message, and up to `count` in all that have come already. What came before an
        error is returned first, and the error is raised by the next call."""
        messages: list[Message] = []
        message = self.take(timeout_s)
        while message is not None:
            messages.append(message)
            try:
                message = self.take(0) if len(messages) < count else None
            except ClientError as trouble:
                self._trouble, message = trouble, None
        return messages

    def processed(self, message: Message) -> None:
        """At least once: from now on it need not come again."""
        if self._subscription.group is None or self._subscription.commits_first:
            return
        place = TopicPartition(message.topic, message.partition, message.offset + 1)
        try:
            self.client.store_offsets(offsets=[place])
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError._STATE:
                raise self._explained(exception) from None
            # The partition is another's by now, who will process the message again.

    def commit(self) -> None:
        """Write down now what is processed so far."""
        if self._subscription.group is None:
            return
        try:
            self.client.commit(asynchronous=False)
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError._NO_OFFSET:
                raise self._explained(exception) from None

    def close(self) -> None:
        """Commit what is processed, and leave the group."""
        self.client.close()

    # --- within -------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._subscription.group is not None:
            self._subscribe()
            return
        start = OFFSET_BEGINNING if self._subscription.start == "earliest" else OFFSET_END
        places = [
            TopicPartition(topic, partition, start)
            for topic in self._subscription.topics
            for partition in self._partitions(topic)
        ]
        self.client.assign(places)

    def _subscribe(self) -> None:
        """A name that begins with `^` is a pattern, and may be a wrong one."""
        topics = list(self._subscription.topics)
        try:
            self.client.subscribe(topics)
        except KafkaException:
            names = ", ".join(map(repr, topics))
            raise ClientError(f"can't read {names}: an empty name or a wrong pattern") from None

    def _partitions(self, topic: str) -> list[int]:
        try:
            metadata = self.client.list_topics(timeout=self._connection.timeout_s)
        except KafkaException as exception:
            raise self._explained(exception) from None
        if topic not in metadata.topics:
            raise no_topic(topic)
        return sorted(metadata.topics[topic].partitions)

    def _poll(self, timeout_s: float) -> Message | None:
        received = self.client.poll(timeout_s)
        self._watch.look(is_silent=received is None)
        if received is None:
            return None
        error = received.error()
        if error is None:
            if self._ended:
                self._ended.discard((received.topic() or "", received.partition() or 0))
                self.is_at_end = False
            return self._watch.opened(received)
        self._on_error(error, received)
        return None

    def _on_trouble(self, error: KafkaError) -> None:
        """Not of a message: librdkafka goes on by itself."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._on_broker_lost is not None:
            self._on_broker_lost()

    def _on_error(self, error: KafkaError, received: confluent_kafka.Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            place = (received.topic() or "", received.partition() or 0)
            self._ended.add(place)
            self._watch.received(*place, received.offset() or 0)
            assigned = {(each.topic, each.partition) for each in self.client.assignment()}
            self.is_at_end = assigned <= self._ended
        elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
            log.warning("group %r: %s", self._subscription.group, error.str())
        elif self._watch.explains(error, received):
            return
        elif error.fatal() or not error.retriable():
            raise explained(
                error,
                bootstrap=self._connection.bootstrap,
                topic=received.topic() or "",
                group=self._subscription.group or "",
            )

    def _commit_first(self, first: Message) -> Message | None:
        """Commit `first` and what has come with it; if that fails, they have not been taken."""
        messages = [first]
        while len(messages) < TAKEN_TOGETHER and (another := self._poll(0)) is not None:
            messages.append(another)
        ends: dict[tuple[str, int], int] = {}
        starts: dict[tuple[str, int], int] = {}
        for message in messages:
            place = (message.topic, message.partition)
            starts.setdefault(place, message.offset)
            ends[place] = message.offset + 1
        try:
            self.client.commit(
                offsets=[TopicPartition(*place, end) for place, end in ends.items()],
                asynchronous=False,
            )
        except KafkaException as exception:
            self._go_back(starts)
            log.warning("%s", self._explained(exception))
            return None
        self._taken.extend(messages[1:])
        return first

    def _go_back(self, starts: dict[tuple[str, int], int]) -> None:
        for place, offset in starts.items():
            try:
                self.client.seek(TopicPartition(*place, offset))
            except KafkaException:
                pass  # No longer ours: its new owner begins at what is committed.

    def _explained(self, exception: KafkaException) -> ClientError:
        return explained_exception(
            exception,
            bootstrap=self._connection.bootstrap,
            group=self._subscription.group or "",
        )
