"""One partition on this node: a log, and the rules for when a record counts.

`leader.py` is the leader's side. A record is *committed*, so visible to consumers and acknowledged
with acks=all, below the high watermark; with one replica that is what this node holds durably.
"""
