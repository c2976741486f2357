"""Topic settings of Kafka's that are accepted, kept and shown, and change nothing here.

Programs written for Kafka set them when they create a topic, and must not be refused for it. The
sentence of each says why nothing here obeys it.
"""

from __future__ import annotations

from tidelog.model.setting import INT32_MAX, INT64_MAX, Setting

_FROM_RETENTION = -2
_NOT_TIERED = "Changes nothing: there is no tiered storage here, all records are local."


def _accepted(
    name: str,
    default: int | bool | str,
    doc: str,
    *,
    unit: str = "",
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
) -> Setting:
    return Setting(
        name,
        "topic",
        default,
        doc,
        unit=unit,
        low=low,
        high=high,
        choices=choices,
        live=True,
        is_obeyed=False,
    )


ACCEPTED_TOPIC_SETTINGS: tuple[Setting, ...] = (
    _accepted(
        "flush.messages",
        INT64_MAX,
        "Changes nothing: flush.policy says when records are flushed. Its default flushes all of "
        "them before they are acknowledged, which is more than this could ask for.",
        low=1,
        high=INT64_MAX,
    ),
    _accepted(
        "flush.ms",
        INT64_MAX,
        "Changes nothing: flush.policy says when records are flushed.",
        unit="ms",
        low=0,
        high=INT64_MAX,
    ),
    _accepted(
        "file.delete.delay.ms",
        60_000,
        "Changes nothing: files of deleted segments are removed at once, which no reader notices.",
        unit="ms",
        low=0,
        high=INT64_MAX,
    ),
    _accepted(
        "segment.index.bytes",
        10_485_760,
        "Changes nothing: an index file grows as its segment needs it, and is never allocated "
        "beforehand.",
        unit="bytes",
        low=4,
        high=INT32_MAX,
    ),
    _accepted(
        "compression.lz4.level",
        9,
        "Changes nothing: what the node compresses anew with lz4 is compressed by its fast method, "
        "which has no levels. It is also what Kafka does at 9, the default.",
        low=1,
        high=17,
    ),
    _accepted(
        "preallocate",
        False,
        "Changes nothing: a segment file grows as records come.",
    ),
    _accepted(
        "remote.storage.enable",
        False,
        "There is no tiered storage here, so no topic can be configured with it: leave it false.",
        choices=("false",),
    ),
    _accepted(
        "local.retention.ms",
        _FROM_RETENTION,
        f"{_NOT_TIERED} retention.ms is what counts.",
        unit="ms",
        low=_FROM_RETENTION,
        high=INT64_MAX,
    ),
    _accepted(
        "local.retention.bytes",
        _FROM_RETENTION,
        f"{_NOT_TIERED} retention.bytes is what counts.",
        unit="bytes",
        low=_FROM_RETENTION,
        high=INT64_MAX,
    ),
    _accepted("remote.log.copy.disable", False, _NOT_TIERED),
    _accepted("remote.log.delete.on.disable", False, _NOT_TIERED),
)
