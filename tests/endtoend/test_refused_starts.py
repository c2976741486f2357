"""A node that can't start says why in one line, and what to do; no stack trace, no exit code 0."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.endtoend.observing import assert_healthy, wait_until
from tests.support.node_process import NodeFailed, RunningNode
from tests.support.raw_client import RawClient

_WITHIN_S = 120
_TOPICS = 10


def refusal(data: Path, *arguments: str, listen: str = "127.0.0.1:0") -> str:
    """The one line that `tidelog serve` ends with."""
    command = [sys.executable, "-m", "tidelog", "serve", "--data-dir", str(data)]
    done = subprocess.run(
        [*command, "--listen", listen, *arguments],
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    said = done.stderr.strip().splitlines()
    lines = [line for line in said if not line.startswith("warning: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def test_a_second_process_on_a_data_directory(node: RunningNode) -> None:
    line = refusal(node.data_dir)
    assert "another process" in line
    assert str(node.data_dir) in line
    with RawClient(node) as client:
        client.create_topic("still-here")


def test_a_python_without_assertions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    line = refusal(tmp_path / "data")
    assert "python -O" in line
    assert "PYTHONOPTIMIZE" in line


def test_a_lock_left_by_a_dead_process_is_no_obstacle(node: RunningNode) -> None:
    node.kill()
    assert (node.data_dir / ".lock").exists()
    node.restart()
    assert_healthy(node)


def test_a_port_in_use(node: RunningNode, tmp_path: Path) -> None:
    line = refusal(tmp_path / "other", listen=node.bootstrap)
    assert node.bootstrap in line
    assert "--listen" in line


def test_a_port_taken_by_another_kind_of_program(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert address in refusal(tmp_path / "data", listen=address)


def test_two_nodes_that_start_at_once_on_one_port(tmp_path: Path) -> None:
    """Both may bind before either listens; one of them must still say what is wrong."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "tidelog", "serve", "--listen", address, "--data-dir"]
    nodes = [
        subprocess.Popen(
            [*command, str(tmp_path / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    try:
        wait_until(lambda: any(node.poll() is not None for node in nodes), "one gives up")
        loser = next(node for node in nodes if node.poll() is not None)
        _, errors = loser.communicate(timeout=_WITHIN_S)
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    assert loser.returncode not in (0, None)
    assert errors.startswith("error: can't listen on")
    assert len(errors.strip().splitlines()) == 1


def test_another_nodes_directory(node: RunningNode) -> None:
    assert node.stop() == 0
    line = refusal(node.data_dir, "--node-id", "7")
    assert "node 1" in line
    assert "--node-id 1" in line
    node.restart()
    assert_healthy(node)


def test_a_data_directory_that_is_a_file_or_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    assert str(tmp_path / "file") in refusal(tmp_path / "file")
    assert "file/below" in refusal(tmp_path / "file" / "below")
    assert "/proc/nothing" in refusal(Path("/proc/nothing/here"))


def test_a_data_directory_that_can_not_be_written(tmp_path: Path) -> None:
    """Even root can't write to the kernel's own files."""
    assert "/sys" in refusal(Path("/sys/kernel"))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--set", "no.such.setting=1"), "no.such.setting"),
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--set", "num.partitions=0"), "at least 1"),
        (("--set", "num.partitions"), "NAME=VALUE"),
        (("--set", "flush.policy=sometimes"), "flush.policy"),
        (("--set", "auto.create.topics.enable=perhaps"), "true or false"),
        (("--node-id", "-1"), "--node-id"),
        (("--config", "/nonexistent.toml"), "/nonexistent.toml"),
        (("--frobnicate",), "--frobnicate"),
    ],
)
def test_a_wrong_option(tmp_path: Path, arguments: tuple[str, ...], word: str) -> None:
    assert word in refusal(tmp_path / "data", *arguments)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "127.0.0.1:", "203.0.113.1:0"])
def test_a_wrong_address(tmp_path: Path, listen: str) -> None:
    refusal(tmp_path / "data", listen=listen)


# --- damaged metadata -----------------------------------------------------------------------------


@pytest.fixture
def filled(node: RunningNode) -> RunningNode:
    """Some topics, and a clean stop."""
    with RawClient(node) as client:
        for number in range(_TOPICS):
            client.create_topic(f"t{number}")
            client.must_produce(f"t{number}", b"x")
    assert node.stop() == 0
    return node


def _metadata_log(node: RunningNode) -> Path:
    return next((node.data_dir / "metadata").glob("*.log"))


def test_a_damaged_metadata_log_is_not_guessed_at(filled: RunningNode) -> None:
    path = _metadata_log(filled)
    intact = path.read_bytes()
    random = Random(3)
    for at in (0, 20, len(intact) // 2, random.randrange(len(intact)), len(intact) - 1):
        damaged = bytearray(intact)
        damaged[at] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        assert "metadata" in refusal(filled.data_dir), at
        assert path.read_bytes() == damaged, "the evidence was changed"
    path.write_bytes(intact)
    filled.restart()
    with RawClient(filled) as client:
        assert len(client.topics()) == _TOPICS
    assert_healthy(filled)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_metadata_log_cut_short_or_gone_is_noticed(filled: RunningNode, is_clean: bool) -> None:
    path = _metadata_log(filled)
    intact = path.read_bytes()
    copy = filled.data_dir.parent / "copy"
    shutil.copytree(filled.data_dir, copy)
    for content in (intact[:-1], intact[: len(intact) // 2], b""):
        for kept in (copy / "clean-shutdown", copy / "metadata" / path.name):
            kept.unlink(missing_ok=True)
        if is_clean:
            (copy / "clean-shutdown").write_bytes(b"clean\n")
        (copy / "metadata" / path.name).write_bytes(content)
        assert "metadata" in refusal(copy)
    (copy / "metadata" / path.name).unlink()
    assert "metadata" in refusal(copy)


def test_files_beside_the_metadata_log_can_be_done_without(filled: RunningNode) -> None:
    random = Random(4)
    for path in (filled.data_dir / "metadata").iterdir():
        if path.suffix != ".log":
            path.write_bytes(random.randbytes(path.stat().st_size))
    filled.restart()
    with RawClient(filled) as client:
        assert len(client.topics()) == _TOPICS
        client.create_topic("new")
        for number in range(_TOPICS):
            assert client.read(f"t{number}") == {0: b"x"}
    assert_healthy(filled)


def test_topics_that_lost_their_metadata_are_left_alone(filled: RunningNode) -> None:
    """Deletion needs a record that says so; no record is not such a record."""
    shutil.rmtree(filled.data_dir / "metadata")
    before = sorted(os.listdir(filled.data_dir / "topics"))
    filled.restart()
    assert sorted(os.listdir(filled.data_dir / "topics")) == before
    assert filled.log.count("belongs to no known topic") == _TOPICS
    assert_healthy(filled)


def test_a_foreign_file_in_the_data_directory_disturbs_nobody(filled: RunningNode) -> None:
    partition = next((filled.data_dir / "topics").glob("t0.*")) / "0"
    (filled.data_dir / "lost+found").mkdir()
    (filled.data_dir / "topics" / "lost+found").mkdir()
    (partition / "notes.txt").write_text("hello")
    (partition / "00000000000000000000.log.orig").write_text("hello")
    filled.restart()
    with RawClient(filled) as client:
        assert client.read("t0") == {0: b"x"}
    assert_healthy(filled)


def test_a_partition_that_can_not_be_opened_keeps_no_other_from_being_served(
    filled: RunningNode,
) -> None:
    """A directory where the log file should be: nothing can be read there, and nothing is lost."""
    log_file = next((filled.data_dir / "topics").glob("t0.*/0/*.log"))
    kept = log_file.rename(filled.data_dir / "kept")
    log_file.mkdir()
    try:
        filled.restart()
    except NodeFailed as failure:
        pytest.fail(f"one bad partition keeps the whole node from starting: {failure}")
    with RawClient(filled) as client:
        assert client.read("t1") == {0: b"x"}
    assert_healthy(filled)
    filled.kill()
    log_file.rmdir()
    kept.rename(log_file)
    filled.restart()
    with RawClient(filled) as client:
        assert client.read("t0") == {0: b"x"}
