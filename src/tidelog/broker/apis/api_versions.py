"""ApiVersions: what is served, at which versions.

A client may ask in a version we do not know: it is answered in version 0 with UNSUPPORTED_VERSION
and the whole list, from which it picks one (`Node` sees to it, since such a body can't be decoded).
"""

from __future__ import annotations

from functools import cache

from tidelog.broker.apis.versions import SERVED
from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse


def handle(state: BrokerState, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    return describe_versions(ErrorCode.NONE)


@cache
def describe_versions(error: ErrorCode) -> ApiVersionsResponse:
    """The list, with or without a complaint about the version it was asked in. Made once: every
    connection begins with this question."""
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in SERVED.values()
            if api.is_advertised
        ],
    )
