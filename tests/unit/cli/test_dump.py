"""Looking into files: what is in them is shown, what is wrong with them is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command_line import CommandLine

from tidelog.log.index import OFFSET_ENTRY, TIME_ENTRY
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, encode_batch

FIRST_MS = 1_700_000_000_000


def batch(base_offset: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    records = [
        Record(0, FIRST_MS + base_offset, b"key %d" % number, b"value", [("h", b"x")])
        for number in range(count)
    ]
    return bytes(
        encode_batch(records, base_offset=base_offset, compression=compression, producer_id=9)
    )


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment of three batches, with its two indexes."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batches = [batch(100, 3), batch(103, 2, Compression.ZSTD), batch(105, 1)]
    path = directory / "00000000000000000100.log"
    path.write_bytes(b"".join(batches))
    path.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(4, len(batches[0])))
    path.with_suffix(".timeindex").write_bytes(TIME_ENTRY.pack(FIRST_MS + 103, 4))
    return path


def test_a_directory_is_summed_up_by_file(tidelog: CommandLine, segment: Path) -> None:
    outcome = tidelog("dump", str(segment.parent))
    assert outcome.code == 0
    row = outcome.output.splitlines()[-1].split()
    assert (row[:4], row[-1]) == ([".", "100", "3", "6"], "ok")
    assert max(map(len, outcome.output.splitlines())) <= 80


def test_a_segment_is_shown_batch_by_batch(tidelog: CommandLine, segment: Path) -> None:
    outcome = tidelog("dump", str(segment))
    assert outcome.code == 0
    for part in ("100-102", "103-104", "105-105", "zstd"):
        assert part in outcome.output


def test_the_records_of_every_codec_are_opened(tidelog: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch(codec * 2, 2, codec) for codec in Compression))
    [document] = tidelog("dump", str(path), "--records", "--json").json
    opened = [record for each in document["batches"] for record in each["opened"]]
    assert [record["offset"] for record in opened] == list(range(2 * len(Compression)))
    assert opened[0]["key"] == "key 0"
    assert opened[0]["headers"] == [{"name": "h", "value": "x"}]
    names = [each["compression"] for each in document["batches"]]
    assert names == ["none", "gzip", "snappy", "lz4", "zstd"]


def test_indexes_are_read(tidelog: CommandLine, segment: Path) -> None:
    first_size = len(batch(100, 3))
    [index] = tidelog("dump", str(segment.with_suffix(".index")), "--json").json
    assert index["entries"] == [{"offset": 104, "position": first_size}]
    [times] = tidelog("dump", str(segment.with_suffix(".timeindex")), "--json").json
    assert times["entries"] == [{"offset": 104, "timestamp": FIRST_MS + 103}]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_is_found_and_the_rest_still_shown(
    tidelog: CommandLine, segment: Path
) -> None:
    flip(segment, 70)
    outcome = tidelog("dump", str(segment), "--records")
    assert outcome.code == 1
    assert "BAD CRC" in outcome.output
    assert "position 0: the checksum is wrong" in outcome.output
    assert "105-105" in outcome.output
    assert outcome.errors == "error: damage in 1 of 1 file\n"


def test_a_torn_tail_is_found(tidelog: CommandLine, segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-5])
    outcome = tidelog("dump", str(segment))
    assert outcome.code == 1
    assert "are left" in outcome.output


@pytest.mark.parametrize(
    ("tail", "said"),
    [(b"\x00" * 100, "magic byte 0"), (b"x" * 10, "too few"), (b"\xff" * 100, "magic byte -1")],
)
def test_garbage_is_named_by_its_position(
    tidelog: CommandLine, segment: Path, tail: bytes, said: str
) -> None:
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + tail)
    [document] = tidelog("dump", str(segment), "--json").json
    assert len(document["batches"]) == 3
    assert document["problems"][0].startswith(f"position {size}: ")
    assert said in document["problems"][0]


def test_an_index_that_leads_astray_is_found(tidelog: CommandLine, segment: Path) -> None:
    segment.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(4, 17) + b"rest")
    outcome = tidelog("dump", str(segment.with_suffix(".index")))
    assert outcome.code == 1
    assert "offset 104 is not in a batch at position 17" in outcome.output
    assert "4 bytes after the last whole entry" in outcome.output


def test_a_time_index_that_goes_backwards_is_found(tidelog: CommandLine, segment: Path) -> None:
    path = segment.with_suffix(".timeindex")
    path.write_bytes(TIME_ENTRY.pack(FIRST_MS, 1) + TIME_ENTRY.pack(FIRST_MS - 1, 2))
    outcome = tidelog("dump", str(path))
    assert outcome.code == 1
    assert "the time of offset 102 is before" in outcome.output


def test_offsets_that_go_backwards_are_found(tidelog: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(5, 2) + batch(6, 1))
    outcome = tidelog("dump", str(path))
    assert outcome.code == 1
    assert "the offsets go backwards" in outcome.output


def test_a_long_table_says_how_much_is_left_out(tidelog: CommandLine, segment: Path) -> None:
    outcome = tidelog("dump", str(segment), "--max", "1")
    assert "and 2 more: --max 3 shows them" in outcome.output


def test_a_directory_without_logs_is_refused(tidelog: CommandLine, tmp_path: Path) -> None:
    outcome = tidelog("dump", str(tmp_path))
    assert outcome.code == 1
    assert outcome.errors.startswith("error: no .log, .index or .timeindex file")


def test_an_empty_segment_is_whole(tidelog: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    assert tidelog("dump", str(path)).code == 0
