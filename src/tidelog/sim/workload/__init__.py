"""What clients ask of a node: one file per operation, each with the same four functions.

- `sample(random, …)` chooses what to ask: a *plan*, plain data.
- `build(plan, …)` makes the request message of it.
- `classify(plan, …)` says what an answer proves: `ok`, `fail` or `info`, as the history wants it.
- `predict(plan, world)` says which errors the node may rightly give; any other is a finding.

Who carries plans out, and in which order, is the business of `tidelog.sim.actors`.
"""
