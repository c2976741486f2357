"""The invariants of a group, as code."""

from __future__ import annotations

from tidelog.groups.consumer_group import ConsumerGroup, MemberState
from tidelog.groups.group import ClassicGroup, ClassicState
from tidelog.model.ids import PartitionKey


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


def validate_consumer(group: ConsumerGroup) -> None:
    assert group.target_epoch <= group.epoch, "a target from the future"
    assert set(group.currents) <= set(group.members), "somebody has partitions and is no member"
    assert set(group.targets) <= set(group.members), "somebody is to have and is no member"
    owners: dict[PartitionKey, str] = {}
    for member_id, current in group.currents.items():
        assert current.epoch <= group.target_epoch, f"{member_id} is ahead of the target"
        assert bool(current.revoking) == (current.state is MemberState.UNREVOKED_PARTITIONS)
        assert not current.revoking & current.assigned, f"{member_id} has and revokes the same"
        for partition in sorted(current.assigned | current.revoking):
            assert partition not in owners, f"{partition} has two owners"
            owners[partition] = member_id
    assert owners == group.owners, "the owners are not those of the members' assignments"
    targets = [partition for target in group.targets.values() for partition in sorted(target)]
    assert len(targets) == len(set(targets)), "two members are to have the same partition"
    statics = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
    assert statics == group.statics, "an instance id leads to the wrong member"
