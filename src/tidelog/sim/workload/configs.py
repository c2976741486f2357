"""Settings of a topic, changed while it runs (AlterConfigs, IncrementalAlterConfigs) and told.

`retention.ms` stands for them all: every change sets it to a number of its own, years long, so that
what is told later says which change was seen. With it, the log's shape changes under the writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import TopicFacts, World
from tidelog.wire.messages import alter_configs, incremental_alter_configs
from tidelog.wire.messages.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

ALTER = 33
INCREMENTAL_ALTER = 44
DESCRIBE = 32
NOTHING = -1
"""What a description tells before the first change."""

_TOPIC = 2
_SET = 0
_MARKED = "retention.ms"
_LONG_MS = 2**50
"""Longer than the wildest clock jumps."""


@dataclass(slots=True, frozen=True)
class ChangePlan:
    """`configs` are all settings the topic is to have; an incremental change names only those
    that differ from its first ones."""

    topic: TopicFacts
    number: int
    configs: Mapping[str, str]
    changed: tuple[str, ...]
    is_incremental: bool

    @property
    def api_key(self) -> int:
        return INCREMENTAL_ALTER if self.is_incremental else ALTER


def sample(random: Random, world: World, topic: TopicFacts) -> ChangePlan:
    number = world.new_value()
    changes = {
        _MARKED: str(_LONG_MS + number),
        "segment.bytes": str(random.choice((1_024, 2_048, 4_096, 16_384))),
        "index.interval.bytes": str(random.choice((0, 200, 4_096))),
        "segment.ms": str(random.choice((300, 5_000, 604_800_000))),
    }
    return ChangePlan(
        topic,
        number,
        {**world.first_configs[topic.label], **changes},
        tuple(changes),
        is_incremental=random.random() < 0.7,
    )


def build(plan: ChangePlan) -> AlterConfigsRequest | IncrementalAlterConfigsRequest:
    if plan.is_incremental:
        some = [
            incremental_alter_configs.AlterableConfig(
                name=name, config_operation=_SET, value=plan.configs[name]
            )
            for name in plan.changed
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=_TOPIC, resource_name=plan.topic.name, configs=some
        )
        return IncrementalAlterConfigsRequest(resources=[resource])
    every = [
        alter_configs.AlterableConfig(name=name, value=value)
        for name, value in plan.configs.items()
    ]
    whole = alter_configs.AlterConfigsResource(
        resource_type=_TOPIC, resource_name=plan.topic.name, configs=every
    )
    return AlterConfigsRequest(resources=[whole])


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    return (ErrorCode.REQUEST_TIMED_OUT, *world.write_excuses(life))


def build_question(topic: TopicFacts) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic.name, configuration_keys=[_MARKED]
    )
    return DescribeConfigsRequest(resources=[resource])


def classify_description(response: DescribeConfigsResponse) -> tuple[ErrorCode, int]:
    """The number of the change that is in force."""
    result = response.results[0]
    if result.error_code is not ErrorCode.NONE:
        return result.error_code, NOTHING
    value = int(result.configs[0].value or 0)
    return ErrorCode.NONE, value - _LONG_MS if value >= _LONG_MS else NOTHING
