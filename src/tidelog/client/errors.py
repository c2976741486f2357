"""One exception, one sentence: what went wrong and what to do about it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition

_NOBODY_ANSWERS = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
)
_NOT_ACKNOWLEDGED = (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_NO_SUCH_TOPIC = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
_NOBODY_LEADS = (KafkaError._NOENT, KafkaError.LEADER_NOT_AVAILABLE)
_ABOUT_A_GROUP = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class ClientError(Exception):
    """The message is a sentence for the user, complete in itself."""


class NoBroker(ClientError):
    """Nobody answers at the bootstrap address."""


class UnknownTopic(ClientError):
    """There is no such topic."""


class TopicExists(ClientError):
    """There is such a topic already."""


class MessageTooLarge(ClientError):
    """The topic's `max.message.bytes` does not allow it."""


class NotAcknowledged(ClientError):
    """No answer came in time: the record may or may not have been written."""


class DamagedBatch(ClientError):
    """Records that lie in the log and can't be read by anybody. `next_offset` is behind them."""

    def __init__(
        self, place: TopicPartition, first_offset: int, last_offset: int, reason: str
    ) -> None:
        self.place = place
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.next_offset = last_offset + 1
        count = last_offset - first_offset + 1
        offsets = (
            f"offsets {first_offset} to {last_offset}" if count > 1 else f"offset {last_offset}"
        )
        self.what = f"{place}: the batch at {offsets} can't be read: {reason}"
        super().__init__(
            f"{self.what}; read on from offset {self.next_offset}, or pass over what is damaged "
            "with --skip-damaged (in a program skip_damaged=True)"
        )


class GroupError(ClientError):
    """The group does not let this consumer, or this change, in."""


class UnknownGroup(GroupError):
    """There is no such group."""


def no_broker(bootstrap: str) -> NoBroker:
    """Nobody listens there, or whoever does is no broker."""
    return NoBroker(
        f"no broker answers at {bootstrap}: start one with `tidelog serve`, "
        "or give --bootstrap HOST:PORT"
    )


def no_topic(topic: str) -> UnknownTopic:
    return UnknownTopic(
        f"there is no topic {topic!r}: create it with `tidelog topic create {topic}`, "
        "or see `tidelog topic list`"
    )


def no_group(group: str) -> UnknownGroup:
    return UnknownGroup(f"there is no group {group!r}: see `tidelog group list`")


def no_partition(topic: str, partition: int, *, count: int) -> ClientError:
    numbers = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
    return ClientError(f"topic {topic!r} has no partition {partition}: it has {numbers}")


def not_delivered(first: ClientError, count: int) -> ClientError:
    """The end of a producer that has failed so many times, `first` for this reason."""
    records = "1 record was" if count == 1 else f"{count:,} records were"
    return type(first)(f"{records} not delivered: {first}")


def explained(
    error: KafkaError, *, bootstrap: str, topic: str = "", group: str = ""
) -> ClientError:
    """What `error` means to the user who asked `bootstrap` for something (of `topic`, `group`)."""
    code = error.code()
    if code in _NOBODY_ANSWERS:
        return no_broker(bootstrap)
    if code in _NO_SUCH_TOPIC:
        return no_topic(topic)
    if code in _NOBODY_LEADS and topic:
        return ClientError(
            f"nobody leads topic {topic!r}, or a part of it, at the moment: "
            f"see `tidelog topic describe {topic}`"
        )
    if code in _NOT_ACKNOWLEDGED:
        return NotAcknowledged(
            f"the broker at {bootstrap} did not acknowledge a record in time: it may or may not "
            "have been written; see the broker's log"
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return TopicExists(f"topic {topic!r} exists already: see `tidelog topic describe {topic}`")
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return MessageTooLarge(
            f"a record is larger than topic {topic!r} allows: send smaller records, or create "
            "the topic with a larger --set max.message.bytes=BYTES"
        )
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return no_group(group)
    if code in _ABOUT_A_GROUP:
        subject = f"group {group!r}: " if group else ""
        return GroupError(_in_the_brokers_words(error, subject=subject))
    return ClientError(_in_the_brokers_words(error, subject=f"topic {topic!r}: " if topic else ""))


def explained_exception(
    exception: KafkaException, *, bootstrap: str, topic: str = "", group: str = ""
) -> ClientError:
    """The same of the exception librdkafka's Python layer raises around its errors."""
    cause = exception.args[0]
    if isinstance(cause, KafkaError):
        return explained(cause, bootstrap=bootstrap, topic=topic, group=group)
    return ClientError(str(cause))


def _in_the_brokers_words(error: KafkaError, *, subject: str) -> str:
    """The broker's own message where it sent one, else our explanation of its error code."""
    number, said = error.code(), error.str()
    code = next((known for known in ErrorCode if known == number), None)
    if code is None:
        return f"{subject}{said}"
    is_stock_phrase = not said or said == _stock_phrase(number) or said.startswith("Broker:")
    return f"{subject}{code.explanation if is_stock_phrase else said} ({code.name})"


def _stock_phrase(number: int) -> str:
    """What librdkafka says of a code when the broker says nothing."""
    return KafkaError(number).str()
