"""From what a member has to what it is to have, one heartbeat at a time.

The rule that makes it safe: a partition belongs to a member until the member says that it has given
it up (or is thrown out), and it is given to nobody else before. So a member first shrinks, keeping
its epoch; when what it reports contains nothing that it must not have, it moves to the target's
epoch and gets what is free; and it gets the rest when the others have done the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.groups.consumer_group import NOTHING, Current, MemberState, Partitions
from tidelog.model.ids import PartitionKey


def reconcile(
    current: Current,
    *,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    owners: Mapping[PartitionKey, str],
) -> Current:
    """The member's next step. `owned` is what it says it has now; `None`: the same as before."""
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _still_has(current.revoking, owned):
        return current
    kept = current.assigned & target
    revoking = current.assigned - target
    if revoking and _still_has(revoking, owned):
        return Current(
            epoch=current.epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    wanted = target - kept
    mine_no_more = revoking | current.revoking
    free = frozenset(p for p in wanted if p not in owners or p in mine_no_more)
    is_complete = len(free) == len(wanted)
    return Current(
        epoch=target_epoch,
        previous_epoch=current.epoch if current.epoch != target_epoch else current.previous_epoch,
        state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | free,
        revoking=NOTHING,
    )


def _still_has(partitions: Partitions, owned: Partitions | None) -> bool:
    return owned is None or not partitions.isdisjoint(owned)


def may_progress(
    current: Current,
    *,
    target: Partitions,
    owners: Mapping[PartitionKey, str],
) -> bool:
    """Has something that the member waits for been given up? (For members that must be told to
    ask: those of the classic protocol.)"""
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    return any(partition not in owners for partition in target - current.assigned)
