"""S1, S8: what recovery may make of a disk, and what must never vanish from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.survey import LogBytes
from tidelog.wire.batch import BatchHeader


def check_recovery(
    before: Mapping[str, LogBytes], after: Mapping[str, bytes], *, expected: Iterable[str]
) -> list[Finding]:
    """S1: each log is a prefix of what was written, with all that had been synced.

    `expected` are the logs that must be there; others may have been deleted meanwhile.
    """
    findings = []
    wanted = list(expected)
    for directory, log in before.items():
        recovered = after.get(directory)
        if recovered is None:
            if directory in wanted and log.synced:
                findings.append(Finding("S8", f"{directory} is gone with all that was in it"))
            continue
        if not log.written.startswith(recovered):
            at = _first_difference(log.written, recovered)
            text = (
                f"{directory} was recovered to {len(recovered)} bytes that are no prefix of the "
                f"{len(log.written)} written: they differ from byte {at}"
            )
            findings.append(Finding("S1", text))
        if not recovered.startswith(log.synced):
            text = (
                f"{directory} was recovered to {len(recovered)} bytes, but {len(log.synced)} had "
                f"been synced"
            )
            findings.append(Finding("S1", text))
    return findings


def check_order(name: str, headers: Iterable[BatchHeader | None]) -> list[Finding]:
    """I4: offsets follow each other without gap, and leader epochs never fall. An unsound batch
    (None) hides what came before."""
    findings = []
    before: BatchHeader | None = None
    for header in headers:
        if header is not None and before is not None:
            if header.base_offset != before.next_offset:
                text = f"{name} continues at {header.base_offset} after {before.last_offset}"
                findings.append(Finding("I4", text))
            if header.leader_epoch < before.leader_epoch:
                text = f"{name} falls from epoch {before.leader_epoch} to {header.leader_epoch}"
                findings.append(Finding("I4", text))
        before = header
    return findings


def _first_difference(left: bytes, right: bytes) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))
