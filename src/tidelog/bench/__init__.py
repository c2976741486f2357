"""The benchmark: one node against the raw limit of the machine, measured in the same run.

A wall-clock figure of a shared machine says little; the ratio of two figures taken seconds apart
says much. So every line of the table is measured three ways: a *reference* server without any
logic (the limit R), the node driven by prebuilt bytes (`raw`: what the broker can do), and the
node driven by librdkafka (what a client sees). With `--kafka` the same generators also drive an
Apache Kafka.

- `suite.py` + `lines/`: what is measured, in which order; one function per line of the table.
- `servers.py`, `reference.py`, `kafka.py`, `cluster.py`: the processes that are measured.
- `replicated.py`, `failover.py`: the lines of three nodes together.
- `load.py`: the processes that drive them: `pump.py` and `drain.py` (prebuilt frames, closed
  loop), `pace.py` (open loop, for latencies), `client.py` over `rdkafka.py` (librdkafka).
- `frames.py`, `admin.py`: the only files that know Kafka messages.
- `scale.py` on `images.py`: no process at all, what metadata costs as clusters grow.
- `figures.py`, `table.py`, `report.py`: samples to medians to rows to files.

Rules: a generator is its own process and says how busy it was, so that a figure it bounds is
marked as such; CPU seconds come from `/proc`; records acknowledged are counted in the log after
each run, so that a fast wrong answer is an error and not a record.
"""
