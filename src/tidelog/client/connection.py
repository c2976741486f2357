"""Where the cluster is, and what all of librdkafka's handles are told."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.client.errors import ClientError, no_broker

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "TIDELOG_BOOTSTRAP"

Option = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Connection:
    """One or more `HOST:PORT`, separated by commas, and how long to wait for an answer.

    `options` are librdkafka's own, for what is not ours to know: TLS, SASL, proxies. They win over
    everything else.
    """

    bootstrap: str = DEFAULT_BOOTSTRAP
    timeout_s: float = 10.0
    options: Mapping[str, Option] = field(default_factory=dict)

    def configuration(self, **options: Option) -> dict[str, Option]:
        """librdkafka's options: ours, and those given (`_` stands for `.`).

        `log_level=0` keeps librdkafka's own log lines off the terminal. The short reconnect
        backoff lets a client find a node again within half a second of its restart.
        """
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "tidelog",
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            **{name.replace("_", "."): value for name, value in options.items()},
            **self.options,
        }

    def probe(self) -> None:
        """`NoBroker` unless somebody accepts connections there.

        librdkafka tries a refused connection again until the whole timeout has passed. A person
        who forgot to start the broker should hear so at once.
        """
        for host, port in self.addresses():
            try:
                socket.create_connection((host, port), timeout=min(self.timeout_s, 5.0)).close()
            except OSError:
                continue
            return
        raise no_broker(self.bootstrap)

    def addresses(self) -> list[tuple[str, int]]:
        """Each host and port of `bootstrap`; a part that is none is a `ClientError`."""
        return [_address(part.strip()) for part in self.bootstrap.split(",")]


Bootstrap = Connection | str | None
"""How a cluster may be given: its bootstrap addresses, a whole connection, or nothing."""


def connection_to(bootstrap: Bootstrap) -> Connection:
    """Nothing given means the variable `TIDELOG_BOOTSTRAP`, else a node on this machine."""
    if isinstance(bootstrap, Connection):
        return bootstrap
    return Connection(bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65_536):
        raise ClientError(f"a bootstrap address must be HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)
