"""The real disk, on real files."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
from pathlib import Path

import pytest

from tidelog.log.disk import DiskError, DiskFull, FileSpan, SyncFailed
from tidelog.runtime.file_disk import FileDisk


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    return FileDisk(tmp_path / "data")


def test_the_data_directory_is_created(tmp_path: Path) -> None:
    FileDisk(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_what_was_written_is_read(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"hello ", bytearray(b"big "), memoryview(b"world")])
    assert file.size() == 15
    assert file.read(6, 3) == b"big"
    assert file.read(10, 100) == b"world"
    assert file.read(100, 5) == b""
    assert FileSpan(file, 0, 5).read() == b"hello"


def test_a_write_beyond_the_end_leaves_zeros(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(3, [b"x"])
    assert file.read(0, 9) == b"\0\0\0x"


def test_a_file_can_be_cut(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"0123456789"])
    file.truncate(4)
    assert (file.size(), file.read(0, 9)) == (4, b"0123")


def test_an_absent_file_is_not_found(disk: FileDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("file")
    assert not disk.exists("file")


def test_directories_are_made_listed_and_deleted(disk: FileDisk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("a/b")
    for name in ("z", "y", "x"):
        disk.open(f"a/b/{name}", create=True)
    assert disk.list("a/b") == ["x", "y", "z"]
    assert disk.list("a") == ["b"]
    assert disk.list("nothing") == []
    for path in ("a/b", "a", ""):
        disk.directory(path).sync()
    disk.delete("a")
    disk.delete("a")
    assert disk.list("") == []


def test_a_rename_replaces_and_the_open_file_follows(disk: FileDisk) -> None:
    old, new = disk.open("old", create=True), disk.open("new", create=True)
    old.write(0, [b"old"])
    new.write(0, [b"new"])
    disk.rename("old", "new")
    assert old.path == "new"
    assert disk.open("new") is old
    assert (old.read(0, 9), new.read(0, 9)) == (b"old", b"new")
    assert disk.list("") == ["new"]


@pytest.mark.parametrize("is_closed_first", [False, True])
def test_a_deleted_file_stays_readable_while_it_is_held(
    disk: FileDisk, is_closed_first: bool
) -> None:
    disk.make_directory("topic")
    file = disk.open("topic/file", create=True)
    file.write(0, [b"data"])
    if is_closed_first:
        file.close()
    disk.delete("topic")
    file.close()
    assert (file.read(0, 9), file.size()) == (b"data", 4)
    disk.make_directory("topic")
    again = disk.open("topic/file", create=True)
    assert again is not file
    assert again.size() == 0
    assert file.size() == 4


def test_open_descriptors_are_bounded(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, max_open_files=5)
    files = [disk.open(f"{number}", create=True) for number in range(50)]
    for number, file in enumerate(files):
        file.write(0, [b"%d" % number])
        assert disk.open_descriptors() <= 5
    assert [file.read(0, 9) for file in files] == [b"%d" % number for number in range(50)]
    for file in files:
        file.sync()
    assert disk.open_descriptors() <= 5


def test_a_file_nobody_holds_is_closed(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"x"])
    assert disk.open_descriptors() == 1
    del file
    gc.collect()
    assert disk.open_descriptors() == 0


def test_all_who_open_a_path_share_the_file(disk: FileDisk) -> None:
    assert disk.open("file", create=True) is disk.open("file")


def test_the_descriptor_serves_sendfile(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"0123456789"])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert file.send_to(ours.fileno(), 2, 3) == 3
        assert file.send_to(ours.fileno(), 5, 4) == 4
        assert theirs.recv(100) == b"2345678"


def test_a_full_disk_is_told_apart_from_a_broken_one(
    disk: FileDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("file", create=True)
    kinds = {errno.ENOSPC: DiskFull, errno.EDQUOT: DiskFull, errno.EIO: DiskError}
    for number, kind in kinds.items():

        def failing(*_: object, number: int = number) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "pwritev", failing)
        monkeypatch.setattr(os, "fdatasync", failing)
        with pytest.raises(DiskError) as caught:
            file.write(0, [b"x"])
        assert type(caught.value) is kind
        assert "file" in str(caught.value)
        with pytest.raises(DiskError) as caught:
            file.sync()
        assert type(caught.value) is SyncFailed  # nothing can be tried again after it


def test_a_write_that_the_kernel_takes_in_pieces_is_finished(
    disk: FileDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, rest = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: whole(fd, [parts[0][:2]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: rest(fd, data[:3], at))
    file = disk.open("file", create=True)
    file.write(0, [b"0123", b"456789"])
    assert file.read(0, 99) == b"0123456789"


def test_a_failed_sync_on_giving_way_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FileDisk(tmp_path, max_open_files=1)
    file = disk.open("file", create=True)
    file.write(0, [b"x"])

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fdatasync", failing)
    disk.open("other", create=True)
    monkeypatch.undo()
    with pytest.raises(DiskError):
        file.sync()


def test_files_may_be_used_by_several_threads_while_descriptors_are_few(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, max_open_files=3)
    files = [disk.open(f"{number}", create=True) for number in range(12)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        for turn in range(200):
            number = (seed * 7 + turn) % 12
            data = b"%04d" % number
            try:
                files[number].write(0, [data])
                if turn % 20 == 0:
                    files[number].sync()
                if files[number].read(0, 9) != data:
                    wrong.append(number)
            except DiskError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
