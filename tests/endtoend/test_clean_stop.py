"""SIGTERM: everything is flushed, said so, and not looked at again at the next start."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.endtoend.observing import assert_healthy, attempts, wait_until
from tests.support.node_driver import batch_of
from tests.support.node_process import RunningNode, StartNode
from tests.support.raw_client import ConnectionLost, RawClient, fetch_request, patient_produce

from tidelog.model.errors import ErrorCode

_SMALL_SEGMENTS = ("--set", "segment.bytes=4096")


def _fill(node: RunningNode, records: int = 200) -> dict[int, bytes | None]:
    with RawClient(node) as client:
        client.create_topic("t")
        for number in range(records):
            client.send(patient_produce("t", batch_of(b"%d " % number + bytes(90))), 9)
        for _ in range(records):
            client.receive()
        return client.read("t")


def _partition(node: RunningNode) -> Path:
    return next(node.data_dir.glob("topics/t.*")) / "0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean_and_told_by_a_mark(node: RunningNode, number: signal.Signals) -> None:
    values = _fill(node)
    mark = node.data_dir / "clean-shutdown"
    assert not mark.exists(), "a running node is not clean"
    node.process.send_signal(number)
    node.process.send_signal(number)
    assert node.process.wait(120) == 0
    assert mark.exists()
    node.restart()
    assert not mark.exists()
    with RawClient(node) as client:
        assert client.read("t") == values
    assert node.stop() == 0
    assert "WARNING" not in node.log
    assert "ERROR" not in node.log


def test_after_a_clean_stop_nothing_is_scanned_and_damage_waits_to_be_met(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", *_SMALL_SEGMENTS)
    values = _fill(node)
    assert node.stop() == 0
    second = sorted(_partition(node).glob("*.log"))[1]
    damaged = range(int(second.stem), int(sorted(_partition(node).glob("*.log"))[2].stem))
    rubbish = bytes(reversed(second.read_bytes()))
    second.write_bytes(rubbish)
    node.restart()
    assert "t-0" not in node.log, "the log was scanned at the start"
    with RawClient(node) as client:
        assert client.end_offset("t") == len(values)
        assert client.fetch("t", damaged[0]).error_code is ErrorCode.CORRUPT_MESSAGE
        readable, unreadable = client.read_around_damage("t")
        assert unreadable == list(damaged)
        assert readable == {o: v for o, v in values.items() if o not in damaged}
        assert client.must_produce("t", b"new") == len(values)
    wait_until(lambda: "t-0" in node.log, "the damage is reported")
    assert second.read_bytes() == rubbish, "damage was cut or overwritten"
    assert_healthy(node)


def test_records_acknowledged_during_a_stop_are_there_afterwards(node: RunningNode) -> None:
    with RawClient(node) as client:
        client.create_topic("t")
    acknowledged: list[dict[int, bytes]] = [{}, {}, {}]

    def produce(mine: dict[int, bytes], name: int) -> None:
        try:
            with RawClient(node) as client:
                for number in range(1_000_000):
                    value = b"%d-%d" % (name, number)
                    answer = client.produce("t", value)
                    if answer.error_code is ErrorCode.NONE:
                        mine[answer.base_offset] = value
        except ConnectionLost:
            pass

    for round_number in range(1, 4):
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(produce, mine, n) for n, mine in enumerate(acknowledged)]
            for _ in attempts("enough acks"):
                if sum(map(len, acknowledged)) >= 100 * round_number:
                    break
            assert node.stop() == 0
            for run in runs:
                run.result()
        assert (node.data_dir / "clean-shutdown").exists()
        node.restart()
        with RawClient(node) as client:
            values = client.read("t")
        for mine in acknowledged:
            assert mine.items() <= values.items()
    assert_healthy(node)


def test_nobody_can_keep_a_node_from_stopping(node: RunningNode) -> None:
    """Not one who waits, nor one who does not read, nor one who is in the middle of a frame."""
    with RawClient(node) as writer:
        writer.create_topic("t")
        for _ in range(10):
            writer.must_produce("t", bytes(900_000))
    with (
        RawClient(node) as waiting,
        RawClient(node, receive_buffer_bytes=4096) as deaf,
        RawClient(node) as halfway,
    ):
        waiting.send(fetch_request("t", 10, max_wait_ms=600_000), 12)
        deaf.send(fetch_request("t", 0), 12)
        deaf.receive_bytes(4)
        halfway.send_bytes(b"\0\0\1\0half")
        assert node.stop() == 0
    assert (node.data_dir / "clean-shutdown").exists()
