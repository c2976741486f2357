"""One node without I/O: `Node.step(now, event) -> effects` is the whole of it.

- `events.py` what can happen, `effects.py` what the node may ask of the world.
- `node.py` the step; `connections.py` answers in request order; `pending.py` requests that wait.
- `apis/` one file per Kafka API: request in, response (or a row in `pending`) out.

Rules: no `await`, no clock, no luck: time comes with the event, randomness from the injected
generator, and the same events give the same effects under every `PYTHONHASHSEED`.
"""
