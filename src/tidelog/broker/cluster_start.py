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
from tidelog.broker.quorum_opening import QuorumOpening
from tidelog.broker.replicas import Replicas, replication_settings
from tidelog.broker.start import StartRefused
from tidelog.broker.state import BrokerState
from tidelog.broker.topic_directories import TOPICS_DIRECTORY
from tidelog.log.disk import Disk
from tidelog.metadata.image import Image
from tidelog.metadata.journal import DIRECTORY as METADATA_DIRECTORY
from tidelog.metadata.journal import open_metadata_log
from tidelog.metadata.quorum_log import LogDamaged
from tidelog.metadata.reserve import Reserve, ReservedDisk
from tidelog.metadata.vote_file import VoteDamaged, VoteFile
from tidelog.model.clock import Now
from tidelog.model.cluster_settings import parse_bootstrap, parse_voters
from tidelog.model.ids import Endpoint, NodeId
from tidelog.model.safeguards import Safeguard
from tidelog.partition.membership import Membership
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
    reserve = Reserve(disk, config.settings.metadata_reserve_bytes)
    kept = ReservedDisk(disk, reserve)
    last_life = take_last_life(kept)
    kept.make_directory(TOPICS_DIRECTORY)
    journal = _journal(
        config, kept, random, peers, reserve, last_life=last_life, now=now, safeguards=safeguards
    )
    state = BrokerState(
        config,
        journal=journal,
        image=Image(),
        controller=None,
        replicas=_replicas(config, disk, last_life, safeguards),
        random=random,
        reserve=reserve,
        safeguards=safeguards,
    )
    member = ClusterMember(
        config,
        state,
        journal,
        peers,
        kept,
        incarnation=_draw_uuid(random),
        last_life=last_life,
    )
    state.cluster = member
    return state, member


def _journal(
    config: NodeConfig,
    disk: ReservedDisk,
    random: Random,
    peers: Peers,
    reserve: Reserve,
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
        opening = QuorumOpening(
            key=ReplicaKey(config.node_id, directory_id(disk, _draw_uuid(random))),
            voters=_voter_set(voters),
            disk=disk.plain,
            log=log,
            votes=votes,
            reserve=reserve,
            random=random,
            settings=config.settings,
            bootstrap=tuple(bootstrap),
            safeguards=safeguards,
        )
        quorum, metadata_log = opening.open(now.monotonic_ms, last_life.cluster_id or None)
        return QuorumJournal(
            quorum,
            metadata_log,
            peers,
            known={**voters, **bootstrap},
            records_per_snapshot=records_per_snapshot,
            cluster_id=last_life.cluster_id or None,
            reopen=opening.reopen,
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


def _draw_uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)
