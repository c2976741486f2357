"""T1, T2: producer ids are given once, and a producer's sequence numbers have no gap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.history import Entry
from tidelog.wire.batch import BatchHeader


def check_given_ids(entries: Sequence[Entry]) -> list[Finding]:
    """T1: each (producer id, epoch) is given to one producer."""
    given: dict[tuple[int, int], int] = {}
    findings = []
    for entry in entries:
        if entry.f != "init_pid" or entry.type != "ok":
            continue
        assert entry.pid is not None
        assert entry.pepoch is not None
        pair = (entry.pid, entry.pepoch)
        if pair in given:
            text = f"producer id {entry.pid} epoch {entry.pepoch} was given out twice"
            findings.append(Finding("T1", text, entry.i))
        given[pair] = entry.proc
    return findings


def check_sequences(name: str, headers: Iterable[BatchHeader | None]) -> list[Finding]:
    """T2: in one partition's log, a producer's batches follow each other without gap or overlap.

    An unsound batch (None) may have been anybody's: after it, everybody starts anew.
    """
    following: dict[tuple[int, int], int] = {}
    findings = []
    for header in headers:
        if header is None:
            following.clear()
            continue
        if not header.is_idempotent:
            continue
        producer = (header.producer_id, header.producer_epoch)
        expected = following.get(producer)
        if expected is not None and header.base_sequence != expected:
            text = (
                f"{name} offset {header.base_offset}: producer {header.producer_id} continues "
                f"with sequence {header.base_sequence} where {expected} was next"
            )
            findings.append(Finding("T2", text))
        following[producer] = (header.last_sequence + 1) & 0x7FFFFFFF
    return findings
