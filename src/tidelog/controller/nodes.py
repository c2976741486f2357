"""The cluster's identity, and blocks of producer ids for nodes to give out."""

from __future__ import annotations

import base64
from random import Random
from uuid import UUID

from tidelog.controller.decision import Decision
from tidelog.controller.registry import check_broker_epoch
from tidelog.metadata.image import Image
from tidelog.metadata.records import ClusterRecord, ProducerIdsRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard

PRODUCER_ID_BLOCK = 1000
"""Producer ids per record: a restart wastes at most this many of 2^63."""


def decide_cluster_identity(image: Image, random: Random) -> Decision[str]:
    """The cluster's name for itself, made once: 16 random bytes in Kafka's url-safe base64 of 22
    characters. Clusters that earlier releases made keep theirs, which has 36."""
    if image.cluster_id:
        return Decision([], image.cluster_id)
    drawn = UUID(int=random.getrandbits(128), version=4)
    cluster_id = base64.urlsafe_b64encode(drawn.bytes).decode().rstrip("=")
    if cluster_id.startswith("-"):  # on a command line it would be an option
        cluster_id = "A" + cluster_id[1:]
    return Decision([ClusterRecord(cluster_id=cluster_id)], cluster_id)


def decide_allocate_producer_ids(image: Image) -> Decision[range]:
    """The next block of producer ids, never to be given out again."""
    first = image.next_producer_id
    ids = range(first, first + PRODUCER_ID_BLOCK)
    return Decision([ProducerIdsRecord(next_producer_id=ids.stop)], ids)


def decide_allocate_for_node(
    image: Image,
    node_id: NodeId,
    epoch: int,
    *,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[range | ErrorCode]:
    """A block for another node, if it is the one that is registered."""
    error = check_broker_epoch(image, node_id, epoch, safeguards)
    if error is not ErrorCode.NONE:
        return Decision([], error)
    allocated = decide_allocate_producer_ids(image)
    return Decision(allocated.records, allocated.response)
