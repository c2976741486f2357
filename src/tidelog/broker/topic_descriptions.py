"""Topics as Metadata describes them; all topics of a large cluster in slices (`slices.py`)."""

from __future__ import annotations

from tidelog.broker.authorized_operations import ON_CLUSTER, ON_TOPIC
from tidelog.broker.state import BrokerState, Call, SlicedWait
from tidelog.metadata.image import Image, PartitionState, TopicState
from tidelog.model.clock import Now
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.wire.messages.metadata import (
    NOT_ASKED,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.pieces import Piece, PiecewiseBody

PARTITIONS_PER_SLICE = 1_000
"""Partitions to describe in one slice: about six milliseconds. A topic is described as a whole."""

MOST_AT_ONCE = 4 * PARTITIONS_PER_SLICE
""""All topics" with more partitions are described in slices, once per image."""


def depends_on(state: BrokerState, request: MetadataRequest) -> tuple[object, ...]:
    """What the answer with all topics depends on, besides the image and the version."""
    return (
        state.cluster.told_controller_id,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )


class SlicedDescription(SlicedWait):
    """All topics, described and encoded a few at a time: as of when its turn came. Who asked
    meanwhile finds it made, unless the image is another one by then."""

    def __init__(self, state: BrokerState, call: Call, request: MetadataRequest) -> None:
        self._state = state
        self._request = request
        self._header = call.slot.header
        self._image: Image | None = None
        self._depends_on: tuple[object, ...] = ()
        self._topics: list[TopicState] = []
        self._pieces: list[Piece] = []

    def turn(self, number: int, now: Now) -> bool:
        state, answers = self._state, self._state.encoded_answers
        if self._image is None:
            self._image = state.image
            self._depends_on = depends_on(state, self._request)
            found = answers.find(self._image, self._header, self._depends_on)
            if found is not None:
                state.complete(number, found)
                return True
            self._begin(self._image)
        self._pieces.append(self._next_piece(self._image))
        if self._topics:
            return False
        body = self._body.joined(self._pieces)
        if self._image is state.image:
            answers.keep(self._image, self._header, self._depends_on, body)
        state.complete(number, body)
        return True

    def _begin(self, image: Image) -> None:
        self._topics = list(image.topics.values())[::-1]
        self._empty = response_with(self._state, self._request, [])
        one = response_with(
            self._state, self._request, [MetadataResponseTopic(name="", partitions=[])]
        )
        self._body = PiecewiseBody(self._header, self._empty, one)

    def _next_piece(self, image: Image) -> Piece:
        topics: list[MetadataResponseTopic] = []
        partitions = 0
        while self._topics and partitions < PARTITIONS_PER_SLICE:
            topic = describe_topic(image, self._topics.pop())
            partitions += len(topic.partitions)
            topics.append(topic)
        self._empty.topics = authorized(self._request, topics)
        return self._body.piece(self._empty, len(topics))

    def resume(self, now: Now, *, is_expired: bool) -> MetadataResponse | None:
        """Expired: the node stops."""
        return describe_all(self._state, self._request) if is_expired else None

    def describe(self) -> str:
        return f"Metadata waits until its last {len(self._topics)} topics are described"


def describe_all(state: BrokerState, request: MetadataRequest) -> MetadataResponse:
    topics = [describe_topic(state.image, topic) for topic in state.image.topics.values()]
    return response_with(state, request, topics)


def authorized(
    request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    """With what the client may do, if it asks."""
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code is ErrorCode.NONE:
                topic.topic_authorized_operations = ON_TOPIC
    return topics


def response_with(
    state: BrokerState, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    image = state.image
    may = ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in image.nodes.values()
            if not node.is_fenced
        ],
        cluster_id=image.cluster_id,
        controller_id=state.cluster.told_controller_id,
        topics=authorized(request, topics),
        cluster_authorized_operations=may,
    )


def describe_topic(image: Image, topic: TopicState) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(image, state) for state in topic.partitions],
    )


def _partition(image: Image, state: PartitionState) -> MetadataResponsePartition:
    has_leader = state.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.key.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=list(image.offline_replicas(state)),
    )
