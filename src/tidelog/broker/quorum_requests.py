"""Requests about the metadata log, from the wire to the quorum's own messages and back."""

from __future__ import annotations

from typing import Any

from tidelog.model.clock import Now
from tidelog.quorum import admin_translation as admin
from tidelog.quorum.messages import (
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterResponse,
    Request,
    Response,
)
from tidelog.quorum.translation import is_metadata_fetch, request_from_wire, response_to_wire
from tidelog.wire.messages import describe_quorum
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

_FETCH = 1
_QUORUM_APIS = frozenset((52, 53, 54, 55, 59, 80, 81))
"""Vote, BeginQuorumEpoch, EndQuorumEpoch, DescribeQuorum, FetchSnapshot, AddRaftVoter,
RemoveRaftVoter."""


def may_be_for_quorum(api_key: int) -> bool:
    """Some requests of that API are."""
    return api_key == _FETCH or api_key in _QUORUM_APIS


def is_for_quorum(api_key: int, request: Any) -> bool:
    """About the metadata log, and not about a topic."""
    if isinstance(request, FetchRequest):
        return is_metadata_fetch(request)
    return api_key in _QUORUM_APIS


def question_of(request: Any) -> Request:
    """`DecodeError` if it is not about the metadata log alone."""
    if isinstance(request, describe_quorum.DescribeQuorumRequest):
        return DescribeQuorumRequest()
    if isinstance(request, AddRaftVoterRequest):
        return admin.add_voter_from_wire(request)
    if isinstance(request, RemoveRaftVoterRequest):
        return admin.remove_voter_from_wire(request)
    return request_from_wire(request)


def answer_of(response: Response, now: Now) -> Any:
    if isinstance(response, DescribeQuorumResponse):
        return admin.describe_to_wire(response, now)
    if isinstance(response, AddRaftVoterResponse):
        return admin.add_voter_to_wire(response)
    if isinstance(response, RemoveRaftVoterResponse):
        return admin.remove_voter_to_wire(response)
    return response_to_wire(response)
