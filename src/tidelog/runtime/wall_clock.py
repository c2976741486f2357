"""The system's wall clock, and lines for the log, at any time that a clock may show.

`time.time()` counts nanoseconds in 64 bits on its way and raises outside the years 1677 to 2262; so
does `logging`, which asks it for every line. A node whose clock is that wrong still runs.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any


def wall_clock_ms() -> int:
    """Unix time."""
    return int(time.clock_gettime(time.CLOCK_REALTIME) * 1000)


def make_log_record(
    name: str,
    level: int,
    pathname: str,
    line: int,
    msg: object,
    args: Any,
    exc_info: Any,
    func: str | None = None,
    sinfo: str | None = None,
    **more: Any,
) -> logging.LogRecord:
    """A `logging` record factory: dated 1970 where the time can't be had."""
    try:
        return logging.LogRecord(name, level, pathname, line, msg, args, exc_info, func, sinfo)
    except OverflowError:
        record = logging.LogRecord.__new__(logging.LogRecord)
        filename = os.path.basename(pathname)
        record.__dict__.update(
            name=name,
            levelno=level,
            levelname=logging.getLevelName(level),
            pathname=pathname,
            filename=filename,
            module=os.path.splitext(filename)[0],
            lineno=line,
            funcName=func,
            msg=msg,
            args=args,
            exc_info=exc_info,
            exc_text=None,
            stack_info=sinfo,
            created=0.0,
            msecs=0.0,
            relativeCreated=0.0,
            thread=None,
            threadName=None,
            process=os.getpid(),
            processName=None,
        )
        return record
