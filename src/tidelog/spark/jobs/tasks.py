"""Work for Spark's tasks that is not about rows: one item, one task, one short answer.

A task that fails for a reason people can act on (no room, no broker) says so in its answer, so the
driver hears a sentence and not a stack trace, and Spark does not try in vain again. Anything else
is raised: it is our mistake or a worker that was killed.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tidelog.spark.errors import DataLoss, NoBroker, PipelineError
from tidelog.spark.lake.errors import DiskFull, LakeError, TaskFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Answer = dict[str, Any]

_ANSWER = pa.schema([("number", pa.int64()), ("answer", pa.string())])
_SPARK_ANSWER = "number long, answer string"
_UNKNOWN_PARALLELISM = 8
"""Tasks a batch is cut into where Spark Connect does not tell how many can run at once."""

_REASONS: dict[str, type[PipelineError]] = {
    "full": DiskFull,
    "away": NoBroker,
    "lost": DataLoss,
    "other": LakeError,
}


def run_tasks(
    spark: SparkSession, work: Callable[[Item], Answer], items: Sequence[Item]
) -> list[Answer]:
    """`work(item)` for each item in a task of its own; the answers, in the order of the items.

    The first reason a task gave is raised. `TaskFailed` if one ended without an answer, as a killed
    worker does: what it did is not known, and doing it again is right.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    count = len(items)
    if not count:
        return []
    numbers = spark.range(0, count, 1, count)
    try:
        rows = numbers.mapInArrow(_task(work, list(items)), _SPARK_ANSWER).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise TaskFailed(f"a task failed: {_cause(error)}") from error
    answers: dict[int, Answer] = {row["number"]: json.loads(row["answer"]) for row in rows}
    for number in range(count):
        _raise_reason(answers[number])
    return [answers[number] for number in range(count)]


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once."""
    context = getattr(spark, "sparkContext", None)
    return _UNKNOWN_PARALLELISM if context is None else int(context.defaultParallelism)


def _task(
    work: Callable[[Item], Answer], items: list[Item]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                answer = json.dumps(_answer(work, items[number]))
                yield pa.RecordBatch.from_pydict(
                    {"number": [number], "answer": [answer]}, schema=_ANSWER
                )

    return task


def _answer(work: Callable[[Item], Answer], item: Item) -> Answer:
    try:
        return work(item)
    except NoBroker as error:
        return {"failed": "away", "reason": str(error)}
    except DataLoss as error:
        return {"failed": "lost", "reason": str(error)}
    except PipelineError as error:
        return {"failed": "other", "reason": str(error)}
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return {"failed": "full", "reason": "no space left on the disk of the lake"}
        return {"failed": "other", "reason": f"{error.filename or 'input/output'}: {error}"}


def _raise_reason(answer: Answer) -> None:
    if "failed" in answer:
        raise _REASONS[answer["failed"]](answer["reason"])


def _cause(error: BaseException) -> str:
    """The line of a Python traceback or Java stack trace that speaks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (telling or lines or [type(error).__name__])[0]
