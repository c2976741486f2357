"""Changing the settings of nodes and groups: those that clients may change while the cluster runs.

They are recorded in the metadata log, of all nodes alike (the resource name is empty), of one node,
or of one group of the consumer protocol. All changes to a resource are made, or none. A name that
is not recorded may be deleted, whether or not it is a setting: it is gone already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.controller.configs import ConfigChange, ConfigOutcome, Operation
from tidelog.controller.decision import Decision
from tidelog.metadata.image import Image
from tidelog.metadata.records import ConfigRecord, MetadataRecord, ResourceConfigRecord
from tidelog.metadata.states import GROUP, Resource
from tidelog.model.errors import ErrorCode
from tidelog.model.group_settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from tidelog.model.ids import NO_TOPIC_ID
from tidelog.model.node_settings import LIVE_NODE_SETTINGS
from tidelog.model.settings import InvalidSetting, NodeSettings, Scope, setting_named


def recorded_configs(image: Image, resource: Resource) -> Mapping[str, str]:
    """What clients have given to it: for all nodes alike, also where nothing of it is recorded."""
    if resource.kind == GROUP or resource.name:
        return image.configs_of(resource)
    return {name: image.defaults[name] for name in LIVE_NODE_SETTINGS if name in image.defaults}


def decide_alter_node(
    image: Image, resource: Resource, changes: Sequence[ConfigChange]
) -> Decision[ConfigOutcome]:
    """Of one node, or of all alike where the resource has no name. Kafka's error for what can't
    be changed there is INVALID_REQUEST."""
    name = resource.name
    if name and not (name.isascii() and name.isdecimal()):
        return _refused(ErrorCode.INVALID_REQUEST, f"a node's name is its number: not {name!r}")
    if name and name not in map(str, image.nodes):
        return _refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no node {name}")
    before = recorded_configs(image, resource)
    try:
        changed = _changed(before, changes, scope="node")
    except InvalidSetting as wrong:
        return _refused(ErrorCode.INVALID_REQUEST, str(wrong))
    records: list[MetadataRecord] = (
        _records(resource, changed)
        if name
        else [
            ConfigRecord(topic_id=NO_TOPIC_ID, name=name, value=value)
            for name, value in changed.items()
        ]
    )
    return Decision(records, ConfigOutcome())


def decide_alter_group(
    image: Image, resource: Resource, changes: Sequence[ConfigChange], *, node: NodeSettings
) -> Decision[ConfigOutcome]:
    """The group need not exist yet. `node` has the bounds, and what a group has that says nothing
    itself."""
    if not resource.name:
        return _refused(ErrorCode.INVALID_REQUEST, "a group's settings need the group's name")
    before = recorded_configs(image, resource)
    try:
        changed = _changed(before, changes, scope="group")
        _check_group({**before, **changed}, node)
    except InvalidSetting as wrong:
        return _refused(ErrorCode.INVALID_CONFIG, str(wrong))
    return Decision(_records(resource, changed), ConfigOutcome())


def _changed(
    before: Mapping[str, str], changes: Sequence[ConfigChange], *, scope: Scope
) -> dict[str, str | None]:
    """The new text of each setting that gets another one; None for the default again."""
    texts: dict[str, str | None] = {}
    for change in changes:
        if change.name in texts:
            raise InvalidSetting(f"{change.name} is named twice")
        texts[change.name] = _new_text(change, scope=scope)
    return {name: text for name, text in texts.items() if text != before.get(name)}


def _new_text(change: ConfigChange, *, scope: Scope) -> str | None:
    if change.operation is Operation.DELETE:
        return None
    setting = setting_named(change.name, scope)
    if scope == "node" and change.name not in LIVE_NODE_SETTINGS:
        raise InvalidSetting(
            f"{change.name} is not changed by clients: give it to `tidelog serve --set`"
        )
    if change.operation is not Operation.SET:
        raise InvalidSetting(f"{change.name} is no list: set it instead")
    if change.value is None:
        raise InvalidSetting(f"{change.name} has no value")
    return setting.normalized(change.value)


def _check_group(configs: Mapping[str, str | None], node: NodeSettings) -> None:
    session_ms = int(configs.get(SESSION_TIMEOUT) or node.group_consumer_session_timeout_ms)
    interval_ms = int(configs.get(HEARTBEAT_INTERVAL) or node.group_consumer_heartbeat_interval_ms)
    bounds = {
        SESSION_TIMEOUT: (
            node.group_consumer_min_session_timeout_ms,
            node.group_consumer_max_session_timeout_ms,
        ),
        HEARTBEAT_INTERVAL: (
            node.group_consumer_min_heartbeat_interval_ms,
            node.group_consumer_max_heartbeat_interval_ms,
        ),
    }
    for name, (low, high) in bounds.items():
        text = configs.get(name)
        if text is not None and not low <= int(text) <= high:
            least, most = (name.replace("consumer", f"group.consumer.{end}") for end in _ENDS)
            raise InvalidSetting(
                f"{name} must be from {low} ({least}) to {high} ({most}) here: not {text}"
            )
    if session_ms <= interval_ms:
        raise InvalidSetting(
            f"{SESSION_TIMEOUT} ({session_ms}) must be greater than "
            f"{HEARTBEAT_INTERVAL} ({interval_ms})"
        )


_ENDS = ("min", "max")


def _records(resource: Resource, changed: Mapping[str, str | None]) -> list[MetadataRecord]:
    return [
        ResourceConfigRecord(
            resource_type=resource.kind, resource_name=resource.name, name=name, value=value
        )
        for name, value in changed.items()
    ]


def _refused(error: ErrorCode, message: str) -> Decision[ConfigOutcome]:
    return Decision([], ConfigOutcome(error, message))
