"""Topics as tables and streams on Spark: `spark.read.format("tidelog")`, with `pip install` alone.

Where to start reading: `source.py` (what Spark calls), then

- `options.py`, `option_values.py`: every option, checked, in one line of complaint each;
- `subscription.py`: options and a cluster to offsets; `offsets.py`: how far a stream has come;
- `planner.py` (pure): offset ranges to splits, limits;
- `reader.py` (tasks): fetch, `decoding.py` + `decoding_kernel.py` (compiled), Arrow batches out;
- `sink.py` (tasks): Arrow batches in, `encoding.py` + `encoding_kernel.py`, record batches out;
- `cluster.py`, `connection.py`: a small Kafka client, for any broker.

Rules: the driver plans, the tasks read and write; nothing but options, splits and offsets travels
between them. Memory is bounded by the fetch size, not by the topic's. A user's mistake is a
`PipelineError`, one line without a traceback. Importing this package imports nothing heavy.
"""
