"""The four codecs of a record batch. The broker never needs them: it moves batches unopened.

What a peer compressed may be a bomb, so `decompress` is given the most it may yield, and makes
room for that only in steps, as smaller buffers prove too small.

Snappy comes in two shapes: the raw block that librdkafka writes, and blocks framed the way the
Java library xerial does. Both are read; the framed one is written, as by Kafka's own producer.
Java reads LZ4 frames of independent blocks only, so those are what we write.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from types import ModuleType

from tidelog.wire.errors import DecodeError

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_FIRST_GUESS = 4
"""Decompressed size over compressed size, for the first try; most data lies below."""

_GROWTH = 8
"""Each further try has so many times the room: few tries, and a bomb costs little more than its
last."""

_SMALLEST_ROOM = 16 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024

_SNAPPY_BEST_RATIO = 22
"""A snappy copy element turns 3 bytes into at most 64. A length beyond is a lie."""

_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Magic; version 1, independent blocks, no checksums; blocks of 64 KB; the header's check byte."""

_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = bytes(4)

_MAGICS: dict[int, tuple[bytes, ...]] = {
    Compression.GZIP: (b"\x1f\x8b\x08",),
    Compression.LZ4: (b"\x04\x22\x4d\x18",),
    Compression.ZSTD: (b"\x28\xb5\x2f\xfd",),
}
"""What each stream begins with."""

_BLOCK_SIZE = struct.Struct(">i")
_LZ4_BLOCK_SIZE = struct.Struct("<I")


def compress(data: Buffer, compression: Compression, *, level: int | None = None) -> bytes:
    """`data` as the records of a batch with `compression` in its attributes. Without a `level`, at
    the codec's own; snappy and lz4 have none."""
    if compression is Compression.NONE:
        return bytes(data)
    cramjam = _cramjam()
    if compression is Compression.GZIP:
        return bytes(cramjam.gzip.compress(data, level))
    if compression is Compression.ZSTD:
        return bytes(cramjam.zstd.compress(data, level))
    if compression is Compression.SNAPPY:
        return _compress_xerial(memoryview(data), cramjam)
    return _compress_lz4(memoryview(data), cramjam)


def decompress(data: Buffer, compression: int, max_bytes: int) -> Buffer:
    """The reverse; more than `max_bytes`, or anything malformed, is a `DecodeError`."""
    if compression == Compression.NONE:
        if len(data) > max_bytes:
            raise DecodeError(f"{len(data)} bytes of records where {max_bytes} are allowed")
        return data
    cramjam = _cramjam()
    if compression == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes, cramjam)
    codecs: dict[int, ModuleType] = {
        Compression.GZIP: cramjam.gzip,
        Compression.LZ4: cramjam.lz4,
        Compression.ZSTD: cramjam.zstd,
    }
    codec = codecs.get(compression)
    if codec is None:
        raise DecodeError(f"there is no compression type {compression}")
    return _decompress_growing(data, max_bytes, codec)


def begins_like(data: memoryview, compression: int) -> bool:
    """Whether the first bytes are those of what `compression` yields: a cheap look, no proof."""
    if compression == Compression.SNAPPY:
        return data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC or _is_snappy_block(data)
    return data[:4].tobytes().startswith(_MAGICS.get(compression, ()))


def _is_snappy_block(data: memoryview) -> bool:
    """It has no magic, but begins with the size it decompresses to."""
    try:
        size: int = _cramjam().snappy.decompress_raw_len(data)
    except _cramjam().DecompressionError:
        return False
    return size <= len(data) * _SNAPPY_BEST_RATIO


def _cramjam() -> ModuleType:
    """Imported when first needed: most processes never open a batch."""
    import cramjam

    return cramjam


def _decompress_growing(data: Buffer, max_bytes: int, codec: ModuleType) -> bytearray:
    room = min(max_bytes, max(_SMALLEST_ROOM, len(data) * _FIRST_GUESS))
    while True:
        out = bytearray(room)
        try:
            size: int = codec.decompress_into(data, out)
        except _cramjam().DecompressionError as error:
            if room >= max_bytes:
                raise DecodeError(
                    f"records are malformed or decompress to more than {max_bytes} bytes: {error}"
                ) from None
            room = min(max_bytes, room * _GROWTH)
        else:
            del out[size:]
            return out


def _compress_xerial(data: memoryview, cramjam: ModuleType) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data) or 1, _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += _BLOCK_SIZE.pack(len(block)) + block
    return bytes(out)


def _decompress_snappy(data: memoryview, max_bytes: int, cramjam: ModuleType) -> bytearray:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_block(data, max_bytes, cramjam)
    out = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _BLOCK_SIZE.size:
            raise DecodeError("a snappy stream is cut off")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if size < 0 or size > len(data) - position:
            raise DecodeError(f"a snappy block claims {size} bytes")
        block = data[position : position + size]
        out += _decompress_block(block, max_bytes - len(out), cramjam)
        position += size
    return out


def _decompress_block(block: memoryview, max_bytes: int, cramjam: ModuleType) -> bytearray:
    try:
        claimed: int = cramjam.snappy.decompress_raw_len(block)
        if claimed > max_bytes or claimed > len(block) * _SNAPPY_BEST_RATIO:
            raise DecodeError(f"a snappy block of {len(block)} bytes claims to hold {claimed}")
        out = bytearray(claimed)
        size: int = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"a snappy block is malformed: {error}") from None
    if size != claimed:
        raise DecodeError(f"a snappy block holds {size} bytes and claims {claimed}")
    return out


def _compress_lz4(data: memoryview, cramjam: ModuleType) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += _LZ4_BLOCK_SIZE.pack(len(block)) + block
        else:
            out += _LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED) + plain
    return bytes(out + _LZ4_END)
