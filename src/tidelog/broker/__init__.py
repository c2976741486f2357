"""One node without I/O: `Node.receive(now, event)` for each event of a turn, `Node.settle(now)` at
its end, both return effects, and that is the whole of it.

- `events.py` what can happen, `effects.py` what the node may ask of the world.
- `node.py` the turn; `machines.py` what it asks of each of its parts that wait for time;
  `waking.py` the ends of waits; `housekeeping.py` what nobody waits for;
  `connections.py` answers in request order; `pending.py` requests that wait.
- `apis/` one file per Kafka API: request in, response (or a row in `pending`) out.

Rules: no `await`, no clock, no luck: time comes with the event, randomness from the injected
generator, and the same events give the same effects under every `PYTHONHASHSEED`.
"""
