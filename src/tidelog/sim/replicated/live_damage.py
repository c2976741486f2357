"""Bits that flip under running nodes, when all is healed: they must be found though nobody reads.

One copy of each partition suffers, in a closed segment. The scrub has to find it, and the node to
repair its copy from another: then the file has been cut, or is gone.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidelog.model.ids import NodeId
from tidelog.sim.cluster import Cluster
from tidelog.sim.images import FileImage
from tidelog.sim.survey import plant_damage


class LiveDamage:
    """Of one run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random: Random = cluster.stream("live damage")
        self._planted: list[tuple[NodeId, str, FileImage, int]] = []
        """Where, and how often the file had been rewritten by then."""
        self.counted: Counter[str] = Counter()

    def plant(self) -> None:
        """All replicas are in sync, so each partition has a sound copy besides."""
        holders: dict[str, list[tuple[NodeId, str]]] = {}
        for node_id, host in self._cluster.hosts.items():
            life = host.life
            for replica in life.node.state.replicas.by_key.values() if life else ():
                is_shared = len(replica.state.isr) > 1
                if is_shared and replica.name.topic in self._cluster.world.topics:
                    where = (node_id, replica.log.directory.path)
                    holders.setdefault(str(replica.name), []).append(where)
        for found in holders.values():
            self._plant(*self._random.choice(found))

    def _plant(self, node_id: NodeId, directory: str) -> None:
        disk = self._cluster.hosts[node_id].disk
        planted = plant_damage(disk, directory, self._random)
        if planted is not None:
            image = disk.files()[planted.path]
            self._planted.append((node_id, planted.path, image, image.rewrites))
            self.counted["bit flipped under a running node"] += 1
            text = f"node {node_id}: {planted.path} at {planted.position}"
            self._cluster.trace.say("live damage", text)

    def unrepaired(self) -> str | None:
        """What nobody has repaired yet."""
        for node_id, path, image, rewrites in self._planted:
            current = self._cluster.hosts[node_id].disk.files().get(path)
            if current is image and image.rewrites == rewrites:
                return f"{path} of node {node_id} is damaged still"
        return None
