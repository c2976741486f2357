"""Agreeing by a ZooKeeper ensemble: the second way, beside `quorum`, behind the same port.

The metadata log itself is in ZooKeeper, as batches of the same records that the quorum keeps, and
every node replays them with the same code. So all that is above (controller, image, registration,
replication) does not know which of the two it runs on.

- `requests.py` what may be asked of ZooKeeper and what it says, as values; `talks.py` conversations
  with it: generators that yield requests and are given results.
- `paths.py` the znodes and what is in them; `layout.py` which of them a decision changes.
- `following.py` from the head znode to committed records; `presence.py` the node's own znode.
- `office.py` the controller's election, and all that a controller writes, each write checked
  against `/controller_epoch`: who was replaced can write nothing.
- `journal.py` puts them together: start reading there. ADR 13 says why it is so.

Rules: no I/O, no clock; what may or may not have happened is found out by reading, never guessed.
"""
