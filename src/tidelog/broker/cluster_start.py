"""From a data directory to a member of a cluster.

Nothing is served yet: the node knows what its own directory says, which may be old. What the
cluster has agreed on since comes with the metadata log; then the node registers, and is let in.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from tidelog.broker.cluster_member import ClusterMember
from tidelog.broker.configuration import NodeConfig
from tidelog.broker.last_life import LastLife, directory_id, take_last_life
from tidelog.broker.member_journal import MemberJournal
from tidelog.broker.peers import Peers
from tidelog.broker.quorum_journal import QuorumJournal
from tidelog.broker.replicas import TOPICS_DIRECTORY, Replicas, replication_settings
from tidelog.broker.start import StartRefused
from tidelog.broker.state import BrokerState
from tidelog.log.disk import Disk
from tidelog.metadata.image import Image
from tidelog.metadata.journal import DIRECTORY as METADATA_DIRECTORY
from tidelog.metadata.journal import open_metadata_log
from tidelog.metadata.quorum_log import LogDamaged, MetadataLog
from tidelog.metadata.vote_file import VoteDamaged, VoteFile
from tidelog.model.clock import Now
from tidelog.model.cluster_settings import parse_bootstrap, parse_voters
from tidelog.model.ids import Endpoint, NodeId
from tidelog.model.safeguards import Safeguard
from tidelog.model.settings import NodeSettings
from tidelog.partition.membership import Membership
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.settings import QuorumSettings
from tidelog.quorum.voters import Endpoint as VoterEndpoint
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.wire.errors import DecodeError
from tidelog.zookeeper.journal import ZooKeeperJournal
from tidelog.zookeeper.presence import Self

_LISTENER = "PLAINTEXT"


def start_member(
    config: NodeConfig,
    disk: Disk,
    random: Random,
    peers: Peers,
    *,
    now: Now,
    safeguards: frozenset[Safeguard],
) -> tuple[BrokerState, ClusterMember]:
    """The state as the disk has it, and the node's place in the cluster."""
    last_life = take_last_life(disk)
    disk.make_directory(TOPICS_DIRECTORY)
    journal = _journal(
        config, disk, random, peers, last_life=last_life, now=now, safeguards=safeguards
    )
    state = BrokerState(
        config,
        journal=journal,
        image=Image(),
        controller=None,
        replicas=_replicas(config, disk, last_life, safeguards),
        random=random,
        safeguards=safeguards,
    )
    member = ClusterMember(
        config,
        state,
        journal,
        peers,
        disk,
        incarnation=_draw_uuid(random),
        last_life=last_life,
    )
    state.cluster = member
    return state, member


def _journal(
    config: NodeConfig,
    disk: Disk,
    random: Random,
    peers: Peers,
    *,
    last_life: LastLife,
    now: Now,
    safeguards: frozenset[Safeguard],
) -> MemberJournal:
    """The way to agree that was chosen."""
    records_per_snapshot = config.settings.metadata_log_max_records_between_snapshots
    if config.uses_zookeeper:
        own = Self(
            config.node_id,
            Endpoint(config.host, config.port),
            config.rack,
            last_life.broker_epoch,
        )
        return ZooKeeperJournal(own, records_per_snapshot=records_per_snapshot)
    disk.make_directory(METADATA_DIRECTORY)
    voters = parse_voters(config.settings.controller_quorum_voters)
    bootstrap = parse_bootstrap(config.settings.controller_quorum_bootstrap_servers)
    log = open_metadata_log(disk, clean=last_life.ended_cleanly, safeguards=safeguards)
    try:
        votes = VoteFile(disk, METADATA_DIRECTORY)
        if not last_life.ended_cleanly:
            votes.renew()
        metadata_log = MetadataLog(disk, log)
        quorum = Quorum(
            ReplicaKey(config.node_id, directory_id(disk, _draw_uuid(random))),
            _voter_set(voters),
            log=metadata_log,
            store=votes,
            random=Random(random.getrandbits(64)),
            now_ms=now.monotonic_ms,
            settings=_quorum_settings(config.settings),
            cluster_id=last_life.cluster_id or None,
            bootstrap=tuple(bootstrap),
            safeguards=safeguards,
        )
        return QuorumJournal(
            quorum,
            metadata_log,
            peers,
            known={**voters, **bootstrap},
            records_per_snapshot=records_per_snapshot,
        )
    except (LogDamaged, VoteDamaged, DecodeError) as damaged:
        raise StartRefused(f"{damaged}; {_remedy(config.node_id, voters)}") from None


def _remedy(node_id: NodeId, voters: dict[NodeId, Endpoint]) -> str:
    """A node that its configuration knows alone may have no others to get anything from."""
    if list(voters) == [node_id]:
        return (
            f"restore {METADATA_DIRECTORY}/ from a copy; if other voters have joined since, empty "
            "the data directory instead, and let the node join them again"
        )
    return "empty the data directory, and the node gets all of it from the others"


def _replicas(
    config: NodeConfig, disk: Disk, last_life: LastLife, safeguards: frozenset[Safeguard]
) -> Replicas:
    """None yet; they are opened when the node knows the present, and none is led before the cluster
    has let it in."""
    replicas = Replicas(
        disk,
        dict(config.topic_defaults),
        membership=Membership(config.node_id, replication_settings(config.settings)),
        safeguards=safeguards,
    )
    membership = replicas.membership
    membership.has_session = membership.may_lead = False
    membership.is_caught_up = Safeguard.PRESENT_BEFORE_FOLLOWING not in safeguards
    replicas.opens_clean = last_life.ended_cleanly
    return replicas


def _voter_set(voters: dict[NodeId, Endpoint]) -> VoterSet:
    return VoterSet.of(
        Voter(ReplicaKey(node_id), (VoterEndpoint(_LISTENER, at.host, at.port),))
        for node_id, at in voters.items()
    )


def _quorum_settings(settings: NodeSettings) -> QuorumSettings:
    fetch_timeout_ms = settings.controller_quorum_fetch_timeout_ms
    return QuorumSettings(
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=max(1, settings.controller_quorum_election_timeout_ms // 4),
        fetch_timeout_ms=fetch_timeout_ms,
        request_timeout_ms=fetch_timeout_ms,
        fetch_max_wait_ms=max(1, fetch_timeout_ms // 4),
    )


def _draw_uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)
