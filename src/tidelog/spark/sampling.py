"""A few records of a topic, read with a plain consumer: the newest of each partition.

For guesses about what a topic holds, before Spark has anything to do.
"""

from __future__ import annotations

import time

from tidelog.client import Admin, Connection, Message, Reader
from tidelog.client.admin import Topic

PER_PARTITION = 200
MOST = 2000
_PATIENCE_S = 20.0


def sample(connection: Connection, topic: Topic, *, most: int = MOST) -> list[Message]:
    """Up to `most` of the topic's newest records; none of an empty one."""
    spans = Admin(connection).offsets(topic.topic_partitions)
    each = max(1, min(PER_PARTITION, most // max(1, len(spans))))
    starts = {
        place: max(span.start, span.end - each) for place, span in spans.items() if span.records
    }
    if not starts:
        return []
    found: list[Message] = []
    reader = Reader(connection, starts=starts)
    give_up = time.monotonic() + _PATIENCE_S
    try:
        while not reader.is_at_end and len(found) < most and time.monotonic() < give_up:
            found.extend(reader.poll(max_records=most))
    finally:
        reader.close()
    return found
