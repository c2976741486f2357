"""Consensus for the cluster's metadata log: a Raft in which followers pull, as in Kafka's KRaft.

- `quorum.py` the machine: events in, effects out. Start reading there.
- `states.py` the states and their steps, as data; `roles.py` how each state is entered.
- `elections.py` votes; `leading.py` a leader's work; `following.py` a follower's and an observer's;
  `membership.py` voters that come and go; `snapshots.py` a log that begins later.
- `core.py` the state all of these share; `leadership.py` a leader's arithmetic; `voters.py` who may
  vote, and since which offset.
- `messages.py` what replicas say to each other, one to one with Kafka's; `translation.py` and
  `admin_translation.py` the same as messages of the wire; `batches.py` what is in the log.
- `ports.py` what the machine needs from outside: a log, and a place for its vote.

Rules: no reply before epoch and vote are durable; a position counts when it is flushed; nothing is
committed before a record of the leader's own epoch is; a log is cut by epochs, never below the high
watermark; a change of voters counts from its append, and the next waits for its commit.
"""
