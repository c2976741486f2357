"""The quorum's machine from what the disk says: at a start, and again after the disk was full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tidelog.log.disk import Disk, DiskFull
from tidelog.log.log import Log
from tidelog.metadata.quorum_log import MetadataLog
from tidelog.metadata.reserve import Reserve
from tidelog.metadata.vote_file import VoteFile
from tidelog.model.ids import NodeId
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import NodeSettings
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class QuorumOpening:
    """All that it takes, beside the time. `disk` is for snapshots, which may not have what
    `reserve` keeps for the log and the votes."""

    key: ReplicaKey
    voters: VoterSet
    disk: Disk
    log: Log
    votes: VoteFile
    reserve: Reserve
    random: Random
    settings: NodeSettings
    bootstrap: Sequence[NodeId]
    safeguards: frozenset[Safeguard]

    def open(self, now_ms: float, cluster_id: str | None) -> tuple[Quorum, MetadataLog]:
        """At a start."""
        metadata_log = MetadataLog(self.disk, self.log)
        quorum = Quorum(
            self.key,
            self.voters,
            log=metadata_log,
            store=self.votes,
            random=Random(self.random.getrandbits(64)),
            now_ms=now_ms,
            settings=_quorum_settings(self.settings),
            cluster_id=cluster_id,
            bootstrap=self.bootstrap,
            safeguards=self.safeguards,
        )
        return quorum, metadata_log

    def reopen(self, now_ms: float, cluster_id: str | None) -> tuple[Quorum, MetadataLog]:
        """When the disk was full: `DiskFull` if there is not room again for the whole reserve, and
        for a vote beside it."""
        self.reserve.make()
        if not self.reserve.is_whole:
            raise DiskFull("there is no room for the metadata's reserve")
        self.votes.save(self.votes.load())
        return self.open(now_ms, cluster_id)


def _quorum_settings(settings: NodeSettings) -> QuorumSettings:
    fetch_timeout_ms = settings.controller_quorum_fetch_timeout_ms
    return QuorumSettings(
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=max(1, settings.controller_quorum_election_timeout_ms // 4),
        fetch_timeout_ms=fetch_timeout_ms,
        request_timeout_ms=fetch_timeout_ms,
        fetch_max_wait_ms=max(1, fetch_timeout_ms // 4),
    )
