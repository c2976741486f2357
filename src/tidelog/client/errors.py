"""One exception, one sentence: what went wrong and what to do about it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from tidelog.model.errors import ErrorCode

_NOBODY_ANSWERS = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
)
_NOT_ACKNOWLEDGED = (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_NO_SUCH_TOPIC = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


class ClientError(Exception):
    """The message is a sentence for the user, complete in itself."""


def no_broker(bootstrap: str) -> ClientError:
    """Nobody listens there, or whoever does is no broker."""
    return ClientError(
        f"no broker answers at {bootstrap}: start one with `tidelog serve`, "
        "or give --bootstrap HOST:PORT"
    )


def no_topic(topic: str) -> ClientError:
    return ClientError(
        f"there is no topic {topic!r}: create it with `tidelog topic create {topic}`, "
        "or see `tidelog topic list`"
    )


def no_partition(topic: str, partition: int, *, count: int) -> ClientError:
    numbers = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
    return ClientError(f"topic {topic!r} has no partition {partition}: it has {numbers}")


def explained(error: KafkaError, *, bootstrap: str, topic: str = "") -> ClientError:
    """What `error` means to the user who asked `bootstrap` for something (of `topic`)."""
    code = error.code()
    if code in _NOBODY_ANSWERS:
        return no_broker(bootstrap)
    if code in _NO_SUCH_TOPIC:
        return no_topic(topic)
    if code in _NOT_ACKNOWLEDGED:
        return ClientError(
            f"the broker at {bootstrap} did not acknowledge a record in time: it may or may not "
            "have been written; see the broker's log"
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return ClientError(f"topic {topic!r} exists already: see `tidelog topic describe {topic}`")
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return ClientError(
            f"a record is larger than topic {topic!r} allows: send smaller records, or create "
            "the topic with a larger --set max.message.bytes=BYTES"
        )
    return ClientError(_in_the_brokers_words(error, subject=f"topic {topic!r}: " if topic else ""))


def explained_exception(
    exception: KafkaException, *, bootstrap: str, topic: str = ""
) -> ClientError:
    """The same of the exception librdkafka's Python layer raises around its errors."""
    cause = exception.args[0]
    if isinstance(cause, KafkaError):
        return explained(cause, bootstrap=bootstrap, topic=topic)
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
