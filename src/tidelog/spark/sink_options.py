"""The options of a write to `format("tidelog")`: Spark's Kafka names, in any case of letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tidelog.spark.cluster import Cluster
from tidelog.spark.errors import OptionError
from tidelog.spark.options import DEFAULT_TIMEOUT_S, Given
from tidelog.wire.compression import Compression

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"

DEFAULT_BATCH_BYTES = 1_000_000
"""Just below what a broker accepts unless told otherwise (`max.message.bytes`)."""

NAMES = (
    "kafka.bootstrap.servers",
    "topic",
    "deliveryGuarantee",
    "includeHeaders",
    "kafka.compression.type",
    "kafka.batch.size",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.acks",
)
_SPARKS_OWN = ("checkpointlocation", "path", "queryname", "outputmode")
"""Of every stream, and passed to its sink."""

_CODECS = tuple(each.name.lower() for each in Compression)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of a write, parsed."""

    bootstrap: str
    topic: str | None = None
    delivery_guarantee: str = AT_LEAST_ONCE
    compression: Compression = Compression.NONE
    max_batch_bytes: int = DEFAULT_BATCH_BYTES
    client_id: str = "tidelog-spark"
    timeout_s: float = DEFAULT_TIMEOUT_S

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """From the options as Spark gives them, or an `OptionError`."""
        ours = {name: text for name, text in options.items() if name.lower() not in _SPARKS_OWN}
        given = Given(ours, NAMES)
        given.switch("includeHeaders", default=True)
        if given.word("kafka.acks", ("all", "-1", "0", "1")) not in ("all", "-1"):
            raise OptionError("kafka.acks must be all: with less, what was written may be lost")
        codec = given.word("kafka.compression.type", _CODECS)
        return cls(
            bootstrap=given.bootstrap(),
            topic=given.text("topic"),
            delivery_guarantee=given.word("deliveryGuarantee", (AT_LEAST_ONCE, EXACTLY_ONCE)),
            compression=Compression[codec.upper()],
            max_batch_bytes=given.count("kafka.batch.size") or DEFAULT_BATCH_BYTES,
            client_id=given.text("kafka.client.id") or "tidelog-spark",
            timeout_s=(given.count("kafka.request.timeout.ms") or DEFAULT_TIMEOUT_S * 1000) / 1000,
        )

    def connect(self) -> Cluster:
        """The cluster that is written to; nothing is asked of it yet."""
        return Cluster(self.bootstrap, timeout_s=self.timeout_s, client_id=self.client_id)
