"""IncrementalAlterConfigs: set, delete, append or subtract single settings."""

from __future__ import annotations

from tidelog.broker.config_changes import ResourceChange, alter
from tidelog.broker.state import BrokerState, Call, Sentinel
from tidelog.controller.configs import ConfigChange, ConfigOutcome, Operation
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OPERATIONS = frozenset(Operation)


def handle(
    state: BrokerState, call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | Sentinel:
    resources = [_change(resource) for resource in request.resources]
    return alter(
        state,
        resources,
        call,
        validate_only=request.validate_only,
        row=AlterConfigsResourceResponse,
        response=IncrementalAlterConfigsResponse,
    )


def _change(resource: AlterConfigsResource) -> ResourceChange:
    where = (resource.resource_type, resource.resource_name)
    if any(config.config_operation not in _OPERATIONS for config in resource.configs):
        refusal = ConfigOutcome(ErrorCode.INVALID_REQUEST, "unknown operation on a setting")
        return ResourceChange(*where, refusal=refusal)
    changes = [
        ConfigChange(config.name, Operation(config.config_operation), config.value)
        for config in resource.configs
    ]
    return ResourceChange(*where, changes)
