"""Compiled functions where nothing can be cached, and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tidelog.spark.compiling import compiled


def test_without_a_place_for_the_cache_a_function_is_compiled_all_the_same() -> None:
    """A function without a file of its own has no place for its cache either."""
    room: dict[str, Any] = {}
    exec("def doubled(value):\n    return 2 * value\n", room)
    assert compiled("int64(int64)")(room["doubled"])(21) == 42


def test_finding_the_source_imports_nothing_heavy() -> None:
    """Spark imports `pyspark_tidelog` in every session, whether topics are read or not."""
    heavy = ("numba", "confluent_kafka", "tidelog.spark.reader", "tidelog.client.admin")
    program = (
        "import sys, pyspark_tidelog\n"
        "assert pyspark_tidelog.DefaultSource.name() == 'tidelog'\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[]"
