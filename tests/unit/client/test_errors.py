"""What goes wrong is said in one sentence that says what to do."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidelog.client.errors import (
    ClientError,
    GroupError,
    MessageTooLarge,
    NoBroker,
    NotAcknowledged,
    TopicExists,
    UnknownTopic,
    explained,
    explained_exception,
    no_partition,
    not_delivered,
)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            KafkaError._TRANSPORT,
            "no broker answers at here:1: start one with `tidelog serve`, "
            "or give --bootstrap HOST:PORT",
        ),
        (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            "there is no topic 'orders': create it with `tidelog topic create orders`, "
            "or see `tidelog topic list`",
        ),
        (
            KafkaError.TOPIC_ALREADY_EXISTS,
            "topic 'orders' exists already: see `tidelog topic describe orders`",
        ),
        (
            KafkaError._NOENT,
            "nobody leads topic 'orders', or a part of it, at the moment: "
            "see `tidelog topic describe orders`",
        ),
        (
            KafkaError.INVALID_PARTITIONS,
            "topic 'orders': the number of partitions is invalid (INVALID_PARTITIONS)",
        ),
    ],
)
def test_an_error_code_becomes_a_sentence(code: int, sentence: str) -> None:
    assert str(explained(KafkaError(code), bootstrap="here:1", topic="orders")) == sentence


def test_the_brokers_own_words_are_kept() -> None:
    error = KafkaError(KafkaError.INVALID_CONFIG, "segment.bytes must be at least 1024: not 3")
    sentence = str(explained(error, bootstrap="here:1", topic="orders"))
    assert sentence == (
        "topic 'orders': segment.bytes must be at least 1024: not 3 (INVALID_CONFIG)"
    )


def test_an_error_of_librdkafka_itself_is_passed_on() -> None:
    error = KafkaError(KafkaError._INVALID_ARG, "something is odd")
    assert str(explained(error, bootstrap="here:1")) == "something is odd"


def test_an_exception_is_explained_by_its_cause() -> None:
    exception = KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert "no broker answers" in str(explained_exception(exception, bootstrap="here:1"))


def test_the_partitions_there_are_are_named() -> None:
    assert str(no_partition("orders", 9, count=1)).endswith("it has only partition 0")
    assert str(no_partition("orders", 9, count=4)).endswith("it has partitions 0 to 3")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._ALL_BROKERS_DOWN, NoBroker),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopic),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExists),
        (KafkaError.MSG_SIZE_TOO_LARGE, MessageTooLarge),
        (KafkaError._MSG_TIMED_OUT, NotAcknowledged),
        (KafkaError.NON_EMPTY_GROUP, GroupError),
        (KafkaError.FENCED_INSTANCE_ID, GroupError),
        (KafkaError.INVALID_CONFIG, ClientError),
    ],
)
def test_an_error_has_a_kind_to_catch(code: int, kind: type[ClientError]) -> None:
    assert type(explained(KafkaError(code), bootstrap="here:1", topic="orders")) is kind


def test_an_error_of_a_group_names_the_group() -> None:
    error = explained(KafkaError(KafkaError.NON_EMPTY_GROUP), bootstrap="here:1", group="billing")
    assert str(error) == "group 'billing': the group has members (NON_EMPTY_GROUP)"


def test_several_failures_are_counted_and_keep_the_kind_of_the_first() -> None:
    error = not_delivered(MessageTooLarge("it is too large"), 1200)
    assert isinstance(error, MessageTooLarge)
    assert str(error) == "1,200 records were not delivered: it is too large"
