"""DescribeConfigs: every setting of a topic or the node, with its source and documentation."""

from __future__ import annotations

from tidelog.broker.config_changes import BROKER, TOPIC
from tidelog.broker.effective_settings import Effective, Source, node_effective, topic_effective
from tidelog.broker.state import BrokerState, Call
from tidelog.controller.configs import LIVE_NODE_SETTINGS
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
    result.configs = [
        _config(row, request, is_topic=resource.resource_type == TOPIC)
        for row in rows
        if wanted is None or row.setting.name in wanted
    ]
    return result


def _rows(state: BrokerState, resource: DescribeConfigsResource) -> list[Effective] | ErrorCode:
    if resource.resource_type == TOPIC:
        topic = state.image.topics.get(resource.resource_name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic_effective(state.config, dict(topic.configs))
    if resource.resource_type == BROKER:
        if resource.resource_name not in ("", str(state.config.node_id)):
            return ErrorCode.INVALID_REQUEST
        recorded = {
            name: value
            for name, value in state.image.defaults.items()
            if name in LIVE_NODE_SETTINGS
        }
        return node_effective(state.config, recorded)
    return ErrorCode.INVALID_REQUEST


def _config(
    row: Effective, request: DescribeConfigsRequest, *, is_topic: bool
) -> DescribeConfigsResourceResult:
    synonyms = [
        DescribeConfigsSynonym(name=row.setting.name, value=value, source=source)
        for source, value in row.values
    ]
    return DescribeConfigsResourceResult(
        name=row.setting.name,
        value=row.value,
        read_only=not is_topic,
        config_source=Source(row.source),
        is_sensitive=False,
        synonyms=synonyms if request.include_synonyms else [],
        config_type=_TYPES[row.setting.kind],
        documentation=row.setting.doc if request.include_documentation else None,
    )
