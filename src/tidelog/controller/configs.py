"""Changing a topic's settings: whole (AlterConfigs) or one by one (IncrementalAlterConfigs).

Some settings say who may lead a partition. With them its eligible leaders are settled anew in the
same decision: nobody may still count as eligible when the leader begins to commit without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tidelog.controller.decision import Decision
from tidelog.controller.node_changes import plan_elections
from tidelog.metadata.image import Image, TopicState
from tidelog.metadata.records import ConfigRecord, MetadataRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TOPIC_ID
from tidelog.model.safeguards import ALL_SAFEGUARDS, Safeguard
from tidelog.model.settings import InvalidSetting, setting_named

ELECTION_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable", "flush.policy")
"""What every node must see alike, also where a topic says nothing: the active controller's
defaults are recorded, and hold for all nodes. (The flush policy says what a crash may cost.)"""


class Operation(IntEnum):
    """The numbers are the protocol's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One setting's change."""

    name: str
    operation: Operation
    value: str | None


@dataclass(frozen=True, slots=True)
class ConfigOutcome:
    """`message` is a sentence for the user, where there was an error."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def decide_alter_topic(
    image: Image,
    name: str,
    changes: Sequence[ConfigChange],
    *,
    defaults: Mapping[str, str],
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[ConfigOutcome]:
    """All changes or none. `defaults` is what the topic has where it says nothing: appending to a
    list begins there."""
    topic = image.topics.get(name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Decision([], ConfigOutcome(unknown, unknown.explanation))
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        return Decision([], ConfigOutcome(ErrorCode.INVALID_REQUEST, "a setting is named twice"))
    try:
        changed = _changed(topic, changes, defaults)
    except InvalidSetting as wrong:
        return Decision([], ConfigOutcome(ErrorCode.INVALID_CONFIG, str(wrong)))
    records: list[MetadataRecord] = [
        ConfigRecord(topic_id=topic.topic_id, name=name, value=value)
        for name, value in changed.items()
    ]
    if any(name in ELECTION_SETTINGS for name in changed):
        after, _ = image.replay(records)
        records += plan_elections(after, topic.partitions, safeguards=safeguards)
    return Decision(records, ConfigOutcome())


def decide_defaults(
    image: Image,
    given: Mapping[str, str],
    *,
    safeguards: frozenset[Safeguard] = ALL_SAFEGUARDS,
) -> Decision[None]:
    """Make the controller's defaults for elections the cluster's, if they are not."""
    records: list[MetadataRecord] = [
        ConfigRecord(topic_id=NO_TOPIC_ID, name=name, value=given.get(name))
        for name in ELECTION_SETTINGS
        if given.get(name) != image.defaults.get(name)
    ]
    if records:
        after, _ = image.replay(records)
        records += plan_elections(after, after.partitions(), safeguards=safeguards)
    return Decision(records, None)


def replace_all(before: Mapping[str, str], values: Mapping[str, str | None]) -> list[ConfigChange]:
    """The changes that leave exactly `values` of what was `before`: what is not named goes."""
    changes = [ConfigChange(name, Operation.SET, value) for name, value in values.items()]
    changes += [ConfigChange(name, Operation.DELETE, None) for name in before if name not in values]
    return changes


def _changed(
    topic: TopicState, changes: Sequence[ConfigChange], defaults: Mapping[str, str]
) -> dict[str, str | None]:
    """The new text of each setting that gets another one; None for the default again. A name that
    the topic does not have may be deleted, whether or not it is a setting: it is gone already."""
    texts = {change.name: _new_text(topic, change, defaults) for change in changes}
    return {name: text for name, text in texts.items() if text != topic.configs.get(name)}


def _new_text(topic: TopicState, change: ConfigChange, defaults: Mapping[str, str]) -> str | None:
    if change.operation is Operation.DELETE:
        return None
    setting = setting_named(change.name, "topic")
    if change.value is None:
        raise InvalidSetting(f"{change.name} has no value")
    text = change.value
    if change.operation in (Operation.APPEND, Operation.SUBTRACT):
        if not setting.is_list:
            raise InvalidSetting(f"{change.name} is no list: set it instead")
        current = _parts(topic.configs.get(change.name, defaults[change.name]))
        given = _parts(text)
        if change.operation is Operation.APPEND:
            kept = current + [part for part in given if part not in current]
        else:
            kept = [part for part in current if part not in given]
        text = ",".join(kept)
    return setting.normalized(text)


def _parts(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
