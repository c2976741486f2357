"""Which servers take part in a run, and a fresh one of each for every measurement.

The node and the reference start in a fraction of a second, so each measurement gets its own, on an
empty directory that is deleted after it: no line inherits the dirty pages of another. Kafka takes
seconds to start and tens of thousands of requests to warm up, so one Kafka serves the whole run.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidelog.bench.kafka import running_kafka
from tidelog.bench.servers import (
    Kind,
    Server,
    node_command,
    parse_address,
    reference_command,
    running,
)


class Fleet:
    """Use as a context; `kafka_dir` and `bootstrap` as on the command line."""

    def __init__(self, *, kafka_dir: Path | None, bootstrap: str | None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
        self.kafka_dir = kafka_dir
        self._external = parse_address(bootstrap) if bootstrap else None
        self._stack = contextlib.ExitStack()
        self._kafka: Server | None = None

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def is_external(self) -> bool:
        """The node was started by somebody else: no process to start, stop or look at."""
        return self._external is not None

    @property
    def brokers(self) -> tuple[Kind, ...]:
        """Those that speak Kafka."""
        return ("node", "kafka") if self.kafka_dir else ("node",)

    @property
    def everyone(self) -> tuple[Kind, ...]:
        return ("reference", *self.brokers)

    def kafka(self) -> Server:
        """The one Kafka of the run, started when first asked for."""
        if self._kafka is None:
            assert self.kafka_dir is not None, "no --kafka was given"
            data_dir = self.directory / "kafka"
            data_dir.mkdir()
            self._kafka = self._stack.enter_context(running_kafka(self.kafka_dir, data_dir))
        return self._kafka

    @contextlib.contextmanager
    def server(
        self,
        kind: Kind,
        *,
        is_flushed: bool = False,
        fetch_bytes: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[Server]:
        """One to measure. `fetch_bytes` is what the reference answers a fetch with; `settings` are
        for a node that is started here."""
        if kind == "kafka":
            yield self.kafka()
        elif kind == "node" and self._external:
            yield Server("node", *self._external, pid=0)
        else:
            with self.empty_directory() as data_dir:
                if kind == "node":
                    command = node_command(data_dir, is_flushed=is_flushed, settings=settings)
                else:
                    command = reference_command(
                        data_dir, is_flushed=is_flushed, fetch_bytes=fetch_bytes
                    )
                with running(kind, command, log_dir=self.directory, data_dir=data_dir) as server:
                    yield server

    @contextlib.contextmanager
    def empty_directory(self) -> Iterator[Path]:
        path = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path)
