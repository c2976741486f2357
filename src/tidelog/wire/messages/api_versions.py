"""ApiVersions (18), versions 0-4: which APIs at which versions a node serves.

- v3 (KIP-511): flexible; the client names itself.
- v3 (KIP-584): features, as tagged fields.
- v4 (KIP-584): a supported feature may begin at version 0; the same bytes.
- The response's header is v0 at every version: a client that doesn't know the node yet must be able
  to read it (`requests.py` sees to that).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int16, int32, int64, message, string


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = string(versions="3+", default="")
    client_software_version: str = string(versions="3+", default="")


@message
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@message
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@message
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+", default=0)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, versions="3+", tag=0, default_factory=list
    )
    finalized_features_epoch: int = int64(versions="3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, versions="3+", tag=2, default_factory=list
    )
    zk_migration_ready: bool = boolean(versions="3+", tag=3, default=False)
