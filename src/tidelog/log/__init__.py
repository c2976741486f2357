"""One partition's log, on an injected `Disk`: append, read, find, recover. Synchronous, no clock.

Theory of operation. A log is a row of segment files named by their first offset, in Kafka's
format. Only the last is written. Offsets below `flushed_offset` have survived an fsync; the rest
may vanish with the power. The *flushed mark* on disk trails `flushed_offset`, and the note beside
it says the rest to a start after a killed process. Below what they say, anything unreadable is
damage (reported, never served, never cut); above, an unreadable tail is what a crash leaves, and is
cut. Everything else (indexes, producers, epochs) is a function of the log: never waited for,
checked when used, rebuilt when wrong.

Start with `log.py`. Then, from the outside in:

- `disk.py` the door; `directory.py`, `paths.py` the files of one partition.
- `admission.py` may it be appended; `producers.py` is it a repeat; `epochs.py` whose is it.
- `segment.py` = `batch_file.py` (headers, holes) + `segment_indexes.py` over `index.py`; `scan.py`
  walks bytes; `damage.py` says what is wrong; `lookup.py` finds offsets by timestamp.
- `durability.py`, `marks.py` what is synced and how the next start knows.
- `state.py` a clean start, `recovery.py` over `tail.py` the story of a crash.
- `beginning.py`, `retention.py` what is let go; `cleaner.py` over `cleaning_plan.py`,
  `compaction.py`, `swap.py` what is compacted; `restyle.py` what is rewritten when appended.
"""
