"""The features a cluster of this release has, by Kafka's names and levels (KIP-584).

A level is the whole cluster's agreement on formats and behaviour. Here each has one level only,
that of the release: nothing is to be agreed on, and nothing may be changed.

- `metadata.version` is the level of Kafka 4.3 (4.3-IV0): the release whose versions of requests are
  served (`apis/versions.py`). Kafka's metadata records have not changed since 4.0.
- `kraft.version` 1: voters join and leave while the cluster runs (KIP-853).
- `group.version` 1: the consumer protocol (KIP-848).
- `eligible.leader.replicas.version` 1: leaders from beyond the in-sync replicas (KIP-966).

There is no `transaction.version`, since there are no transactions, and no `share.version`.
"""

from __future__ import annotations

FEATURES: dict[str, int] = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 30,
}
