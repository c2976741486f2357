"""Connections of the simulated network."""

from __future__ import annotations

from random import Random

from tidelog.sim.network import Connection, Delivery, Network
from tidelog.sim.schedule import Schedule


class Echo:
    """A server that answers every frame with itself."""

    def __init__(self) -> None:
        self.is_up = True
        self.seen: list[str] = []

    def connection_opened(self, connection: Connection) -> bool:
        self.seen.append("opened")
        return self.is_up

    def connection_closed(self, connection: Connection) -> None:
        self.seen.append("closed")

    def frame_received(self, connection: Connection, frame: bytes) -> None:
        self.seen.append(frame.decode())
        connection.send([frame], emitted_ms=0.0)


class Bench:
    """A network with one server and one client."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.network = Network(self.schedule, Random(1))
        self.server = Echo()
        self.got: list[str] = []
        self.connection = self.network.connect(
            self.server, on_frame=self._frame, on_close=self.got.append
        )

    def _frame(self, delivery: Delivery) -> None:
        self.got.append(delivery.frame.decode())

    def wait(self, duration_ms: float = 1_000.0) -> None:
        self.schedule.run(until_ms=self.schedule.now_ms + duration_ms)


def test_frames_arrive_in_order_after_the_opening_whatever_their_delays() -> None:
    bench = Bench()
    bench.network.faults.spike_rate = 0.5
    bench.network.faults.spike_ms = 100.0
    words = [f"frame{number}" for number in range(50)]
    for word in words:
        bench.connection.send_request(word.encode())
    bench.wait(100_000.0)
    assert bench.server.seen == ["opened", *words]
    assert bench.got == words


def test_a_reset_loses_what_is_on_the_way_and_tells_both_ends() -> None:
    bench = Bench()
    bench.wait()
    bench.connection.send_request(b"lost")
    bench.connection.reset()
    bench.wait()
    assert bench.server.seen == ["opened", "closed"]
    assert bench.got == ["connection reset"]


def test_held_frames_wait_and_then_arrive() -> None:
    bench = Bench()
    bench.wait()
    bench.connection.to_node.hold(bench.schedule.now_ms + 500.0)
    bench.connection.send_request(b"held")
    bench.wait(400.0)
    assert bench.got == []
    bench.wait(400.0)
    assert bench.got == ["held"]


def test_a_paused_connection_delivers_nothing_until_it_is_resumed() -> None:
    bench = Bench()
    bench.wait()
    bench.connection.to_node.pause(True)
    bench.connection.send_request(b"patient")
    bench.wait()
    assert bench.got == []
    bench.connection.to_node.pause(False)
    bench.wait()
    assert bench.got == ["patient"]


def test_what_was_on_the_wire_when_the_host_died_still_arrives() -> None:
    bench = Bench()
    bench.wait()
    bench.connection.send([b"acknowledged"], emitted_ms=0.0)
    bench.connection.lose_host()
    bench.wait()
    assert bench.got == ["acknowledged", "connection closed"]


def test_what_had_not_left_the_host_dies_with_it() -> None:
    bench = Bench()
    bench.wait()
    bench.network.faults.slow_reader_rate = 1.0
    bench.network.faults.slow_reader_ms = 100.0
    bench.connection.send([b"buffered"], emitted_ms=0.0)
    bench.connection.lose_host()
    bench.wait()
    assert bench.got == ["connection closed"]


def test_a_node_that_closes_sends_what_is_queued_first() -> None:
    bench = Bench()
    bench.wait()
    bench.connection.send([b"goodbye"], emitted_ms=0.0)
    bench.connection.close_by_node()
    bench.wait()
    assert bench.got == ["goodbye", "connection closed"]
    assert bench.server.seen == ["opened", "closed"]


def test_nobody_at_home_refuses_the_connection() -> None:
    bench = Bench()
    bench.server.is_up = False
    bench.connection.send_request(b"hello")
    bench.wait()
    assert bench.got == ["connection refused"]
