"""Which leader epoch wrote which offsets: a function of the log, kept for quick answers.

In the file (`leader-epoch-checkpoint`, Kafka's text format) for the next start; `marks.Mark` holds
its checksum, since the format has none.
"""

from __future__ import annotations

from bisect import bisect_right

from crc32c import crc32c

from tidelog.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset

_FORMAT_VERSION = 0


class Epochs:
    """Ascending (epoch, start offset) pairs; an epoch that wrote nothing is not in it."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.is_changed = False

    @property
    def latest(self) -> LeaderEpoch:
        return LeaderEpoch(self._epochs[-1]) if self._epochs else NO_EPOCH

    @property
    def last_start(self) -> int:
        """Where the latest epoch begins; -1 if there is none."""
        return self._starts[-1] if self._starts else -1

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` begins at `offset`, the end of the log so far."""
        if not self._epochs or epoch > self._epochs[-1]:
            self._epochs.append(epoch)
            self._starts.append(offset)
            self.is_changed = True

    def epoch_of(self, offset: int) -> LeaderEpoch:
        at = bisect_right(self._starts, offset)
        return LeaderEpoch(self._epochs[at - 1]) if at else NO_EPOCH

    def end_of(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """The largest epoch not above `epoch`, and the offset where it ends."""
        if not self._epochs:
            return NO_EPOCH, NO_OFFSET
        after = bisect_right(self._epochs, epoch)
        if after == 0:
            return epoch, Offset(self._starts[0])
        end = self._starts[after] if after < len(self._starts) else log_end_offset
        return LeaderEpoch(self._epochs[after - 1]), Offset(end)

    def cut(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
            self.is_changed = True

    def copy(self) -> Epochs:
        """For those who go on looking at what the log lets go of meanwhile."""
        copied = Epochs()
        copied._epochs, copied._starts = list(self._epochs), list(self._starts)
        return copied

    def begin_at(self, offset: int) -> None:
        """The log now begins at `offset`: as if what lies before had never been."""
        below = bisect_right(self._starts, offset)
        if below and (below > 1 or self._starts[0] < offset):
            self._epochs = self._epochs[below - 1 :]
            self._starts = [offset, *self._starts[below:]]
            self.is_changed = True

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def checksum(self, below_offset: int) -> int:
        """Of the entries that begin below the offset: what a mark at that offset vouches for."""
        return crc32c(_encoded([pair for pair in self.entries() if pair[1] < below_offset]))

    def encode(self) -> bytes:
        return _encoded(self.entries())

    def decode(self, data: bytes) -> bool:
        """Take over the file's entries; false (and nothing taken) if they make no sense."""
        try:
            version, count, *lines = data.decode("ascii").splitlines()
            pairs = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
            is_sound = int(version) == _FORMAT_VERSION and int(count) == len(pairs)
        except ValueError:
            return False
        epochs, starts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not is_sound or epochs != sorted(set(epochs)) or starts != sorted(set(starts)):
            return False
        self._epochs, self._starts, self.is_changed = epochs, starts, False
        return True


def _encoded(pairs: list[tuple[int, int]]) -> bytes:
    lines = [str(_FORMAT_VERSION), str(len(pairs)), *(f"{epoch} {start}" for epoch, start in pairs)]
    return ("\n".join(lines) + "\n").encode("ascii")
