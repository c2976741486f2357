"""What a checker has to say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Finding:
    """`property` is the broken promise (C1, S3, …), `at` an index into the history, if any."""

    property: str
    text: str
    at: int | None = None

    def __str__(self) -> str:
        return f"{self.property}: {self.text}"
