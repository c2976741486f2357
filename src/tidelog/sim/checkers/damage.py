"""S2, S3: damaged batches are never served, and nothing else suffers for them."""

from __future__ import annotations

from tidelog.sim.checkers.finding import Finding
from tidelog.sim.checkers.view import View


def check_damage_unserved(view: View) -> list[Finding]:
    """S3: no poll that began after the damage brings a record of the damaged batch.

    That the rest is still served is C4's to see: only damaged offsets are excused there.
    """
    return [
        Finding(
            "S3",
            f"{view} offset {offset} was served as {value}, though its batch is damaged",
            read.ended,
        )
        for read in view.reads
        for offset, value in read.records
        if any(
            damage.first_offset <= offset <= damage.last_offset and damage.at < read.invoked
            for damage in view.damages
        )
    ]
