"""Who uses a node: each actor is a script (see `schedule`) that carries out plans of `workload`,
records in the history what it did and saw, and stops when the world says that it is over.

An actor behaves as a real client would: a plain producer tries once, an idempotent one tries the
same batch until it is resolved, a consumer goes on where it was.
"""
