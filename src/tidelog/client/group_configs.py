"""The settings of one group of the consumer protocol, asked and changed over a plain connection.

librdkafka knows no settings of groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.client import direct
from tidelog.client.connection import Connection
from tidelog.client.errors import ClientError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_GROUP = 32
_SET, _DELETE = 0, 1
_SOURCES = {8: "group config", 4: "static broker config", 5: "default config"}


def describe(connection: Connection, group: str) -> dict[str, tuple[str | None, str]]:
    """Value and source of each setting, by name; the group need not exist."""
    resource = DescribeConfigsResource(
        resource_type=_GROUP, resource_name=group, configuration_keys=None
    )
    answer = direct.ask_any(connection, DescribeConfigsRequest(resources=[resource]))
    (result,) = answer.results
    _check(group, result.error_code, result.error_message)
    return {
        row.name: (row.value, _SOURCES.get(row.config_source, "dynamic broker config"))
        for row in result.configs
    }


def alter(connection: Connection, group: str, changes: Mapping[str, str | None]) -> None:
    """Set each of `changes`; None takes the group's own value away. All of them or none."""
    configs = [
        AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=configs)
    answer = direct.ask_any(connection, IncrementalAlterConfigsRequest(resources=[resource]))
    (row,) = answer.responses
    _check(group, row.error_code, row.error_message)


def _check(group: str, code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.NONE:
        raise ClientError(f"group {group!r}: {message or code.explanation} ({code.name})")
