"""ListConfigResources (74), versions 0-1: what has settings (KIP-1142).

- v0 was ListClientMetricsResources (KIP-714) and asks for these alone; there are none here.
- v1: types are asked for, by the numbers of DescribeConfigs; an empty list means all.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, error_code, int8, int32, message, string

CLIENT_METRICS = 16


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array("int8", versions="1+", default_factory=list)


@message
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8(versions="1+", default=CLIENT_METRICS)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    config_resources: list[ConfigResource] = array(ConfigResource, default_factory=list)
