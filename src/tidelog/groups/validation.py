"""The invariants of a group, as code."""

from __future__ import annotations

from tidelog.groups.group import ClassicGroup, ClassicState


def validate_classic(group: ClassicGroup) -> None:
    generation = group.generation
    candidates = group.gathering.candidates if group.gathering else {}
    assert group.gathering is None or not group.sync_tickets, "nobody syncs while others join"
    assert not (group.gathering and group.unsynced), "unsynced members of a generation that is over"
    assert not set(group.pending) & (set(candidates) | set(generation.members)), (
        "a member whose id is still to be used"
    )
    for member_id in (*group.sync_tickets, *group.unsynced):
        assert member_id in generation.members, f"{member_id} syncs and is no member"
    assert len(generation.statics) == sum(1 for m in generation.members.values() if m.instance_id)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        assert generation.leader in generation.members, "nobody is there to assign"
    if group.state is ClassicState.STABLE:
        assert generation.leader in generation.members, "a stable group without a leader"
        assert not group.sync_tickets, "a member waits for an assignment that is there"
    if not generation.members:
        assert generation.is_settled, "a generation of nobody has nothing to settle"
