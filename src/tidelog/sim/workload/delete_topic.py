"""DeleteTopics: one topic, by name or by id."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

API_KEY = 20
FIRST_VERSION_BY_ID = 6


@dataclass(slots=True, frozen=True)
class DeletePlan:
    topic: TopicFacts
    is_by_id: bool


def sample(random: Random, topic: TopicFacts) -> DeletePlan:
    return DeletePlan(topic, random.random() < 0.5)


def build(plan: DeletePlan) -> DeleteTopicsRequest:
    """Both forms are filled in: the version decides which of them travels."""
    state = (
        DeleteTopicState(name=None, topic_id=plan.topic.topic_id)
        if plan.is_by_id
        else DeleteTopicState(name=plan.topic.name)
    )
    return DeleteTopicsRequest(topic_names=[plan.topic.name], topics=[state], timeout_ms=5_000)


def classify(response: DeleteTopicsResponse) -> DeletableTopicResult:
    return response.responses[0]


def predict(world: World, life: int, *, may_be_gone: bool) -> tuple[ErrorCode, ...]:
    """`may_be_gone`: an earlier attempt may have succeeded without our knowing."""
    errors = world.write_excuses(life)
    errors = (*errors, ErrorCode.REQUEST_TIMED_OUT)
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return (*errors, *gone) if may_be_gone else errors
