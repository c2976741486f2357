"""A whole node in a test's hand: real machine, real files, no sockets; time and flushes by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from tidelog.broker.apis.versions import SERVED
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.effects import Effect, ReadRange, Report, SendResponse, StartFlush
from tidelog.broker.events import (
    ConnectionOpened,
    Event,
    FlushDone,
    FrameReceived,
    RangeRead,
    StopRequested,
    Tick,
)
from tidelog.broker.node import Node
from tidelog.log.disk import Disk, DiskError, FileSpan
from tidelog.model.clock import Now
from tidelog.model.ids import ConnectionId, NodeId
from tidelog.model.settings import Value, node_settings, parse_settings
from tidelog.runtime.file_disk import FileDisk, OpenFile
from tidelog.sim.disk import SimFile
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.records import Record, encode_batch
from tidelog.wire.requests import decode_response, encode_request
from tidelog.wire.schema import schema_of


class NodeDriver:
    """Steps a node and keeps what it does. Flushes finish at once unless `holds_flushes`, and so do
    reads of what is not in memory unless `holds_reads`."""

    def __init__(self, data_dir: Path, disk: Disk | None = None, **settings: str) -> None:
        self.data_dir = data_dir
        self.disk = disk if disk is not None else FileDisk(data_dir)
        self._values: dict[str, Value] = parse_settings(
            {name.replace("_", "."): text for name, text in settings.items()}, "node"
        )
        self.now_ms = 1_000_000.0
        self.wall_ahead_ms = 0
        self.holds_flushes = False
        self.held: list[StartFlush] = []
        self.holds_reads = False
        self.held_reads: list[ReadRange] = []
        self.effects: list[Effect] = []
        self._sent: dict[tuple[ConnectionId, int], tuple[int, int]] = {}
        self.responses: dict[int, Any] = {}
        self._next_correlation = 1
        self._next_connection = 1
        self.node = self._make()
        self.effects += self.node.start(self.now)
        self.connection = self.connect()

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_700_000_000_000 + int(self.now_ms) + self.wall_ahead_ms)

    @property
    def reports(self) -> list[str]:
        return [effect.text for effect in self.effects if isinstance(effect, Report)]

    def effects_of(self, kind: type[Effect]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def connect(self) -> ConnectionId:
        connection = ConnectionId(self._next_connection)
        self._next_connection += 1
        self.step(ConnectionOpened(connection, f"test:{connection}"))
        return connection

    def step(self, event: Event) -> list[Effect]:
        """One event, and whatever its effects lead to."""
        effects = self.node.step(self.now, event)
        self.node.validate()
        self.effects += effects
        for effect in effects:
            if isinstance(effect, SendResponse):
                self._receive(effect)
            elif isinstance(effect, StartFlush):
                self.held.append(effect)
            elif isinstance(effect, ReadRange):
                self.held_reads.append(effect)
        if not self.holds_flushes:
            self.finish_flushes()
        if not self.holds_reads:
            self.finish_reads()
        return effects

    def finish_flushes(self, error: DiskError | None = None) -> None:
        while self.held:
            effect = self.held.pop(0)
            if error is None:
                for target in effect.targets:
                    target.sync()
            self.step(FlushDone(effect.round, error))

    def finish_reads(self, error: DiskError | None = None) -> None:
        """All that are under way, and those that they lead to if reads are not held."""
        held, self.held_reads = self.held_reads, []
        for effect in held:
            assert isinstance(effect.file, OpenFile | SimFile)
            failure = error
            if failure is None:
                try:
                    effect.file.load(effect.position, effect.size)
                except DiskError as refused:
                    failure = refused
            self.step(RangeRead(effect.number, failure))

    def submit(
        self, request: Any, *, version: int | None = None, connection: ConnectionId | None = None
    ) -> int:
        """Send a request; gives its correlation id. The answer, once there, is in `responses`."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None
        chosen = SERVED[api_key].max_version if version is None else version
        correlation = self._next_correlation
        self._next_correlation += 1
        where = self.connection if connection is None else connection
        self._sent[where, correlation] = (api_key, chosen)
        frame = encode_request(request, chosen, correlation_id=correlation, client_id="test")
        self.step(FrameReceived(where, memoryview(bytearray(frame[4:]))))
        return correlation

    def request(
        self, request: Any, *, version: int | None = None, connection: ConnectionId | None = None
    ) -> Any:
        """Send a request that is answered at once."""
        return self.responses[self.submit(request, version=version, connection=connection)]

    def send_raw(self, frame: bytes) -> None:
        self.step(FrameReceived(self.connection, memoryview(bytearray(frame))))

    def advance(self, milliseconds: float) -> None:
        self.now_ms += milliseconds
        self.step(Tick())

    def stop(self) -> None:
        self.step(StopRequested())

    def restart(self) -> None:
        """Another incarnation from the same directory; without `stop` before, as after a kill."""
        self.disk = FileDisk(self.data_dir)
        self.held = []
        self.node = self._make()
        self.effects = []
        self.effects += self.node.start(self.now)
        self.connection = self.connect()

    def create_topic(self, name: str, partitions: int = 1) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.request(CreateTopicsRequest(topics=[topic]))
        return response.topics[0]

    def produce(self, topic: str, *values: bytes, acks: int = -1) -> PartitionProduceResponse:
        response = self.request(produce_request(topic, batch_of(*values), acks=acks), version=9)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def _make(self) -> Node:
        config = NodeConfig(
            node_id=NodeId(1),
            host="127.0.0.1",
            port=9092,
            settings=node_settings(self._values),
            topic_defaults=self._values,
        )
        return Node(config, self.disk, Random(1))

    def _receive(self, effect: SendResponse) -> None:
        frame = b"".join(
            part.read() if isinstance(part, FileSpan) else bytes(part) for part in effect.parts
        )
        correlation = int.from_bytes(frame[4:8], "big")
        api_key, version = self._sent[effect.connection, correlation]
        assert len(frame) - 4 == int.from_bytes(frame[:4], "big")
        _, response = decode_response(api_key, version, memoryview(frame)[4:])
        self.responses[correlation] = response


def batch_of(
    *values: bytes | None,
    timestamp: int = 1_700_000_000_000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    records = [
        Record(offset=index, timestamp=timestamp, key=None, value=value)
        for index, value in enumerate(values)
    ]
    return bytes(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, timeout_ms: int = 1000
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


def fetch_request(
    topic: str = "orders",
    offset: int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session_id: int = 0,
    session_epoch: int = -1,
    epoch: int = -1,
    partitions: tuple[int, ...] = (0,),
    max_bytes: int = 1 << 20,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        current_leader_epoch=epoch,
                        partition_max_bytes=1 << 20,
                    )
                    for partition in partitions
                ],
            )
        ],
    )
