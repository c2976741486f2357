"""What AlterConfigs and IncrementalAlterConfigs share: changes to resources, decided one by one.

Settings of a topic change while it runs. Those of a node are given at its start and stay, but for
a few that are changed for all nodes alike (`controller.configs.LIVE_NODE_SETTINGS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.effective_settings import topic_default_texts
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.configs import ConfigChange, ConfigOutcome
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset

TOPIC = 2
BROKER = 4
ALL_NODES = ""
_COMMIT_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One resource and what is to become of it; or why that makes no sense."""

    resource_type: int
    name: str
    changes: Sequence[ConfigChange] = ()
    refusal: ConfigOutcome | None = None


def alter(
    state: BrokerState,
    resources: Sequence[ResourceChange],
    call: Call,
    *,
    validate_only: bool,
    row: Callable[..., Any],
    response: Callable[..., Any],
) -> Any | Sentinel:
    """The `response`, of one `row` for each resource, now or once the changes are committed."""
    outcomes, offset = _alter_all(state, resources, call, validate_only=validate_only)
    rows = [
        row(
            error_code=outcome.error,
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.name,
        )
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]
    return _respond(state, call, response(responses=rows), offset)


def _alter_all(
    state: BrokerState, resources: Sequence[ResourceChange], call: Call, *, validate_only: bool
) -> tuple[list[ConfigOutcome], Offset | None]:
    """What becomes of each resource, and the metadata offset that makes it true, if any."""
    outcomes: list[ConfigOutcome] = []
    last: Offset | None = None
    for resource in resources:
        outcome, offset = _alter_one(state, resource, call, validate_only=validate_only)
        outcomes.append(outcome)
        last = offset if offset is not None else last
    return outcomes, last


def _respond(
    state: BrokerState, call: Call, response: Any, offset: Offset | None
) -> Any | Sentinel:
    if offset is None or offset < state.journal.committed_offset:
        return response
    state.pending.park_on_metadata(
        call.slot,
        CommitWait(state, offset, response, _fail),
        offset=offset,
        deadline_ms=call.now.monotonic_ms + _COMMIT_TIMEOUT_MS,
    )
    return PARKED


def _alter_one(
    state: BrokerState, resource: ResourceChange, call: Call, *, validate_only: bool
) -> tuple[ConfigOutcome, Offset | None]:
    if resource.refusal is not None:
        return resource.refusal, None
    if resource.resource_type == BROKER and resource.name == ALL_NODES:
        decision = state.controller.alter_cluster(resource.changes)
    elif resource.resource_type == TOPIC:
        decision = state.controller.alter_topic(
            resource.name, resource.changes, defaults=topic_default_texts(state.config)
        )
    else:
        what = "a node's settings are" if resource.resource_type == BROKER else "this is"
        message = f"{what} not changed by clients: give them to `tidelog serve --set`"
        return ConfigOutcome(ErrorCode.INVALID_REQUEST, message), None
    if validate_only or not decision.records:
        return decision.response, None
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        return ConfigOutcome(offset, offset.explanation), None
    return decision.response, offset


def _fail(response: Any, error: ErrorCode) -> None:
    for resource in response.responses:
        resource.error_code = error
        resource.error_message = error.explanation
