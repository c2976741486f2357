"""`decode(df, …)`: JSON, Avro and Protobuf values to typed columns, with pip packages only.

- `columns.py` is the door: which format, what becomes of malformed rows, the columns made.
- `avro.py` and `protobuf.py` each have two halves: a schema to Spark's types (driver), and bytes to
  values (executors). JSON is Spark's own `from_json`.
- `framing.py` takes the schema registry's five bytes off; `registry.py` knows schemas by their id.

A row that can't be decoded has null for its data and a sentence in `error`, or ends the query:
`mode` says which. Nothing is dropped.
"""

from __future__ import annotations

from tidelog.spark.decoding.columns import decode, shape_of

__all__ = ["decode", "shape_of"]
