"""Sends in the history: one entry per record, for whichever producer sends them."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.client import Answer
from tidelog.sim.history import EntryType
from tidelog.sim.workload.produce import BatchOutcome, BatchPlan
from tidelog.sim.workload.world import World


def record_invocation(world: World, proc: int, batch: BatchPlan) -> None:
    is_idempotent = batch.producer_id >= 0
    for record in batch.records:
        world.history.add(
            proc,
            "invoke",
            "send",
            tp=batch.tp,
            value=record.value,
            ts=record.timestamp,
            pid=batch.producer_id if is_idempotent else None,
            pepoch=batch.producer_epoch if is_idempotent else None,
        )


def record_completion(
    world: World, proc: int, batch: BatchPlan, type: EntryType, *, base_offset: int, err: str | None
) -> None:
    """`base_offset` is -1 where no offset is known, and then every record gets -1."""
    for index, record in enumerate(batch.records):
        offset = base_offset + index if type == "ok" else base_offset
        world.history.add(proc, type, "send", tp=batch.tp, value=[offset, record.value], err=err)


def check_late_ack(world: World, batch: BatchPlan, outcome: BatchOutcome, answer: Answer) -> None:
    """S4: after a failed flush, that life of the node acknowledges nothing any more."""
    failed_ms = world.host.flush_failures.get(answer.incarnation)
    if outcome.type == "ok" and failed_ms is not None and answer.emitted_ms > failed_ms:
        text = (
            f"{batch.tp} values {[r.value for r in batch.records]} were acknowledged at "
            f"{answer.emitted_ms:.3f} ms, after an fsync had failed at {failed_ms:.3f} ms"
        )
        world.findings.append(Finding("S4", text))
