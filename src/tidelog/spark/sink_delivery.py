"""Exactly once into topics: the design, and why it is refused for now.

Spark runs a task again when it failed, and a batch again when the driver did. A plain producer then
writes twice. With the standard transaction protocol, per task:

1. `InitProducerId(transactional.id = <app>-<queryId>-<partitionId>)`: fences older attempts and
   zombie drivers, and aborts what they left open.
2. *After* fencing, `OffsetFetch(group = <app>-sink-<queryId>, partition = partitionId)`: the last
   committed batch, as a marker. `decide` says what follows.
3. Produce; `TxnOffsetCommit(marker)`; commit. Records and marker land together, or neither does.

The rows of a task must be the same when a batch is run again, so the marker holds the number of
tasks as well. What can be decided without a broker is decided here, PURE and tested; the requests
wait for brokers that have transactions, and until then `refuse` says so. Nothing is claimed before.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tidelog.spark.errors import OptionError, PipelineError

TRANSACTION_APIS = (24, 25, 26, 28)
"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit: what a broker must serve."""


class Step(Enum):
    """What a task does with its rows."""

    WRITE = "write"
    SKIP = "skip"
    """An earlier attempt has committed them."""


class Marker(NamedTuple):
    """What a committed transaction leaves behind: its batch, and among how many tasks it was
    split. The batch is the committed offset, the number of tasks its metadata."""

    batch_id: int
    task_count: int

    @property
    def metadata(self) -> str:
        return f"tasks={self.task_count}"

    @classmethod
    def parse(cls, offset: int, metadata: str) -> Marker:
        name, _, count = metadata.partition("=")
        if name != "tasks" or not count.isdecimal():
            raise PipelineError(
                f"the sink's group holds {metadata!r}, which is no marker: is it somebody else's?"
            )
        return cls(offset, int(count))


def transactional_id(app: str, query_id: str, partition_id: int) -> str:
    return f"{app}-{query_id}-{partition_id}"


def marker_group(app: str, query_id: str) -> str:
    return f"{app}-sink-{query_id}"


def decide(last: Marker | None, wanted: Marker) -> Step:
    """`last` is what the task's marker says after fencing, `wanted` what it is about to write."""
    if last is None or last.batch_id < wanted.batch_id:
        return Step.WRITE
    if last.batch_id > wanted.batch_id:
        raise PipelineError(
            f"batch {wanted.batch_id} comes after batch {last.batch_id} was written: another "
            "driver runs this query"
        )
    if last.task_count != wanted.task_count:
        raise PipelineError(
            f"batch {wanted.batch_id} was written by {last.task_count} tasks and is run again with "
            f"{wanted.task_count}: its rows can't be told apart; restore the number of partitions"
        )
    return Step.SKIP


def refusal_of_exactly_once(bootstrap: str, *, has_transactions: bool) -> OptionError:
    """Why not, in words: for whoever asks for it today."""
    if has_transactions:
        why = "this release does not write transactions yet"
    else:
        why = f"the broker at {bootstrap} has no transactions"
    return OptionError(
        f"deliveryGuarantee can't be exactly-once: {why}; at-least-once is idempotent within each "
        "task, and repeats only what a failed task had written"
    )
