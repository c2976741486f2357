"""I14: nodes that have applied the metadata up to one offset have one image of the cluster.

Whatever way the log came to them, record by record or by a snapshot, and whoever keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.metadata.image import Image
from tidelog.model.ids import NodeId, Offset
from tidelog.sim.host import Life
from tidelog.zookeeper.journal import ZooKeeperJournal


class ImageWatch:
    """Of one run. `look` is called after steps; `find` hears of what is wrong."""

    def __init__(self, find: Callable[[str, str], None]) -> None:
        self._find = find
        self._images: dict[Offset, tuple[NodeId, Image]] = {}
        """By the last offset applied: who came there first, and with what."""
        self._seen: dict[NodeId, tuple[int, Offset]] = {}
        """By node: in which of its lives, and where, it was looked at."""

    def look(self, node_id: NodeId, life: Life) -> None:
        journal = life.node.state.journal
        if not isinstance(journal, QuorumJournal | ZooKeeperJournal):
            return  # it is alone
        offset = journal.applied_offset
        if self._seen.get(node_id) == (life.number, offset):
            return
        self._seen[node_id] = (life.number, offset)
        seen = life.node.state.image
        first, image = self._images.setdefault(offset, (node_id, seen))
        if image != seen:
            text = f"nodes {first} and {node_id} have applied the metadata up to {offset}"
            self._find("I14", f"{text}, and see different clusters")
