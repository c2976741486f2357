"""The partitions of `__consumer_offsets` on this node, as its group coordinators see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.effects import Report
from tidelog.broker.offsets_log import OFFSETS_TOPIC
from tidelog.log.disk import DiskError, DiskFull
from tidelog.model.errors import ErrorCode
from tidelog.partition.replica import Replica

if TYPE_CHECKING:
    from tidelog.broker.state import BrokerState


class OffsetsPartitions:
    """See `coordinators.OffsetsLogs`."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def leader_of(self, partition: int) -> Replica | None:
        """A log that could not be opened so far is tried again by this."""
        found = self._state.replicas.find(OFFSETS_TOPIC, partition)
        return None if isinstance(found, ErrorCode) or found.leader is None else found

    def may_write(self) -> bool:
        return self._state.storage_error is None

    def has_room(self, replica: Replica) -> bool:
        leader = replica.leader
        if leader is None or not leader.may_acknowledge:
            return False
        try:
            return self._state.reserve.leaves_room()
        except DiskError as error:
            self._state.fail_storage(error)
            return False

    def appended(self, replica: Replica) -> None:
        self._state.appended(replica)

    def write_failed(self, replica: Replica, error: DiskError) -> None:
        """As with what clients produce: a leader without room resigns, if another may lead."""
        if isinstance(error, DiskFull):
            self._state.replicas.stir(replica)
        else:
            self._state.fail_storage(error)

    def unreadable(self, replica: Replica, why: str) -> None:
        """Where another replica is sound, it is to lead."""
        self._state.reports.append(
            Report("error", f"{replica.name}: cannot load its consumer groups yet: {why}")
        )
        if replica.leader is not None:
            replica.leader.look_for_damage()
        self._state.replicas.stir(replica)
        self._state.touched[replica] = None
