"""A node (later: a cluster) in one process, on a simulated disk, clock and network.

The same `broker.Node` as in production, stepped by a queue of events in virtual time. Everything
that is luck comes from one seed, so a failure is replayed by its number:
`tidelog sim run --seed N`.

- `run.py` one seed from start to verdict: chaos, heal, checks. Start here.
- `cluster.py` virtual time and the hosts; `host.py` a node's incarnations on its disk.
- `disk.py` over `images.py`: what a power failure leaves; `network.py`: connections that break.
- `workload/` one file per operation; `client.py` how it talks to a node; `nemesis.py` the faults.
- `history.py` what clients saw; `checkers/` pure functions from a history to findings.
- `configuration.py` what a seed means; `ablations.py` proof that a missing safeguard is noticed.

Rules: nothing here knows the time of day, threads or sockets; each concern has its own stream of
random numbers, so that a change to the workload does not reshuffle the faults; nothing iterates a
set. A checker never sees the node: it believes the history, and what the disk holds.
"""
