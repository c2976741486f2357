"""State diagrams (mermaid), drawn from the tables that the code documents its states with.

`docs/rebalance.md` has them between marks, and a test says whether they are current.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from tidelog.groups import consumer_group, group

START = "[*]"


State = TypeVar("State", bound=Enum)


def draw(
    meanings: Mapping[State, str],
    transitions: Mapping[tuple[State, State], str],
    *,
    first: State,
    last: State | None = None,
) -> str:
    lines = ["stateDiagram-v2", f"    {START} --> {_name(first)}"]
    lines += [
        f"    {_name(source)} --> {_name(target)}: {cause.replace(';', ',')}"
        for (source, target), cause in transitions.items()
    ]
    if last is not None:
        lines.append(f"    {_name(last)} --> {START}")
    table = ["| state | meaning |", "|---|---|"]
    table += [f"| `{_name(state)}` | {meaning} |" for state, meaning in meanings.items()]
    return "\n".join(["```mermaid", *lines, "```", "", *table])


def _name(state: Enum) -> str:
    return state.value if isinstance(state.value, str) else state.name


def diagrams() -> dict[str, str]:
    """By the name of their place in the document."""
    classic, newer = group.ClassicState, consumer_group.ConsumerState
    return {
        "classic": draw(group.MEANING, group.TRANSITIONS, first=classic.EMPTY, last=classic.DEAD),
        "newer": draw(
            consumer_group.MEANING,
            consumer_group.TRANSITIONS,
            first=newer.EMPTY,
            last=newer.DEAD,
        ),
        "member": draw(
            consumer_group.MEMBER_MEANING,
            consumer_group.MEMBER_TRANSITIONS,
            first=consumer_group.MemberState.STABLE,
        ),
    }


def up_to_date(document: str) -> str:
    """The document with its diagrams drawn anew."""
    for name, diagram in diagrams().items():
        begin, end = f"<!-- diagram: {name} -->", "<!-- end -->"
        place = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
        assert place.search(document), f"the document has no place for the diagram {name!r}"
        text = f"{begin}\n{diagram}\n{end}"
        document = place.sub(lambda _, text=text: text, document)  # type: ignore[misc]
    return document
