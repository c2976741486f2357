"""All clients, for tests that ask the same of each."""

from __future__ import annotations

from tests.compat.clients.aio import Aiokafka
from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kcat import Kcat
from tests.compat.clients.message import Client

CLIENTS: tuple[Client, ...] = (ConfluentKafka(), Aiokafka(), KafkaPython(), Kcat())

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""As in the attributes of a stored batch."""
