"""The real broker inside your tests: in this process, in a temporary directory, on a free port.

::

    from tidelog.testing import Node

    with Node() as node:
        producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})

Nothing is imitated: it is the node that `tidelog serve` runs, on an event loop and a thread of its
own. What a broker in production does once a year can be asked of it here: `node.fail(...)`,
`node.delay(...)`, `node.crash()`, `node.advance(hours=25)`.

- `node.py` is the door; `thread.py` runs the service; `plugin.py` has the fixtures of pytest.
- The faults stand between the service and the broker, which knows nothing of them: `faults.py`
  (which requests), `gate.py` (frames), `refusal.py` (answers), `disk.py`, `clock.py`.
- `direct.py` speaks the protocol for `node.produce` and `node.records`, without a client library.

Importing this package imports no broker: pytest loads the plugin in every run of every project
that has Tidelog installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.testing.faults import Fault
    from tidelog.testing.node import Node
    from tidelog.testing.node_error import NodeError

__all__ = ["Fault", "Node", "NodeError"]

_HOMES = {
    "Fault": "tidelog.testing.faults",
    "Node": "tidelog.testing.node",
    "NodeError": "tidelog.testing.node_error",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
