"""AlterConfigs: the settings of topics replaced whole; what is not named returns to its default."""

from __future__ import annotations

from tidelog.broker.config_changes import TOPIC, ResourceChange, alter
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.configs import ConfigChange, Operation, replace_all
from tidelog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(
    state: BrokerState, call: Call, request: AlterConfigsRequest
) -> AlterConfigsResponse | Sentinel:
    resources = [_change(state, resource) for resource in request.resources]
    return alter(
        state,
        resources,
        call,
        validate_only=request.validate_only,
        row=AlterConfigsResourceResponse,
        response=AlterConfigsResponse,
    )


def _change(state: BrokerState, resource: AlterConfigsResource) -> ResourceChange:
    topic = state.controller.image.topics.get(resource.resource_name)
    changes = [
        ConfigChange(config.name, Operation.SET, config.value) for config in resource.configs
    ]
    if topic is not None and resource.resource_type == TOPIC:
        values = {config.name: config.value for config in resource.configs}
        changes = replace_all(topic, values)
    return ResourceChange(resource.resource_type, resource.resource_name, changes)
