"""UpdateFeatures (57), versions 0-2: which level of a feature the whole cluster uses (KIP-584).

- v1 (KIP-778): how a level may change, and a dry run. v2: one error for all updates.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import array, boolean, error_code, int8, int16, int32, message, string


@message
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(versions="0", default=False)
    upgrade_type: int = int8(versions="1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+", default=False)


@message
class UpdatableFeatureResult:
    feature: str = string()
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    error_message: str | None = string(nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = array(
        UpdatableFeatureResult, versions="0-1", default_factory=list
    )
