"""UpdateFeatures: every feature stays at the one level that this release has.

Asked for that level, nothing has to be done; any other is refused. One refusal is that of the whole
request, as with Kafka from version 2 on.
"""

from __future__ import annotations

from tidelog.broker.features import FEATURES
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_FIRST_WITH_ONE_ERROR = 2


def handle(
    state: BrokerState, call: Call, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    results = [_result(update) for update in request.feature_updates]
    refused = [each for each in results if each.error_code is not ErrorCode.NONE]
    if refused and call.slot.header.api_version >= _FIRST_WITH_ONE_ERROR:
        return UpdateFeaturesResponse(
            error_code=refused[0].error_code, error_message=refused[0].error_message
        )
    return UpdateFeaturesResponse(results=results)


def _result(update: FeatureUpdateKey) -> UpdatableFeatureResult:
    level = FEATURES.get(update.feature)
    result = UpdatableFeatureResult(feature=update.feature)
    if level is None:
        why = f"this release of Tidelog has no feature {update.feature!r}"
    elif level != update.max_version_level:
        why = f"{update.feature} is {level} in this release of Tidelog, and can't be changed"
    else:
        return result
    result.error_code, result.error_message = ErrorCode.INVALID_UPDATE_VERSION, why
    return result
