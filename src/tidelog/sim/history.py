"""What clients did and saw, one entry per event: the only thing the client-visible checks believe.

The format is the same for simulated and for real runs: JSON lines with the keys of `Entry`. Values
are unique integers. A `send` is one record: it completes as `[offset, value]`; a `poll` completes
as `{tp: [[offset, value], …]}`. `ok` is proof of the effect, `fail` proof that there was none,
`info` is neither; what was invoked and never completed counts as `info`. After an `info` or a
`crash` the process goes on under a new number.

Entries with `f` = "damage" and "loss" are not a client's: the simulator notes there what it did to
the disk, and which partitions may rightly have lost acknowledged records (`checkers.view`). With
"final_reads" it vouches that its partitions were read to the end after everything was healed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

EntryType = Literal["invoke", "ok", "fail", "info"]
Partition = tuple[str, int]


class Entry(NamedTuple):
    """One line. Beside the documented keys: `ts` is a sent record's timestamp, `digests` the
    checksum of each batch a poll returned, by base offset, `member` the id of a group's member."""

    i: int
    t: int
    proc: int
    type: EntryType
    f: str
    tp: Partition | None = None
    value: Any = None
    err: str | None = None
    iso: str | None = None
    group: str | None = None
    member: str | None = None
    gen: int | None = None
    pid: int | None = None
    pepoch: int | None = None
    node: int | None = None
    ts: int | None = None
    digests: dict[Partition, list[tuple[int, int]]] | None = None

    def to_json(self) -> str:
        """A line; keys that say nothing are left out."""
        line: dict[str, Any] = {}
        for name, value in self._asdict().items():
            if value is not None:
                line[name] = _plain(value)
        return json.dumps(line, separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> Entry:
        raw = json.loads(line)
        if "tp" in raw:
            raw["tp"] = (raw["tp"][0], raw["tp"][1])
        for name in ("value", "digests"):
            if isinstance(raw.get(name), dict):
                raw[name] = {_partition(key): value for key, value in raw[name].items()}
        if raw["f"] in ("loss", "final_reads"):
            raw["value"] = [(topic, number) for topic, number in raw["value"]]
        return Entry(**raw)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {f"{topic}-{number}": entry for (topic, number), entry in value.items()}
    return value


def _partition(text: str) -> Partition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


class Operation(NamedTuple):
    """An invocation with its completion; `completion` is None where none was ever seen."""

    invocation: Entry
    completion: Entry | None

    @property
    def type(self) -> EntryType:
        return "info" if self.completion is None else self.completion.type

    @property
    def is_ok(self) -> bool:
        return self.completion is not None and self.completion.type == "ok"

    @property
    def ended(self) -> float:
        """The completion's index; an operation never completed may take effect at any time."""
        return float("inf") if self.completion is None else self.completion.i


class History:
    """A recorder. `now_ns` is the clock of whoever runs the clients."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.entries: list[Entry] = []
        self._now_ns = now_ns
        self._next_process = 0

    def new_process(self) -> int:
        self._next_process += 1
        return self._next_process

    def add(self, proc: int, type: EntryType, f: str, **more: Any) -> Entry:
        entry = Entry(i=len(self.entries), t=self._now_ns(), proc=proc, type=type, f=f, **more)
        self.entries.append(entry)
        return entry


def operations(entries: Sequence[Entry]) -> list[Operation]:
    """Invocations with their completions, in order of invocation.

    A process has one operation of a kind under way at a time, except sends, of which a producer
    may have several; those are told apart by their value.
    """
    open_at: dict[tuple[int, str, object], int] = {}
    pairs: list[tuple[Entry, Entry | None]] = []
    for entry in entries:
        key = (entry.proc, entry.f, _identity(entry))
        if entry.type == "invoke":
            open_at[key] = len(pairs)
            pairs.append((entry, None))
        elif key in open_at:
            index = open_at.pop(key)
            pairs[index] = (pairs[index][0], entry)
    return [Operation(*pair) for pair in pairs]


def _identity(entry: Entry) -> object:
    if entry.f != "send":
        return None
    return entry.value if entry.type == "invoke" else entry.value[1]


def dump(entries: Iterable[Entry]) -> str:
    return "".join(entry.to_json() + "\n" for entry in entries)


def load(text: str) -> list[Entry]:
    return [Entry.from_json(line) for line in text.splitlines() if line.strip()]
