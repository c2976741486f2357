"""The real disk, on real files."""

from __future__ import annotations

import errno
import gc
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.open_files import deleted_but_open
from tests.unit.log.logs import a_batch, append, flush, settings

from tidelog.log.disk import DiskError, DiskFull, FileSpan, SyncFailed
from tidelog.log.log import Log
from tidelog.runtime.file_disk import FileDisk


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    return FileDisk(tmp_path / "data")


def test_the_data_directory_is_created(tmp_path: Path) -> None:
    FileDisk(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_room_that_was_taken_is_there_as_zeros_and_changes_nothing_else(disk: FileDisk) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"hello"])
    file.take_room(10_000)
    assert file.size() == 10_000
    assert file.read(0, 10_000) == b"hello" + bytes(9_995)
    assert os.stat(disk.absolute("file")).st_blocks * 512 >= 10_000
    file.take_room(100)
    assert file.size() == 10_000


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
    assert old.read(0, 9) == b"old"
    assert disk.list("") == ["new"]
    new.sync()  # a flush may have been asked for before
    with pytest.raises(DiskError, match="was deleted or replaced"):
        new.read(0, 9)


@pytest.mark.parametrize("is_closed_first", [False, True])
@pytest.mark.parametrize("doomed", ["topic", "topic/file"])
def test_a_deleted_file_is_closed_whoever_refers_to_it(
    disk: FileDisk, doomed: str, is_closed_first: bool
) -> None:
    disk.make_directory("topic")
    file = disk.open("topic/file", create=True)
    file.write(0, [b"data"])
    if is_closed_first:
        file.close()
    disk.delete(doomed)
    assert disk.open_descriptors() == 0
    assert deleted_but_open(Path(disk.root)) == []
    disk.make_directory("topic")
    again = disk.open("topic/file", create=True)
    assert again is not file
    assert again.size() == 0
    with pytest.raises(DiskError, match="was deleted or replaced"):
        file.size()


@pytest.mark.parametrize("is_closed_first", [False, True])
def test_a_deleted_file_stays_readable_while_it_is_sent(
    disk: FileDisk, is_closed_first: bool
) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"0123456789"])
    spans = [FileSpan(file, 2, 3), FileSpan(file, 5, 4)]
    if is_closed_first:
        file.close()
    disk.delete("file")
    assert [span.read() for span in spans] == [b"234", b"5678"]
    spans.pop()
    assert len(deleted_but_open(Path(disk.root))) == 1
    spans.pop()
    assert deleted_but_open(Path(disk.root)) == []


def test_a_file_that_was_not_deleted_after_all_stays_open(
    disk: FileDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("file", create=True)
    file.write(0, [b"data"])
    disk.open("other", create=True)

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "unlink", failing)
    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(DiskError):
        disk.delete("file")
    with pytest.raises(DiskError):
        disk.rename("other", "file")
    assert file.read(0, 9) == b"data"


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


def test_many_flushed_logs_give_way_without_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each flush leaves a note beside the mark, which nobody syncs."""
    disk = FileDisk(tmp_path, max_open_files=20)
    logs = [Log.open(disk, f"log-{number}", settings(), clean=False) for number in range(40)]
    for log in logs:
        for _ in range(2):  # with the second flush the mark is flushed that the first has written
            append(log, a_batch())
            flush(log)
    synced: list[str] = []
    monkeypatch.setattr(FileDisk, "_close_one", _noting_syncs(synced, FileDisk._close_one))
    for _ in range(5):
        for log in logs:
            append(log, a_batch())
            flush(log)
    assert disk.open_descriptors() == 20
    assert synced == []


def _noting_syncs(
    synced: list[str], close_one: Callable[[FileDisk], bool]
) -> Callable[[FileDisk], bool]:
    def noting(disk: FileDisk) -> bool:
        fdatasync = os.fdatasync

        def noted(descriptor: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            fdatasync(descriptor)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "fdatasync", noted)
            return close_one(disk)

    return noting


def test_files_may_be_used_by_several_threads_while_descriptors_are_few(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, max_open_files=3)
    files = [disk.open(f"{number}", create=True) for number in range(40)]
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


def test_a_file_that_nobody_holds_may_be_closed_by_another_thread_first(disk: FileDisk) -> None:
    """Its descriptor's number may be another file's by then."""
    file = disk.open("file", create=True)
    file.write(0, [b"x"])
    held = disk.open_descriptors()
    file.close()
    disk.forget(file)
    assert disk.open_descriptors() == held - 1
    assert file.read(0, 1) == b"x"


def test_a_directory_that_was_deleted_has_nothing_to_sync(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.make_directory("topics/one")
    directory = disk.directory("topics/one")
    disk.delete("topics/one")
    directory.sync()


def test_the_files_of_a_deleted_directory_are_closed_and_no_others(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for folder in ("one/0", "one/1", "ones/0"):
        disk.make_directory(f"topics/{folder}")
    files = [disk.open(f"topics/{at}/log", create=True) for at in ("one/0", "one/1", "ones/0")]
    disk.delete("topics/one")
    assert disk.open_descriptors() == 1
    files[2].write(0, [b"still here"])
