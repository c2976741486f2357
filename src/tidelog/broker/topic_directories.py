"""Directories of topics and partitions on disk: their names, and how they go.

A directory belongs to a topic *id*, so a topic created again under an old name starts empty. It is
deleted only for a topic whose removal is a committed record, or for a partition that a committed
record has moved elsewhere; one that no record explains is left where it is and reported, since the
metadata may be what is wrong.

Deleting takes a file system some milliseconds a partition. So beyond the first few directories the
rest is deleted one at a time between requests; what a crash leaves of it is deleted at the next
start.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from uuid import UUID

from tidelog.log.disk import Disk, DiskError, Syncable
from tidelog.metadata.image import Image, TopicState
from tidelog.model.ids import PartitionKey, TopicId
from tidelog.model.safeguards import Safeguard

TOPICS_DIRECTORY = "topics"

DELETED_AT_ONCE = 4
"""Directories that go in the step in which their records are committed."""

_NAME_CHARACTERS = 200
"""Of the topic's name in its directory's: for people; the id after it is what counts."""


class TopicDirectories:
    """All below `topics/`. `unsynced` are directories whose entries must become durable."""

    def __init__(self, disk: Disk, *, safeguards: frozenset[Safeguard]) -> None:
        self._disk = disk
        self._keeps_orphans = Safeguard.KEEP_ORPHANS in safeguards
        self.unsynced: dict[str, None] = {}
        self._doomed: dict[str, None] = {}

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def made(self, topic: TopicState) -> None:
        """A log was made in the topic's directory."""
        self.touch(topic_directory(topic.name, topic.topic_id), TOPICS_DIRECTORY)

    def touch(self, *paths: str) -> None:
        """Their entries have changed."""
        self.unsynced.update(dict.fromkeys(paths))

    def take_unsynced(self) -> list[Syncable]:
        """To be flushed."""
        unsynced, self.unsynced = self.unsynced, {}
        return [self._disk.directory(path) for path in unsynced if self._disk.exists(path)]

    # --- deleting -----------------------------------------------------------------------------

    @property
    def has_doomed(self) -> bool:
        return bool(self._doomed)

    def doom(self, *paths: str) -> None:
        """They may go: a committed record says so. What lies within a directory comes before it."""
        self._doomed.update(dict.fromkeys(paths))

    def delete_doomed(self, most: int) -> None:
        """The next few."""
        for path in list(islice(self._doomed, most)):
            self.delete_now(path)

    def delete_now(self, path: str) -> None:
        """What the disk keeps is of no use and of no harm, and the next start finishes it."""
        self._doomed.pop(path, None)
        with suppress(DiskError):
            self._disk.delete(path)
        parent = path.rpartition("/")[0]
        if parent not in self._doomed:
            self.touch(parent)

    def clear_for(self, path: str) -> None:
        """A log is about to be opened there: what another life of the copy has left goes first."""
        if path in self._doomed:
            self.delete_now(path)

    # --- at a start ---------------------------------------------------------------------------

    def sweep(self, image: Image, is_kept: Callable[[PartitionKey], bool]) -> list[str]:
        """Finish deletions that a crash interrupted, or that were decided while the node was away;
        leave alone what no record explains. Gives what the operator should know."""
        reports: list[str] = []
        for entry in self._disk.list(TOPICS_DIRECTORY):
            path = f"{TOPICS_DIRECTORY}/{entry}"
            topic_id = _topic_id_of(entry)
            topic = None if topic_id is None else image.topic_by_id(topic_id)
            if topic is not None:
                self._sweep_moved(topic, path, is_kept)
            elif topic_id in image.removed or not self._keeps_orphans:
                self.delete_now(path)
            else:
                reports.append(f"{path} belongs to no known topic: left alone")
        return reports

    def _sweep_moved(
        self, topic: TopicState, directory: str, is_kept: Callable[[PartitionKey], bool]
    ) -> None:
        for entry in self._disk.list(directory):
            is_partition = entry.isdecimal() and int(entry) < len(topic.partitions)
            if is_partition and not is_kept(PartitionKey(topic.topic_id, int(entry))):
                self.delete_now(f"{directory}/{entry}")


def topic_directory(name: str, topic_id: TopicId) -> str:
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"{TOPICS_DIRECTORY}/{name[:_NAME_CHARACTERS]}.{text}"


def partition_directory(name: str, key: PartitionKey) -> str:
    return f"{topic_directory(name, key.topic_id)}/{key.partition}"


def _topic_id_of(entry: str) -> TopicId | None:
    text = entry.rpartition(".")[2]
    try:
        return TopicId(UUID(bytes=base64.urlsafe_b64decode(text + "==")))
    except ValueError:
        return None
