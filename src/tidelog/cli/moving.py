"""Carrying out a plan: ask for it, show how it goes, and leave nothing behind.

The cluster does the work, not this process: whoever presses Ctrl-C stops looking, and the same
command again looks on. What is left of a throttle is taken away when nothing moves any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tidelog.cli.failure import CommandFailed
from tidelog.cli.output import aside, plural, progress
from tidelog.client import Admin, ClientError
from tidelog.client.cluster_admin import THROTTLED_FOLLOWERS, ClusterAdmin
from tidelog.client.errors import NoBroker
from tidelog.model.ids import TopicPartition
from tidelog.model.replica_settings import FOLLOWER_RATE

Targets = Mapping[TopicPartition, Sequence[int]]

_LOOK_S = 0.3
_SILENCE_S = 60.0
"""For how long a cluster that does not answer is asked again: a node may have died meanwhile."""

ALL = "*"
_RECORDED = "dynamic default broker config"
BYTES_PER_MB = 1_000_000


class Mover:
    """Moves partitions and waits for them."""

    def __init__(self, admin: Admin, cluster: ClusterAdmin) -> None:
        self._admin = admin
        self._cluster = cluster

    def move(
        self,
        targets: Targets,
        *,
        under_way: Sequence[TopicPartition] = (),
        throttle_mb: float | None = None,
    ) -> None:
        """Until every partition is where it is to be, and those that were on their way before. The
        throttle holds for both."""
        if throttle_mb is not None:
            self._throttle({place.topic for place in (*targets, *under_way)}, throttle_mb)
        self.wait(under_way)
        if targets:
            with _told_if_left():
                self._cluster.move(targets)
                self._wait(list(targets))
        self.unthrottle()

    def wait(self, places: Sequence[TopicPartition]) -> None:
        """Until none of them is being moved."""
        with _told_if_left():
            self._wait(places)

    def _wait(self, places: Sequence[TopicPartition]) -> None:
        waited = dict.fromkeys(places)
        heard = time.monotonic()
        with progress() as bar:
            task = bar.add_task("moving partitions", total=len(waited))
            left = list(waited)
            while left:
                try:
                    moves = self._cluster.moves()
                    left = [place for place in waited if place in moves]
                    heard = time.monotonic()
                except NoBroker:
                    if time.monotonic() - heard > _SILENCE_S:
                        raise
                bar.update(task, completed=len(waited) - len(left))
                if left:
                    time.sleep(_LOOK_S)

    def elect_preferred(self, places: Sequence[TopicPartition]) -> None:
        """Whoever comes first in the replicas leads, as far as it is in sync by now."""
        if places:
            self._cluster.elect(places)

    # --- the throttle ---------------------------------------------------------------------------

    def _throttle(self, topics: set[str], megabytes: float) -> None:
        self._cluster.limit_moves(max(1, int(megabytes * BYTES_PER_MB)))
        for topic in sorted(topics):
            self._admin.alter_settings(topic, {THROTTLED_FOLLOWERS: ALL})

    def unthrottle(self) -> None:
        """Take away what `--throttle` has set, if nothing is being moved any more: the rate last,
        so that whoever comes after a Ctrl-C still sees that there is something to do."""
        node_id = next(node.node_id for node in self._cluster.view().nodes.values())
        rate = self._admin.node_settings(node_id).get(FOLLOWER_RATE)
        if rate is None or rate.source != _RECORDED or self._cluster.moves():
            return
        for topic in self._admin.topics():
            try:
                settings = self._admin.settings(topic.name)
                if settings[THROTTLED_FOLLOWERS].is_own:
                    self._admin.alter_settings(topic.name, {THROTTLED_FOLLOWERS: None})
            except (ClientError, KeyError):
                continue  # deleted meanwhile, or a broker that does not know it
        self._cluster.limit_moves(None)


@contextmanager
def _told_if_left() -> Iterator[None]:
    """Ctrl-C ends the looking, and not the moving."""
    try:
        yield
    except KeyboardInterrupt:
        aside().print(
            "the cluster goes on moving: the same command again shows how far it is, "
            "`tidelog cluster reassign --cancel --yes` takes it back",
            style="yellow",
            soft_wrap=True,
        )
        raise


def check_factor(factor: int, usable: int) -> None:
    """As many nodes as copies."""
    if factor > usable:
        raise CommandFailed(
            f"{factor} copies need {factor} nodes that are up: there are {usable}; "
            f"add {plural(factor - usable, 'node')} with `tidelog cluster join`"
        )
