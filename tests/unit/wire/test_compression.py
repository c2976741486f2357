"""The codecs against aiokafka's, and against bombs."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec

from tidelog.wire.compression import Compression, compress, decompress
from tidelog.wire.errors import DecodeError

ROOM = 10_000_000
SAMPLES = {
    "nothing": b"",
    "a byte": b"x",
    "text": b"the quick brown fox jumps over the lazy dog " * 50,
    "several blocks": bytes(range(256)) * 2_000,
    "incompressible": bytes((n * n * 7 + n // 3) % 256 for n in range(90_000)),
}
COMPRESSED = [c for c in Compression if c is not Compression.NONE]


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
@pytest.mark.parametrize("compression", Compression)
def test_what_is_compressed_comes_back(compression: Compression, sample: bytes) -> None:
    assert decompress(compress(sample, compression), compression, ROOM) == sample


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_aiokafka_reads_what_we_compress(sample: bytes) -> None:
    assert aiokafka_codec.gzip_decode(compress(sample, Compression.GZIP)) == sample
    assert bytes(aiokafka_codec.snappy_decode(compress(sample, Compression.SNAPPY))) == sample
    assert bytes(aiokafka_codec.lz4_decode(compress(sample, Compression.LZ4))) == sample
    assert bytes(aiokafka_codec.zstd_decode(compress(sample, Compression.ZSTD))) == sample


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
def test_we_read_what_aiokafka_compresses(sample: bytes) -> None:
    assert decompress(aiokafka_codec.gzip_encode(sample), Compression.GZIP, ROOM) == sample
    framed = aiokafka_codec.snappy_encode(sample, xerial_compatible=True)
    assert decompress(framed, Compression.SNAPPY, ROOM) == sample
    assert decompress(aiokafka_codec.lz4_encode(sample), Compression.LZ4, ROOM) == sample
    assert decompress(aiokafka_codec.zstd_encode(sample), Compression.ZSTD, ROOM) == sample


def test_raw_snappy_is_read_as_well_as_framed() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SAMPLES["text"]))
    assert decompress(raw, Compression.SNAPPY, ROOM) == SAMPLES["text"]


def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    frame = compress(SAMPLES["text"], Compression.LZ4)
    assert frame[4] & 0x20


@pytest.mark.parametrize("compression", COMPRESSED)
def test_exactly_the_allowed_size_passes_and_a_byte_more_does_not(compression: Compression) -> None:
    packed = compress(bytes(300_000), compression)
    assert len(decompress(packed, compression, 300_000)) == 300_000
    with pytest.raises(DecodeError):
        decompress(packed, compression, 299_999)


def test_plain_records_are_limited_too() -> None:
    with pytest.raises(DecodeError):
        decompress(bytes(11), Compression.NONE, 10)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_bomb_stops_at_the_limit(compression: Compression) -> None:
    bomb = compress(bytes(50_000_000), compression)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decompress(bomb, compression, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("compression", COMPRESSED)
def test_damage_is_a_decode_error_or_other_bytes(compression: Compression) -> None:
    packed = compress(SAMPLES["text"], compression)
    for place in range(len(packed)):
        for damaged in (packed[:place], packed[:place] + b"\xff" + packed[place + 1 :]):
            try:
                decompress(damaged, compression, ROOM)
            except DecodeError:
                pass


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 1000])
def test_a_lying_snappy_block_is_refused(size: int) -> None:
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    with pytest.raises(DecodeError):
        decompress(header + struct.pack(">i", size) + b"abc", Compression.SNAPPY, ROOM)
    with pytest.raises(DecodeError):
        decompress(header + b"\x00\x00", Compression.SNAPPY, ROOM)


def test_a_snappy_length_that_no_compression_can_reach_is_refused() -> None:
    claim = bytearray()
    value = 9_000_000
    while value > 0x7F:
        claim.append(value & 0x7F | 0x80)
        value >>= 7
    claim.append(value)
    with pytest.raises(DecodeError, match="claims"):
        decompress(bytes(claim) + b"\x00a", Compression.SNAPPY, ROOM)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_there_is_no_other_compression(number: int) -> None:
    with pytest.raises(DecodeError):
        decompress(b"data", number, ROOM)


def test_gzip_of_the_standard_library_is_read() -> None:
    assert decompress(gzip.compress(b"hello" * 100), Compression.GZIP, ROOM) == b"hello" * 100
