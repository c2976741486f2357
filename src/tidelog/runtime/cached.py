"""What of a file the page cache has, and how more of it gets there.

HOT PATH. `preadv2` with `RWF_NOWAIT` reads what is in memory, and says EAGAIN where the kernel
would have to wait for the disk. Where the system does not know that flag (other systems than Linux,
some file systems), everything counts as cached: a read of what is not waits, as any read does.

Large ranges are only sampled: who reads on the strength of that may still have to wait now and
then.
"""

from __future__ import annotations

import errno
import os
import threading
from functools import cache

SAMPLED_EVERY_BYTES = 256 * 1024
"""Of a range only a byte in so many is asked for, and the last. A sample costs half a microsecond,
and the kernel reads and forgets what lies together together."""

COPIED_BYTES = 8 * 1024
"""Up to here a read is one call and a copy, which costs less than asking first."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_UNKNOWN = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class _Sample(threading.local):
    """Each thread's own, to read a byte into."""

    def __init__(self) -> None:
        self.into = (bytearray(1),)


_sample = _Sample()


def read(descriptor: int, position: int, size: int) -> bytes | None:
    """Up to `size` bytes, fewer at the end of the file; None if the disk would be waited for."""
    if size > COPIED_BYTES or not _NOWAIT:
        return os.pread(descriptor, size, position) if has(descriptor, position, size) else None
    memory = bytearray(size)
    try:
        count = os.preadv(descriptor, (memory,), position, _NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        return os.pread(descriptor, size, position)
    if count < size:  # the end of the file, or of what is cached
        return bytes(memory[:count]) if has(descriptor, position + count, 1) else None
    return bytes(memory)


def has(descriptor: int, position: int, size: int) -> bool:
    """Whether reading the range would not wait for the disk, as far as samples tell."""
    if not _NOWAIT or size <= 0:
        return True
    into, last, preadv = _sample.into, position + size - 1, os.preadv
    try:
        for at in range(position, last, SAMPLED_EVERY_BYTES):
            preadv(descriptor, into, at, _NOWAIT)
        preadv(descriptor, into, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
    return True


def load(descriptor: int, position: int, size: int) -> None:
    """Wait until the range is in memory. `sendfile` to nowhere: the kernel reads the pages, and
    copies none of them. The next range, which whoever reads a file usually asks for as well, is
    begun by the kernel's own read-ahead."""
    end = position + size
    while position < end:
        count = os.sendfile(_nowhere(), descriptor, position, end - position)
        if not count:
            return
        position += count


@cache
def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
