"""Everything has a limit with a name. Those that users may want to turn are in `settings.py`."""

from __future__ import annotations

MIN_REQUEST_BYTES = 8
"""api key, api version, correlation id: less than this is no request."""

MAX_REQUEST_ELEMENTS = 250_000
"""Array elements one request may decode to, all arrays together; more is refused as malformed.
Twice what naming every partition of a large node takes, and at worst about 100 MB of objects."""

MAX_DECODED_ELEMENTS = 1_000_000
"""The same for whatever is no request: a response, a batch's records. The byte budget (an element
needs at least one byte of the frame) usually bites first."""

MAX_BATCH_HEADERS = 1_000_000
"""Record headers that one batch may have where all of it is looked at: 0.1 to 0.25 s of one step.
What is sent on purpose has far fewer: a batch of 1 MB that was 10 MB before it was compressed would
have to consist of headers of ten bytes, and of nothing else."""

MAX_STRING_BYTES = 0x7FFF
"""Of a string in a message. Newer versions could say more, but not all that is done with a string
has room for it; Kafka refuses the same."""

MAX_TOPIC_NAME = 249
"""Kafka's limit: leaves room for `-<partition>` in a file name of 255 bytes."""

MAX_PRODUCERS_PER_PARTITION = 100_000
"""Idempotent producers remembered per partition; the longest silent one is forgotten first."""

BATCHES_REMEMBERED = 5
"""Batches per producer whose repetition is answered with their offsets: Kafka's client keeps at
most five requests in flight."""

MAX_FETCH_SESSION_PARTITIONS = 100_000
"""Partitions over all sessions of consumers together."""

MAX_FOLLOWER_SESSIONS = 2_000
"""Fetch sessions of followers, which have room of their own: no consumer can drive one out. Twice
MAX_NODES, since a follower may have two sessions with one leader."""

MAX_FOLLOWER_SESSION_PARTITIONS = 400_000
"""Partitions over all sessions of followers together: three copies of 100,000 partitions led here,
and those which a session that was given up still has."""

MAX_REMOVED_TOPICS = 10_000
"""Removed topics that are remembered, so that a node that was away may delete their files."""

MAX_NODES = 1_000
"""Nodes that may be registered at a time, living or not."""
