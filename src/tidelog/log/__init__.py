"""One partition's log, on an injected `Disk`: append, read, find, recover. Synchronous, no clock.

Theory of operation. A log is a row of segment files named by their first offset, in Kafka's
format. Only the last is written. Offsets below `flushed_offset` have survived an fsync; the rest
may vanish with the power. The *flushed mark* on disk trails `flushed_offset`: below the mark,
anything unreadable is damage (reported, never served, never cut); above it, an unreadable tail is
what a crash leaves, and recovery cuts it.

Start with `log.py`; `disk.py` is the door, `recovery.py` the story of a crash.
"""
