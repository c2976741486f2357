"""What AlterConfigs and IncrementalAlterConfigs share: changes to resources, decided one by one.

Settings of a topic change while it runs, and so do those of a group. Those of a node are given at
its start and stay, but for a few (`model.node_settings.LIVE_NODE_SETTINGS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.broker.commit_wait import CommitWait
from tidelog.broker.effective_settings import topic_default_texts
from tidelog.broker.state import PARKED, BrokerState, Call, Sentinel
from tidelog.controller.configs import ConfigChange, ConfigOutcome
from tidelog.controller.decision import Decision
from tidelog.metadata.states import BROKER, GROUP, Resource
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset

TOPIC = 2
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
    decision = _decide(state, resource)
    if validate_only or decision.response.error is not ErrorCode.NONE:
        return decision.response, None
    offset = state.commit(decision, call.now)
    if isinstance(offset, ErrorCode):
        return ConfigOutcome(offset, offset.explanation), None
    return decision.response, offset


def _decide(state: BrokerState, change: ResourceChange) -> Decision[ConfigOutcome]:
    resource = Resource(change.resource_type, change.name)
    if resource.kind == TOPIC:
        return state.controller.alter_topic(
            change.name, change.changes, defaults=topic_default_texts(state.config)
        )
    if resource.kind == BROKER:
        return state.controller.alter_node(resource, change.changes)
    if resource.kind == GROUP:
        return state.controller.alter_group(resource, change.changes, node=state.config.settings)
    message = f"a resource of type {resource.kind} has no settings here: topics, nodes, groups have"
    return Decision([], ConfigOutcome(ErrorCode.INVALID_REQUEST, message))


def _fail(response: Any, error: ErrorCode) -> None:
    for resource in response.responses:
        resource.error_code = error
        resource.error_message = error.explanation
