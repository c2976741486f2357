"""When a flush round begins: at once for who is alone, together for those who are many."""

from __future__ import annotations

from pathlib import Path

from tests.support.node_driver import NodeDriver, batch_of, produce_request

from tidelog.broker.effects import StartFlush
from tidelog.broker.flushing import GATHER_MS
from tidelog.log.disk import DiskError
from tidelog.model.ids import ConnectionId

_MOMENT_MS = GATHER_MS / 10


class Writers:
    """A node whose flushes are finished by hand, and clients that write to it."""

    def __init__(self, path: Path, clients: int) -> None:
        self.driver = NodeDriver(path)
        self.driver.create_topic("orders")
        self.clients = [self.driver.connect() for _ in range(clients)]
        self.driver.advance(10 * GATHER_MS)
        self.driver.holds_flushes = True

    def write(self, client: ConnectionId) -> int:
        request = produce_request("orders", batch_of(b"value"))
        return self.driver.submit(request, version=9, connection=client)

    def rounds(self) -> int:
        return len(self.driver.effects_of(StartFlush))

    def has_answered(self, number: int) -> bool:
        return number in self.driver.responses


def test_a_client_that_writes_alone_is_flushed_at_once_every_time(tmp_path: Path) -> None:
    on = Writers(tmp_path, clients=2)
    for _ in range(5):
        before = on.rounds()
        number = on.write(on.clients[0])
        assert on.rounds() == before + 1
        on.driver.finish_flushes()
        assert on.has_answered(number)
        on.driver.now_ms += _MOMENT_MS


def test_a_round_waits_for_those_that_the_last_one_answered(tmp_path: Path) -> None:
    on = Writers(tmp_path, clients=2)
    before = on.rounds()
    on.write(on.clients[0])
    second = on.write(on.clients[1])
    on.driver.finish_flushes()
    assert on.rounds() == before + 1, "the first may write again"
    on.driver.now_ms += _MOMENT_MS
    third = on.write(on.clients[0])
    assert on.rounds() == before + 2, "nobody else is expected"
    on.driver.finish_flushes()
    assert on.has_answered(second)
    assert on.has_answered(third)


def test_a_round_does_not_wait_for_long(tmp_path: Path) -> None:
    on = Writers(tmp_path, clients=2)
    on.write(on.clients[0])
    began_ms = on.driver.now_ms
    on.driver.finish_flushes()
    before = on.rounds()
    number = on.write(on.clients[1])
    assert on.rounds() == before
    assert on.driver.node.next_deadline() == began_ms + GATHER_MS
    on.driver.advance(GATHER_MS)
    assert on.rounds() == before + 1
    on.driver.finish_flushes()
    assert on.has_answered(number)


def test_metadata_is_flushed_at_once(tmp_path: Path) -> None:
    on = Writers(tmp_path, clients=2)
    on.write(on.clients[0])
    on.driver.finish_flushes()
    before = on.rounds()
    on.driver.holds_flushes = False
    assert on.driver.create_topic("more").error_code == 0
    assert on.rounds() > before


def test_a_round_that_waits_is_given_up_with_the_disk(tmp_path: Path) -> None:
    on = Writers(tmp_path, clients=2)
    on.write(on.clients[0])
    on.driver.finish_flushes()
    on.write(on.clients[1])
    on.driver.node.state.fail_storage(DiskError("broken"))
    on.driver.advance(GATHER_MS)
    deadline_ms = on.driver.node.next_deadline()
    assert deadline_ms is not None
    assert deadline_ms > on.driver.now_ms
