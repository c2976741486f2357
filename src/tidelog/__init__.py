"""Tidelog: a persistent event log and message queue that speaks the Kafka wire protocol.

The rooms, from the ground up: `model` (ids, errors, settings), `wire` (Kafka's bytes), `log` (one
partition on disk), `metadata` and `controller` (what the cluster knows, who changes it),
`partition` (one replica), `broker` (the whole node without I/O), `runtime` (sockets, files,
threads), `client`, `cli`, `sim`. Start with `ARCHITECTURE.md`.
"""

__version__ = "0.1.0"
