"""ApiVersions: what is served, at which versions.

A client may ask in a version we do not know: it is answered in version 0 with UNSUPPORTED_VERSION
and the whole list, from which it picks one (`requests.py` sees to it, since such a body can't be
decoded). From version 3 on the features of the release are told too, which tools print.
"""

from __future__ import annotations

from functools import cache

from tidelog.broker.apis.versions import SERVED
from tidelog.broker.features import FEATURES
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.wire.requests import EncodedBody, encode_body

_encoded: dict[int, EncodedBody] = {}
"""The answer by version: the same for all, and every connection begins with this question."""


def handle(state: BrokerState, call: Call, request: ApiVersionsRequest) -> EncodedBody:
    header = call.slot.header
    answer = _encoded.get(header.api_version)
    if answer is None:
        body = encode_body(header, describe_versions(ErrorCode.NONE))
        answer = _encoded[header.api_version] = body
    return answer


@cache
def describe_versions(error: ErrorCode) -> ApiVersionsResponse:
    """The list, with or without a complaint about the version it was asked in."""
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in SERVED.values()
            if api.is_advertised
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=level, max_version=level)
            for name, level in FEATURES.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )
