"""librdkafka's admin client: asking, waiting, and what a refusal means."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidelog.client.connection import Bootstrap, connection_to
from tidelog.client.errors import ClientError, explained_exception

Answer = TypeVar("Answer")


class AdminSession:
    """What every kind of question shares. Every failure is a `ClientError`."""

    def __init__(self, bootstrap: Bootstrap = None) -> None:
        self._connection = connection_to(bootstrap)
        self._connection.probe()
        self._client = AdminClient(self._connection.configuration())

    @property
    def client(self) -> AdminClient:
        """librdkafka's admin client, for what this class does not have."""
        return self._client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held that would not go by itself; `with` is allowed for evenness."""

    @property
    def _timeout(self) -> dict[str, float]:
        return {"request_timeout": self._connection.timeout_s}

    @property
    def _timeouts(self) -> dict[str, float]:
        """For changes: until the answer comes, and until the change is carried out."""
        return {"operation_timeout": self._connection.timeout_s, **self._timeout}

    def _wait(self, future: Future[Answer], *, topic: str = "", group: str = "") -> Answer:
        try:
            return future.result()
        except KafkaException as exception:
            raise self._explained(exception, topic=topic, group=group) from None

    def _explained(
        self, exception: KafkaException, *, topic: str = "", group: str = ""
    ) -> ClientError:
        return explained_exception(
            exception, bootstrap=self._connection.bootstrap, topic=topic, group=group
        )
