"""DescribeAcls, CreateAcls, DeleteAcls: there is no authorizer, and each is told so.

The code is the one that Apache Kafka answers with while it has no authorizer; everybody may do
everything.
"""

from __future__ import annotations

from tidelog.broker.state import BrokerState, Call
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_CODE = ErrorCode.SECURITY_DISABLED
_WHY = "this node has no authorizer: there are no ACLs, and everything is allowed"


def describe(state: BrokerState, call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_CODE, error_message=_WHY)


def create(state: BrokerState, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=_CODE, error_message=_WHY) for _ in request.creations]
    )


def delete(state: BrokerState, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=_CODE, error_message=_WHY) for _ in request.filters
        ]
    )
