"""Whole jobs on Spark: what `tidelog spark …` runs, one file each.

Those that follow a topic into a lake (`archive.py`, `table.py`) share their loop, `follower.py`:
the driver plans offset ranges and commits, tasks move the records, and only short manifests pass
through Spark (`tasks.py`). Each can be killed at any moment and started again.
"""
