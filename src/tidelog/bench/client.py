"""Load through librdkafka: what a real client gets, without Python in the way of its records."""

from __future__ import annotations

import ctypes
import threading
import time

from tidelog.bench.figures import Latencies, Outcome
from tidelog.bench.jobs import ClientConsumeJob, ClientProduceJob
from tidelog.bench.pace import BACKLOG_SECONDS, sharpen_timers
from tidelog.bench.pump import DRAIN_SECONDS, ServerGone
from tidelog.bench.rdkafka import CONSUMER, OFFSET_BEGINNING, PRODUCER, Client, Message
from tidelog.bench.window import Window

_BATCH_MESSAGES = 5_000
_SERVE_MS = 50

_THROUGHPUT = {
    "linger.ms": "5",
    "batch.size": "1000000",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "1048576",
    "delivery.report.only.error": "true",
}
"""Full batches. The queue is deep enough that the sender thread never waits for this one."""

_LOW_LATENCY = {"linger.ms": "0", "socket.nagle.disable": "true"}

_CONSUME = {
    "fetch.message.max.bytes": "1048576",
    "fetch.max.bytes": "52428800",
    "queued.min.messages": "1000000",
    "queued.max.messages.kbytes": "524288",
    "fetch.queue.backoff.ms": "5",
    "check.crcs": "false",
    "enable.auto.commit": "false",
    "group.id": "bench",
}
"""As much read ahead as librdkafka does at its fastest; `check.crcs` is off by default there."""


def run_client(job: ClientProduceJob | ClientConsumeJob) -> Outcome:
    if isinstance(job, ClientConsumeJob):
        return _consume(job)
    return _produce_paced(job) if job.rate else _produce(job)


def _produce(job: ClientProduceJob) -> Outcome:
    client = Client(
        PRODUCER,
        {"bootstrap.servers": job.bootstrap, "acks": job.acks, **_THROUGHPUT},
        topic=job.topic,
    )
    library, handle = client.library, client.handle
    payload = ctypes.create_string_buffer(job.value_bytes)
    messages = (Message * _BATCH_MESSAGES)()
    for message in messages:
        message.payload = ctypes.addressof(payload)
        message.length = job.value_bytes
    window = Window(seconds=job.seconds, server_pid=job.server_pid, start_at=job.start_at)
    queued = partition = 0
    while not window.is_over(queued - library.rd_kafka_outq_len(handle)):
        accepted = library.rd_kafka_produce_batch(
            client.topic, partition, 0, messages, _BATCH_MESSAGES
        )
        queued += accepted
        partition = (partition + 1) % job.partitions
        library.rd_kafka_poll(handle, 0 if accepted == _BATCH_MESSAGES else 1)
    if library.rd_kafka_flush(handle, int(DRAIN_SECONDS * 1000)):
        raise ServerGone(f"{library.rd_kafka_outq_len(handle)} records were never acknowledged")
    client.close()
    return window.outcome(
        total_requests=queued, records_per_request=1, bytes_per_request=job.value_bytes
    )


class _Reports(threading.Thread):
    """Takes delivery reports as they come; librdkafka itself tells each record's latency."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._queue = client.library.rd_kafka_queue_get_main(client.handle)
        self.latencies: list[float] = []
        self.failed = 0
        self.is_wanted = True

    def run(self) -> None:
        library = self._client.library
        while self.is_wanted:
            event = library.rd_kafka_queue_poll(self._queue, _SERVE_MS)
            if not event:
                continue
            while message := library.rd_kafka_event_message_next(event):
                self.failed += message.contents.err != 0
                self.latencies.append(library.rd_kafka_message_latency(message) / 1e6)
            library.rd_kafka_event_destroy(event)
        library.rd_kafka_queue_destroy(self._queue)


def _produce_paced(job: ClientProduceJob) -> Outcome:
    sharpen_timers()
    client = Client(
        PRODUCER,
        {"bootstrap.servers": job.bootstrap, "acks": job.acks, **_LOW_LATENCY},
        topic=job.topic,
        delivery_reports=True,
    )
    reports = _Reports(client)
    reports.start()
    library, payload = client.library, ctypes.create_string_buffer(job.value_bytes)
    window = Window(seconds=job.seconds, server_pid=job.server_pid)
    interval, sent, skipped = 1.0 / job.rate, 0, 0
    next_due = time.monotonic()
    while not window.is_over(len(reports.latencies)):
        time.sleep(max(0.0, next_due - time.monotonic()))
        next_due += interval
        refused = library.rd_kafka_produce(
            client.topic, 0, 0, payload, job.value_bytes, None, 0, None
        )
        if refused:
            raise ServerGone(client.last_error())
        sent += 1
        if not window.has_begun:
            skipped = len(reports.latencies)
    _finish(client, reports, sent)
    return window.outcome(
        total_requests=sent,
        records_per_request=1,
        bytes_per_request=job.value_bytes,
        latencies=Latencies.of_seconds(reports.latencies[skipped:]),
    )


def _finish(client: Client, reports: _Reports, sent: int) -> None:
    give_up = time.monotonic() + BACKLOG_SECONDS
    while len(reports.latencies) < sent and time.monotonic() < give_up:
        time.sleep(0.01)
    reports.is_wanted = False
    reports.join()
    unanswered = sent - len(reports.latencies)
    client.close()
    if unanswered or reports.failed:
        raise ServerGone(f"{unanswered} records unanswered, {reports.failed} refused")


def _consume(job: ClientConsumeJob) -> Outcome:
    client = Client(CONSUMER, {"bootstrap.servers": job.bootstrap, **_CONSUME}, topic=job.topic)
    library = client.library
    queue = library.rd_kafka_queue_new(client.handle)
    for partition in range(job.partitions):
        if library.rd_kafka_consume_start_queue(client.topic, partition, OFFSET_BEGINNING, queue):
            raise ServerGone(client.last_error())
    window = Window(seconds=job.seconds, server_pid=job.server_pid, start_at=job.start_at)
    records = (_read_all if job.records else _follow)(client, queue, window, job)
    for partition in range(job.partitions):
        library.rd_kafka_consume_stop(client.topic, partition)
    library.rd_kafka_queue_destroy(queue)
    client.close()
    return window.outcome(
        total_requests=records, records_per_request=1, bytes_per_request=job.value_bytes
    )


def _serve(client: Client, queue: int) -> int:
    """Records taken from the queue. The callback must be C to be quick, so it is a function of
    librdkafka's own that has the right parameters and no effect."""
    served: int = client.library.rd_kafka_consume_callback_queue(
        queue, _SERVE_MS, client.library.rd_kafka_message_timestamp, None
    )
    if served < 0:
        raise ServerGone(client.last_error())
    return served


def _read_all(client: Client, queue: int, window: Window, job: ClientConsumeJob) -> int:
    """From the first record to the last of `job.records`."""
    give_up = time.monotonic() + job.seconds + DRAIN_SECONDS
    records = 0
    while records < job.records:
        served = _serve(client, queue)
        if served and not records:
            window.begin_now(served)
        records += served
        if time.monotonic() > give_up:
            raise ServerGone(f"only {records} of {job.records} records came")
    window.end_now(records)
    return records


def _follow(client: Client, queue: int, window: Window, job: ClientConsumeJob) -> int:
    """Whatever comes within the window, from a log that is being written."""
    records = 0
    while not window.is_over(records):
        records += _serve(client, queue)
    return records
