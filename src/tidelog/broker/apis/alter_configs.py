"""AlterConfigs: the settings of a topic, node or group replaced whole; what is not named returns to
its default."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.config_changes import TOPIC, ResourceChange, alter
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.configs import replace_all
from tidelog.controller.resource_configs import recorded_configs
from tidelog.metadata.image import Image, Resource
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
    values = {config.name: config.value for config in resource.configs}
    before = _before(state.controller.image, resource)
    return ResourceChange(
        resource.resource_type, resource.resource_name, replace_all(before, values)
    )


def _before(image: Image, resource: AlterConfigsResource) -> Mapping[str, str]:
    if resource.resource_type != TOPIC:
        return recorded_configs(image, Resource(resource.resource_type, resource.resource_name))
    topic = image.topics.get(resource.resource_name)
    return {} if topic is None else topic.configs
