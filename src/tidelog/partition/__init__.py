"""One partition on this node: a log, a role, and the rules for when a record counts.

A record is *committed*, so visible to consumers and acknowledged with acks=all, below the **high
watermark**: what every replica in sync holds durably. With one replica that is what this node has
flushed; there is no other code for a node that is alone.

- `replica.py`: the partition as the node keeps it; takes its role from the metadata image.
- `leader.py`: one leadership, so one leader epoch: appends, the watermark, the followers' progress
  (`progress.py`), and who is in sync (`isr.py`: what is committed, what is proposed).
- `follower.py`: one partition being followed: truncation by epoch, appends as they come, repair.
  `fetcher.py`: all partitions followed from one node, in one fetch request after the other.
- `divergence.py`: where two logs part, by (epoch, end offset) only.
- `membership.py`: what a replica must know of its own node and of the others.

Nothing here sends or waits: a fetch, a proposal for the in-sync set and a deadline are values.
Start with `leader.py`; docs/replication.md follows one record through all of it.
"""
