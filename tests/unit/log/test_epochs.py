"""Which leader epoch wrote what."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.log.logs import a_batch, append, open_log, settings

from tidelog.log.epochs import Epochs
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.runtime.file_disk import FileDisk


def epochs_of(*pairs: tuple[int, int]) -> Epochs:
    epochs = Epochs()
    for epoch, offset in pairs:
        epochs.note(epoch, offset)
    return epochs


def end_of(epochs: Epochs, epoch: int) -> tuple[int, int]:
    return epochs.end_of(LeaderEpoch(epoch), Offset(100))


def test_an_epoch_ends_where_the_next_begins_and_the_last_at_the_end() -> None:
    epochs = epochs_of((2, 0), (3, 10), (7, 40))
    assert end_of(epochs, 2) == (2, 10)
    assert end_of(epochs, 3) == (3, 40)
    assert end_of(epochs, 7) == (7, 100)


def test_of_an_unknown_epoch_the_largest_below_it_is_told() -> None:
    epochs = epochs_of((2, 5), (3, 10), (7, 40))
    assert end_of(epochs, 5) == (3, 40)
    assert end_of(epochs, 9) == (7, 100)
    assert end_of(epochs, 1) == (1, 5)
    assert end_of(Epochs(), 1) == (-1, -1)


def test_an_epoch_begins_with_its_first_batch() -> None:
    epochs = epochs_of((1, 0), (1, 10), (2, 20), (2, 30))
    assert epochs.entries() == [(1, 0), (2, 20)]
    assert [epochs.epoch_of(offset) for offset in (0, 19, 20, 99)] == [1, 1, 2, 2]


def test_a_cut_forgets_the_epochs_beyond_it() -> None:
    epochs = epochs_of((1, 0), (2, 20), (3, 30))
    epochs.cut(20)
    assert epochs.entries() == [(1, 0)]


def test_the_file_is_kafkas() -> None:
    assert epochs_of((0, 0), (4, 120)).encode() == b"0\n2\n0 0\n4 120\n"
    epochs = Epochs()
    assert epochs.decode(b"0\n2\n0 0\n4 120\n")
    assert epochs.entries() == [(0, 0), (4, 120)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0 0 0\n",
        b"0\n2\n1 0\n0 5\n",
        b"0\n2\n1 5\n2 0\n",
        b"0\nx\n",
        b"\xff\n",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(data: bytes) -> None:
    assert not Epochs().decode(data)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("content", [None, b"", b"0\n1\n0 0\n", b"0\n2\n0 0\n9 3\n"])
def test_a_lost_or_wrong_file_is_rebuilt_from_the_log(
    tmp_path: Path, is_clean: bool, content: bytes | None
) -> None:
    config = settings(segment_bytes=2000)
    log = open_log(FileDisk(tmp_path), config=config)
    for number in range(100):
        append(log, a_batch(), epoch=number // 30)
    log.close_cleanly()
    path = tmp_path / "orders-0" / "leader-epoch-checkpoint"
    assert path.read_bytes() == b"0\n4\n0 0\n1 30\n2 60\n3 90\n"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    again = open_log(FileDisk(tmp_path), clean=is_clean, config=config)
    assert again.epochs.entries() == [(0, 0), (1, 30), (2, 60), (3, 90)]
    again.checkpoint()
    assert path.read_bytes() == b"0\n4\n0 0\n1 30\n2 60\n3 90\n"


@pytest.mark.parametrize("byte", [5, 15], ids=["another offset", "another epoch"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_wrong_header_tells_no_epoch_when_the_file_is_rebuilt(
    tmp_path: Path, number: int, is_first: bool, byte: int
) -> None:
    """Offset and epoch are covered by no checksum."""
    config = settings(segment_bytes=2000)
    log = open_log(FileDisk(tmp_path), config=config)
    for count in range(100):
        append(log, a_batch(), epoch=count // 50)
    log.close_cleanly()
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").unlink()
    path = sorted((tmp_path / "orders-0").glob("*.log"))[number]
    data = bytearray(path.read_bytes())
    data[byte if is_first else int.from_bytes(data[8:12], "big") + 12 + byte] ^= 0x40
    path.write_bytes(data)
    again = open_log(FileDisk(tmp_path), config=config)
    (first, start), (second, later) = again.epochs.entries()
    assert (first, second, later) == (0, 1, 50)
    assert start == (1 if number == 0 and is_first else 0)
