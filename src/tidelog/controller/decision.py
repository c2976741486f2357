"""What a command leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tidelog.metadata.records import MetadataRecord

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Response]):
    """`response` is true only once `records` are committed; they are committed together or not."""

    records: list[MetadataRecord]
    response: Response
