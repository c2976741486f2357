"""One file per Kafka API: `handle(state, call, request)` gives the response, or says that it waits.

A handler sees a request of no particular version and answers with a response of none: the codec
(`wire`) knows what each version leaves out. `table.py` lists them with the versions we serve.
"""
