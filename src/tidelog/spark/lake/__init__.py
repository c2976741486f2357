"""The lake: a topic's records as a Delta table that any Delta reader can read.

A table is a directory: `partition=N/*.parquet`, `_delta_log`, and `_tidelog`, which holds what is
no data (locks, files that are being written). Its state is in the Delta log alone:

- which topic it is of: the table's configuration (`tidelog.topic`, `tidelog.topicId`);
- up to where each partition is archived, the *cut*: one application transaction a partition, whose
  version is the next offset to archive. It is committed together with the files, so a batch is
  there whole or not at all, and whoever lost a race for it learns so from the commit;
- which offsets a file covers: its name, `<first>-<next>-<unique>.parquet`, `next` not included.
  Gaps that compaction left inside are covered, too.

Start with `archive_table.py`. `files.py` is the value everything is about, `writing.py` what a
task does, `optimizing.py` how small files become large ones, `rows.py` how Spark reads the table
without a jar, `lock.py` why there is one driver. No deletion vectors, no column mapping.
"""
