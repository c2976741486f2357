"""The asyncio forms: librdkafka in a thread of its own, its answers on the caller's loop.

Use them as `tidelog.aio`.
"""
