"""How a topic of a cluster comes into being, for whoever needs one."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.sim.client import Answer
from tidelog.sim.cluster import Cluster
from tidelog.sim.replicated.router import Router
from tidelog.sim.schedule import Pause, Script
from tidelog.sim.workload.world import TopicFacts
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_RETRY_MS = 30.0
_CREATE_VERSION = 5
_METADATA_VERSION = 12


def create(
    cluster: Cluster,
    router: Router,
    name: str,
    partitions: int,
    *,
    replicas: int,
    configs: tuple[tuple[str, str], ...],
) -> Script[TopicFacts]:
    """Until it exists and somebody knows it."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
    while True:
        reply = yield from router.ask_anybody(request, _CREATE_VERSION, timeout_ms=1_500)
        if isinstance(reply, Answer):
            error = reply.body.topics[0].error_code
            cluster.world.counted[f"CreateTopics: {error.name}"] += 1
            if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
        yield Pause(_RETRY_MS)
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    while True:
        reply = yield from router.ask_anybody(asked, _METADATA_VERSION, timeout_ms=500)
        if isinstance(reply, Answer) and len(reply.body.topics[0].partitions) == partitions:
            topic_id = reply.body.topics[0].topic_id
            flush_policy = dict(configs).get("flush.policy", "ack")
            return TopicFacts(name, name, topic_id, partitions, flush_policy)
        yield Pause(_RETRY_MS)
