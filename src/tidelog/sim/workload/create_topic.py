"""CreateTopics: one topic, with settings that make its log small."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API_KEY = 19


@dataclass(slots=True, frozen=True)
class CreatePlan:
    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...] = ()

    @property
    def flush_policy(self) -> str:
        return dict(self.configs).get("flush.policy", "ack")


def sample(
    random: Random, *, name: str, partitions: int, configs: tuple[tuple[str, str], ...]
) -> CreatePlan:
    """The number of partitions is at most `partitions`."""
    return CreatePlan(name, random.randint(1, partitions), configs)


def build(plan: CreatePlan) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=plan.name,
        num_partitions=plan.partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in plan.configs],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000)


def classify(response: CreateTopicsResponse) -> CreatableTopicResult:
    """The one topic's result."""
    return response.topics[0]


def predict(world: World, life: int, *, may_exist: bool) -> tuple[ErrorCode, ...]:
    """`may_exist`: an earlier attempt may have succeeded without our knowing."""
    errors = world.write_excuses(life)
    errors = (*errors, ErrorCode.REQUEST_TIMED_OUT)
    return (*errors, ErrorCode.TOPIC_ALREADY_EXISTS) if may_exist else errors
