"""Kafka's bytes to values and back. Nothing here decides anything, and nothing here does I/O.

- `schema.py` + `messages/<api>.py`: every message described once, as data; `codec.py` generates
  the encode and decode functions of each version from it, when first used.
- `frames.py`, `requests.py`: the length prefix, request and response headers.
- `batch.py`: the v2 record batch as the log and the broker see it: a header and opaque bytes.
- `records.py`, `compression.py`: a batch opened, for those few who must (CLI, simulator, Spark).

Rules: a decoder never allocates more than the bytes it was given can justify; what is wrong with
the peer's bytes is a `DecodeError`, never another exception; handlers never see a version number.
"""
