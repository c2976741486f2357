"""What a node's directory says of its last life: if it ended cleanly, and as whom it was known.

The clean mark is a file written as the last act of a clean stop and deleted as the first act of a
start. The broker epoch is written down when the cluster gives it: a directory that has it is the
one that the cluster knows, and not a new, a wiped or an old one. The cluster's own id is written
down when it is first heard of: nobody who belongs to another cluster is listened to after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.log.disk import Disk, DiskError
from tidelog.model.ids import NO_BROKER_EPOCH, BrokerEpoch

CLEAN_MARK = "clean-shutdown"
BROKER_EPOCH = "broker-epoch"
CLUSTER_ID = "cluster-id"
DIRECTORY_ID = "directory-id"
ROOT = ""


@dataclass(frozen=True, slots=True)
class LastLife:
    """`broker_epoch` is that of the last registration; none if there was none from here.
    `cluster_id` is empty for a directory that has not been in a cluster yet."""

    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    ended_cleanly: bool = False
    cluster_id: str = ""


def take_last_life(disk: Disk) -> LastLife:
    """From here on the end is not clean, until the next clean stop."""
    return LastLife(_read_epoch(disk), take_clean_mark(disk), _read(disk, CLUSTER_ID))


def take_clean_mark(disk: Disk) -> bool:
    """Whether the last stop was clean."""
    if not disk.exists(CLEAN_MARK):
        return False
    disk.delete(CLEAN_MARK)
    disk.directory(ROOT).sync()
    return True


def write_clean_mark(disk: Disk) -> bool:
    """The last act of a clean stop. False if the disk would not take it."""
    try:
        _write(disk, CLEAN_MARK, "clean")
    except DiskError:
        return False
    return True


def note_broker_epoch(disk: Disk, epoch: BrokerEpoch) -> None:
    """Durable when it returns: before anybody counts on what this directory holds."""
    _write(disk, BROKER_EPOCH, str(epoch))


def note_cluster_id(disk: Disk, cluster_id: str) -> None:
    """Durable when it returns."""
    _write(disk, CLUSTER_ID, cluster_id)


def directory_id(disk: Disk, drawn: UUID) -> UUID:
    """The directory's own id, made at its first use: `drawn`."""
    text = _read(disk, DIRECTORY_ID)
    if text:
        return UUID(text)
    _write(disk, DIRECTORY_ID, str(drawn))
    return drawn


def _read_epoch(disk: Disk) -> BrokerEpoch:
    text = _read(disk, BROKER_EPOCH)
    return BrokerEpoch(int(text)) if text.isdecimal() else NO_BROKER_EPOCH


def _read(disk: Disk, path: str) -> str:
    if not disk.exists(path):
        return ""
    file = disk.open(path)
    data = file.read(0, file.size())
    file.close()
    return data.decode("ascii", "replace").strip()


def _write(disk: Disk, path: str, text: str) -> None:
    """Whole or not at all, and durable."""
    temporary = f"{path}.tmp"
    file = disk.open(temporary, create=True)
    file.truncate(0)
    file.write(0, [f"{text}\n".encode()])
    file.sync()
    file.close()
    disk.rename(temporary, path)
    disk.directory(ROOT).sync()
