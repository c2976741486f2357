"""Whole jobs: what `tidelog spark …` runs, each a class or function that takes a Spark session.

A job's driver plans offset ranges and commits; its tasks move the records. Only short manifests
pass through Spark (`tasks.py`). Each can be killed at any moment and started again.
"""
