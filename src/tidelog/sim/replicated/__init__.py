"""Whole clusters in one process: three or five of the real node, and everything between them.

A generator of its own beside `sim.actors`, written without looking at it: producers that keep a
window per partition, readers that follow leaders around, somebody who commits offsets, and a
nemesis that kills, freezes, cuts off and fills up nodes. The checkers are the same.

- `run.py` one seed from start to verdict; `configuration.py` what a seed means.
- `router.py` how clients find leaders; `workload.py` what they do; `clients.py` how the actors of
  one node come along; `administration.py` and `owning.py` what is done to topics.
- `nemesis.py` what goes wrong, `plots.py` what goes wrong in a certain order; `directories.py`
  which disks may be lost, and when.
- `invariants.py` and `quorum_watch.py` what must be true of the nodes' own state after every step.

Rules: a client makes one attempt per call and records what it knows; whatever the nemesis does, at
least one good copy of every acknowledged record is left, so that a red seed is always a bug.
"""
