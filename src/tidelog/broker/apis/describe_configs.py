"""DescribeConfigs: every setting of a topic, a group or the node, with its source and meaning.

A node without a name stands for all of them: told is only what was changed for all as they run.
Its loggers are a resource of their own in Kafka; here there are none whose level can be changed.
"""

from __future__ import annotations

from tidelog.broker.config_changes import TOPIC
from tidelog.broker.effective_settings import (
    Effective,
    all_nodes_effective,
    group_effective,
    node_effective,
    topic_effective,
)
from tidelog.broker.state import BrokerState, Call
from tidelog.controller.resource_configs import recorded_configs
from tidelog.metadata.states import ALL_NODES, BROKER, BROKER_LOGGER, GROUP, Resource
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_TYPES = {"boolean": 1, "string": 2, "integer": 5, "number": 6, "list": 7}


def handle(
    state: BrokerState, call: Call, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(state, request, resource) for resource in request.resources]
    )


def _describe(
    state: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    rows = _rows(state, resource)
    if isinstance(rows, ErrorCode):
        result.error_code = rows
        result.error_message = rows.explanation
        return result
    wanted = resource.configuration_keys
    result.configs = [_config(row, request) for row in rows if not wanted or row.name in wanted]
    return result


def _rows(state: BrokerState, asked: DescribeConfigsResource) -> list[Effective] | ErrorCode:
    resource = Resource(asked.resource_type, asked.resource_name)
    if resource.kind == TOPIC:
        topic = state.image.topics.get(resource.name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic_effective(state.config, dict(topic.configs))
    if resource.kind == GROUP and resource.name:
        return group_effective(state.config, state.image.configs_of(resource))
    if resource.kind == BROKER:
        return _node_rows(state, resource)
    if resource.kind == BROKER_LOGGER and resource.name == str(state.config.node_id):
        return []
    return ErrorCode.INVALID_REQUEST


def _node_rows(state: BrokerState, resource: Resource) -> list[Effective] | ErrorCode:
    recorded = recorded_configs(state.image, Resource(BROKER, ALL_NODES))
    if resource.name == ALL_NODES:
        return all_nodes_effective(recorded)
    if resource.name != str(state.config.node_id):
        return ErrorCode.INVALID_REQUEST
    own = recorded_configs(state.image, resource)
    return node_effective(state.config, recorded=recorded, own=own)


def _config(row: Effective, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=given.name, value=given.value, source=given.source)
        for given in row.values
    ]
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.is_read_only,
        config_source=row.source,
        is_sensitive=False,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=_TYPES[row.kind],
        documentation=row.doc if request.include_documentation else None,
    )
