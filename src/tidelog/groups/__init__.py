"""Consumer groups: who reads which partition, and how far they have read.

A `Coordinator` holds the groups of one partition of `__consumer_offsets`. Every request is a
decision: *records* to append to that partition, and *replies* that may leave once the records are
committed. `replay` is the only thing that changes what is recorded, at start as while running, so
the state after a crash is the state that was answered for.

Two kinds of state, never mixed:

- *recorded*: generations, members, assignments, offsets, epochs. Rebuilt from the log.
- *soft*: who is waiting for an answer, timers, ids given out but not used yet. Gone with the
  process; clients come again.

Where to start reading: `coordinator.py` routes; `group.py` has the states of the classic protocol
and `rebalance.py` its joins; `consumer_group.py` has the newer protocol (KIP-848) and
`reconciliation.py` how a member gets from what it has to what it is to have; `migration.py` moves
a group between the two; `docs/rebalance.md` tells it as a story.
"""
