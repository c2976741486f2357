"""The replicated facts of the cluster: records in a log, an image made by replaying them.

- `records.py` the kinds of record and their bytes; `journal.py` the log they are kept in.
- `states.py` nodes, partitions, topics; `image.py` all of them after a record: immutable, replaced
  whole, and written again as a snapshot. `draft.py` applies records; `delta.py` says what changed.
- `invariants.py` what holds of every image.
- `vote_file.py` where a replica of the quorum keeps its vote.
- `image.py` what is true after a record: immutable, replaced whole; `delta.py` what a step changed.

Rules: `image.replay` is the only way an image changes, live and at start; the broker sees committed
records only; a decision's records travel in one batch, so that a crash keeps all of them or none.
"""
