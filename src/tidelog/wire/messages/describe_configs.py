"""DescribeConfigs (32), versions 1-4: the settings of topics and nodes, and where they come from.

- v1 (KIP-226): the source of each value, and the synonyms it was chosen among; before, only whether
  it was the default. v2 (KIP-219): the same bytes.
- v3 (KIP-569): type and documentation. v4: flexible.
- Null keys ask for all settings of the resource. A sensitive value is answered as null.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int8, int32, message, string


@message
class DescribeConfigsResource:
    """`resource_type`: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean(versions="3+", default=False)


@message
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@message
class DescribeConfigsResourceResult:
    """`config_source`: 1 topic, 2 broker, 3 default for brokers, 4 static, 5 default, 6 broker
    logger, 7 client metrics, 8 group. `config_type`: 1 boolean, 2 string, 3 int, 4 short, 5 long,
    6 double, 7 list, 8 class, 9 password."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, default_factory=list)
    config_type: int = int8(versions="3+", default=0)
    documentation: str | None = string(versions="3+", nullable="0+", default="")


@message
class DescribeConfigsResult:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(
        DescribeConfigsResourceResult, default_factory=list
    )


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
