"""What a test sees of a node from outside: its memory, its processor time, and a good client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.eventually import RanOutOfTime
from tests.support.node_process import RunningNode
from tests.support.raw_client import RawClient, opened

DEADLINE_S = 120.0
MAX_RESIDENT_BYTES = 300_000_000
"""A node with nothing to do takes 30 MB."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def resident_bytes(node: RunningNode, field: str = "VmRSS") -> int:
    """`VmRSS` is now, `VmHWM` the most there ever was."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def processor_seconds(node: RunningNode) -> float:
    """Spent by the node so far, in its own code and in the kernel for it."""
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def has_signal_pending(node: RunningNode) -> bool:
    """A signal was sent to the process, and its handler has not run yet."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    lines = (line for line in status.splitlines() if line.startswith(("ShdPnd:", "SigPnd:")))
    return any(int(line.split()[1], 16) for line in lines)


def open_descriptors(node: RunningNode) -> list[str]:
    """What each of the node's descriptors leads to."""
    targets = []
    for link in Path(f"/proc/{node.process.pid}/fd").iterdir():
        try:
            targets.append(str(link.readlink()))
        except FileNotFoundError:  # closed meanwhile
            pass
    return targets


def open_sockets(node: RunningNode) -> int:
    """Its connections, and the few sockets that are none."""
    return sum(target.startswith("socket:") for target in open_descriptors(node))


def attempts(what: str) -> Iterator[None]:
    """`for _ in attempts("…")`: until the loop is left, or too much time has passed."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        yield
        time.sleep(0.01)
    raise RanOutOfTime(f"{what} did not come about within {DEADLINE_S:.0f} s")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    for _ in attempts(what):
        if condition():
            return


class Witness:
    """A well-behaved client. `check` proves that the node still does its work."""

    TOPIC = "witness"

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._client = RawClient(node)
        self._client.create_topic(self.TOPIC)
        self._sent: list[bytes] = []

    def check(self) -> None:
        """A record goes in and comes out, on a connection that was there before the trouble."""
        value = b"proof %d" % len(self._sent)
        assert self._client.must_produce(self.TOPIC, value) == len(self._sent)
        self._sent.append(value)
        data = self._client.fetch(self.TOPIC, len(self._sent) - 1)
        assert opened(data) == {len(self._sent) - 1: value}

    def close(self) -> None:
        """All of it once more, on a new connection; the node is well and has stayed small."""
        self.check()
        self._client.close()
        with RawClient(self._node) as client:
            assert client.read(self.TOPIC) == dict(enumerate(self._sent))
        assert_healthy(self._node)


def assert_healthy(node: RunningNode) -> None:
    assert node.process.poll() is None, "the node has ended"
    assert "Traceback" not in node.log, node.log
    assert resident_bytes(node) < MAX_RESIDENT_BYTES
