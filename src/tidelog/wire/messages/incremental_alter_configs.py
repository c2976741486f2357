"""IncrementalAlterConfigs (44), versions 0-1: single settings changed, the rest left as they are
(KIP-339).

- v1: flexible.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int8, int32, message, string


@message
class AlterableConfig:
    """`config_operation`: 0 set, 1 delete (back to the default), 2 append to a list, 3 subtract
    from a list."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@message
class AlterConfigsResource:
    """`resource_type` as in DescribeConfigs."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean(default=False)


@message
class AlterConfigsResourceResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
