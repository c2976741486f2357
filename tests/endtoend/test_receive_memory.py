"""Large requests on their way in share a bounded memory, and none of them waits for ever."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from pathlib import Path

from tests.endtoend.observing import Witness, resident_bytes, wait_until
from tests.support.node_process import StartNode
from tests.support.raw_client import ConnectionLost, RawClient

_LENGTH = struct.Struct(">i")
_MEGABYTE = 1024 * 1024


def test_many_half_sent_requests_do_not_fill_the_memory(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(tmp_path / "data", "--set", f"queued.max.request.bytes={110 * _MEGABYTE}")
    request = _LENGTH.pack(50 * _MEGABYTE) + bytes(40 * _MEGABYTE)
    with ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(RawClient(node))
            client.set_timeout(0.3)
            try:
                client.send_bytes(request)
            except (TimeoutError, ConnectionLost):
                pass  # it is not read from: there is no room for it
        Witness(node).check()
        assert resident_bytes(node, "VmHWM") < 280 * _MEGABYTE
    with RawClient(node) as next_one:
        next_one.send_bytes(request)
        wait_until(
            lambda: resident_bytes(node) > 60 * _MEGABYTE, "room is there when others have gone"
        )
