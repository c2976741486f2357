"""What a node is told about its cluster: who agrees on the metadata, and how long to wait."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import Endpoint, NodeId
from tidelog.model.setting import INT32_MAX, InvalidSetting, Setting

VOTERS = "controller.quorum.voters"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"
ZOOKEEPERS = "zookeeper.connect"
ZOOKEEPER_PORT = 2181

CLUSTER_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "consensus",
        "node",
        "quorum",
        choices=("quorum", "zookeeper"),
        doc="How the nodes agree on the cluster's metadata: among themselves (`quorum`), or by a "
        "ZooKeeper ensemble (`zookeeper`); the same on all of them.",
    ),
    Setting(
        ZOOKEEPERS,
        "node",
        "",
        doc="With `consensus=zookeeper`: the ensemble, as HOST:PORT separated by commas, and after "
        "the last a path below which everything is kept, such as /tidelog.",
    ),
    Setting(
        "zookeeper.session.timeout.ms",
        "node",
        6000,
        low=100,
        high=INT32_MAX,
        unit="ms",
        doc="A node ZooKeeper has not heard of for this long loses its session, and with it what "
        "it leads. ZooKeeper itself may not allow less than two of its ticks, or more than twenty.",
    ),
    Setting(
        VOTERS,
        "node",
        "",
        doc="The nodes that agree on the cluster's metadata, as ID@HOST:PORT separated by commas; "
        "the same on all of them. Empty: this node is alone.",
    ),
    Setting(
        BOOTSTRAP_SERVERS,
        "node",
        "",
        doc="Nodes of an existing cluster, as HOST:PORT separated by commas, of whom this node "
        "learns who agrees on the metadata; `tidelog cluster join` sets it. Empty: the voters are "
        "those of controller.quorum.voters.",
    ),
    Setting(
        "controller.quorum.election.timeout.ms",
        "node",
        1000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How long an election may take before the next is tried.",
    ),
    Setting(
        "controller.quorum.fetch.timeout.ms",
        "node",
        1500,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="A voter that has not heard of the controller for this long asks for an election, and "
        "a controller that a majority has not asked for this long resigns. Kafka waits 2 s.",
    ),
    Setting(
        "metadata.log.max.records.between.snapshots",
        "node",
        20_000,
        low=1,
        high=INT32_MAX,
        doc="After so many records of metadata a node keeps all of it as a snapshot, and lets the "
        "log begin there.",
    ),
    Setting(
        "broker.session.timeout.ms",
        "node",
        3000,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="A node the controller has not heard of for this long loses what it leads. Kafka waits "
        "9 s.",
    ),
    Setting(
        "broker.heartbeat.interval.ms",
        "node",
        500,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How often a node tells the controller that it is there.",
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        "node",
        500,
        low=1,
        high=INT32_MAX,
        unit="ms",
        doc="How long a follower's fetch waits for news.",
    ),
    Setting(
        "broker.rack",
        "node",
        "",
        doc="Where the node stands: copies of a partition are spread over racks, and consumers "
        "that name their rack read from the copy in it.",
    ),
)


def parse_voters(text: str) -> dict[NodeId, Endpoint]:
    """`1@host:9092,2@other:9092` by node id, or `InvalidSetting` with a sentence."""
    voters: dict[NodeId, Endpoint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        number, at, address = part.partition("@")
        if not (at and number.isdecimal()):
            raise InvalidSetting(f"{VOTERS}: a voter is ID@HOST:PORT: not {part!r}")
        node_id = NodeId(int(number))
        if node_id in voters:
            raise InvalidSetting(f"{VOTERS}: node {node_id} is named twice")
        voters[node_id] = parse_endpoint(address, name=VOTERS)
    return voters


def parse_bootstrap(text: str) -> dict[NodeId, Endpoint]:
    """`host:9092,other:9092`. Which nodes these are is not known yet: they get ids that no node
    has, -2 and below."""
    parts = filter(None, (part.strip() for part in text.split(",")))
    return {
        NodeId(-2 - index): parse_endpoint(part, name=BOOTSTRAP_SERVERS)
        for index, part in enumerate(parts)
    }


class Ensemble(NamedTuple):
    """Where ZooKeeper is, and below which path everything is kept (`""`: the root)."""

    servers: tuple[Endpoint, ...]
    chroot: str


def parse_ensemble(text: str) -> Ensemble:
    """`host:2181,other:2181/path`, or `InvalidSetting` with a sentence."""
    addresses, slash, path = text.strip().partition("/")
    chroot = (slash + path).rstrip("/")
    if "//" in chroot or any(part in (".", "..") for part in chroot.split("/")):
        raise InvalidSetting(f"{ZOOKEEPERS}: a path has names between its slashes: not {chroot!r}")
    servers = []
    for part in filter(None, (part.strip() for part in addresses.split(","))):
        has_port = ":" in part.rpartition("]")[2]
        address = part if has_port else f"{part}:{ZOOKEEPER_PORT}"
        servers.append(parse_endpoint(address, name=ZOOKEEPERS))
    if not servers:
        raise InvalidSetting(
            f"consensus=zookeeper needs to know where: give {ZOOKEEPERS}=HOST:PORT,…"
        )
    return Ensemble(tuple(servers), chroot)


def parse_endpoint(text: str, *, name: str) -> Endpoint:
    host, colon, port = text.strip().rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65_536):
        raise InvalidSetting(f"{name}: an address is HOST:PORT: not {text!r}")
    return Endpoint(host.strip("[]"), int(port))
