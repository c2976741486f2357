"""How Spark finds `format("tidelog")`: it imports every top-level module named `pyspark_*` and
takes its `DefaultSource`. Kept light, since each session does so."""

from __future__ import annotations

from tidelog.spark.source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
