"""The client for programs on asyncio: `tidelog.aio.Producer`, `Consumer` and `Admin`.

The same defaults, values and errors as `tidelog.Producer` and the others; nothing blocks the loop.
"""

from __future__ import annotations

from tidelog.client.aio.admin import Admin
from tidelog.client.aio.consumer import Consumer
from tidelog.client.aio.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
