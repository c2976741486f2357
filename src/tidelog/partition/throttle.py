"""How much a node may fetch for copies that are being made, or give to them, in bytes a second.

A budget that fills with time, up to what is allowed in one second. A fetch reserves what it may
bring and gives back what it did not; a batch that is larger than what was reserved comes whole
nevertheless and leaves a debt, and nothing more is asked for until time has paid it. So over any
span the bytes are at most the rate times its length, plus one second's and one batch.

A leader counts what it gives when the answer leaves. A fetch for which nothing is left meanwhile
is answered without those records when its time is over, and asks again.

Only copies are held back that are not in sync and that the topic's setting names: who is in sync
must not fall behind for the sake of who is not.
"""

from __future__ import annotations

from math import inf

from tidelog.model.ids import NodeId

UNLIMITED = 2**63 - 1
ALL = "*"
_FETCHES_PER_SECOND = 10
"""With less of the budget it is not worth asking: at this pace all of it is used."""


class Throttle:
    """One node's, for all that it follows. Times are monotonic milliseconds."""

    __slots__ = ("_at_ms", "_balance", "rate")

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        """Bytes a second."""
        self._balance = 0.0
        self._at_ms = -inf

    @property
    def is_on(self) -> bool:
        return self.rate != UNLIMITED

    def limit(self, rate: int, now_ms: float) -> None:
        """Another rate from now on."""
        if rate != self.rate:
            self._fill(now_ms)
            self.rate = rate
            self._balance = min(self._balance, float(rate))

    @property
    def _least(self) -> float:
        return self.rate / _FETCHES_PER_SECOND

    @property
    def ready_ms(self) -> float:
        """From when on something may be asked for."""
        if not self.is_on or self._balance >= self._least:
            return -inf
        return self._at_ms + (self._least - self._balance) * 1000 / self.rate

    def reserve(self, now_ms: float, most_bytes: int) -> int:
        """How much to ask for, at most `most_bytes`; to be settled with the answer."""
        if not self.is_on:
            return most_bytes
        self._fill(now_ms)
        reserved = min(most_bytes, max(1, int(self._balance)))
        self._balance -= reserved
        return reserved

    def available(self, now_ms: float) -> int:
        """How much may be sent now: nothing, until a fetch's worth of it has come together."""
        if not self.is_on:
            return UNLIMITED
        self._fill(now_ms)
        return int(self._balance) if self.ready_ms <= now_ms else 0

    def settle(self, now_ms: float, *, reserved: int, used: int) -> None:
        """The answer is there, or won't come: it was `used`, of what was reserved."""
        if self.is_on:
            self._fill(now_ms)
            self._balance = min(self._balance + reserved - used, float(self.rate))

    def _fill(self, now_ms: float) -> None:
        if not self.is_on:
            return
        if self._at_ms == -inf:
            self._balance = float(self.rate)
        elif now_ms > self._at_ms:
            gained = (now_ms - self._at_ms) * self.rate / 1000
            self._balance = min(self._balance + gained, float(self.rate))
        self._at_ms = max(now_ms, self._at_ms)


def is_listed(text: str, partition: int, node_id: NodeId) -> bool:
    """Whether a list of throttled replicas (`0:1,0:2,3:1`, partition and node; or `*`) has it."""
    return text == ALL or f"{partition}:{node_id}" in text.split(",")
