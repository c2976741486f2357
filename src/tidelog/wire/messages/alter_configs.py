"""AlterConfigs (33), versions 0-2: all settings of a resource replaced by the ones given (KIP-133).

What is not given returns to its default, so two tools can undo each other's work;
IncrementalAlterConfigs (KIP-339) is its successor.

- v1 (KIP-219): the same bytes. v2: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int8, int32, message, string


@message
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@message
class AlterConfigsResource:
    """`resource_type` as in DescribeConfigs."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean(default=False)


@message
class AlterConfigsResourceResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
