"""A group as people and programs see it."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tidelog.cli.group_lag import PartitionLag, most_behind_s, total_lag
from tidelog.cli.output import add_rows, duration_text, people, plural, table
from tidelog.cli.partition_choice import places_text, told_once
from tidelog.client.group_admin import Group, Member


def show_group(group: Group, lags: list[PartitionLag]) -> None:
    """A line that says it all, the members, the partitions, and what is odd about them."""
    console = people()
    console.print(headline(group, lags))
    if group.members:
        console.print()
        console.print(_members(group.members))
    if lags:
        console.print()
        console.print(_partitions(group, lags))
    said = remarks(group, lags)
    if said:
        console.print()
    for remark in said:
        console.print(remark)


def headline(group: Group, lags: list[PartitionLag]) -> str:
    """One line about the group, and one on how far behind it is, if that is known."""
    assignor = f" ({group.assignor})" if group.assignor else ""
    members = plural(len(group.members), "member") if group.members else "no members"
    lines = [f"{group.name}: {group.state}, {members}, {group.type} protocol{assignor}"]
    if any(each.lag is not None for each in lags):
        lines.append(_behind(lags))
    return "\n".join(lines)


def _behind(lags: list[PartitionLag]) -> str:
    lag, seconds = total_lag(lags), most_behind_s(lags)
    if lag == 0:
        return "nothing left to read"
    age = f", the oldest for {duration_text(seconds)}" if seconds is not None else ""
    return f"{plural(lag, 'record')} to read{age}"


def remarks(group: Group, lags: list[PartitionLag]) -> list[str]:
    """What a reader of the tables might not see or not understand."""
    found = []
    if not lags:
        found.append("It has committed nothing and owns nothing.")
    beyond = places_text(each.partition for each in lags if each.is_beyond_end)
    if beyond:
        found.append(
            f"Committed beyond the end: {beyond}. The topic was made anew, or has lost its end; "
            f"see `tidelog group reset-offsets {group.name}`."
        )
    skipped = places_text(
        each.partition
        for each in lags
        if each.committed is not None and each.span is not None and each.committed < each.span.start
    )
    if skipped:
        found.append(f"Unread records were deleted by retention: {skipped}.")
    uncommitted = places_text(each.partition for each in lags if each.committed is None)
    if uncommitted:
        found.append(f"Nothing committed yet, so not counted: {uncommitted}.")
    unled = places_text(each.partition for each in lags if each.span is None and not each.is_gone)
    if unled:
        found.append(f"Led by nobody, so not counted: {unled}. See `tidelog cluster status`.")
    gone = places_text(each.partition for each in lags if each.is_gone)
    if gone:
        found.append(f"No longer there: {gone}.")
    return found


def _members(members: tuple[Member, ...]) -> Table:
    has_static = any(member.instance_id for member in members)
    columns = ["#No.", "~Client id", "~Host", *(["~Instance"] if has_static else []), "~Owns"]
    rows = (
        (
            number,
            member.client_id,
            member.host.removeprefix("/"),
            *([member.instance_id] if has_static else []),
            places_text(member.partitions) or "nothing",
        )
        for number, member in enumerate(members, start=1)
    )
    return add_rows(table(*columns), rows)


def _partitions(group: Group, lags: list[PartitionLag]) -> Table:
    numbers = {member.member_id: number for number, member in enumerate(group.members, start=1)}
    owner = ["#Owner"] if group.members else []
    made = table("~Topic", "#Partition", *owner, "#Committed", "#End", "#Lag", "#Behind")
    rows = (
        (
            *place,
            *([numbers[each.owner.member_id] if each.owner else None] if owner else []),
            each.committed,
            each.span.end if each.span is not None else None,
            each.lag,
            duration_text(each.behind_s) if each.behind_s is not None else None,
        )
        for place, each in zip(told_once(each.partition for each in lags), lags, strict=True)
    )
    return add_rows(made, rows)


def as_document(group: Group, lags: list[PartitionLag]) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "group": group.name,
        "state": group.state,
        "protocol": group.type,
        "assignor": group.assignor or None,
        "lag": total_lag(lags),
        "behind_s": most_behind_s(lags),
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host.removeprefix("/"),
                "instance_id": member.instance_id,
                "partitions": [place._asdict() for place in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                **each.partition._asdict(),
                "member_id": each.owner.member_id if each.owner else None,
                "committed_offset": each.committed,
                "start_offset": each.span.start if each.span else None,
                "end_offset": each.span.end if each.span else None,
                "lag": each.lag,
                "behind_s": each.behind_s,
            }
            for each in lags
        ],
    }
