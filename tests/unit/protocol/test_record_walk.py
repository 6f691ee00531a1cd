"""Walking the records of a batch that a peer sent."""

import contextlib
import gzip
import random
import struct
import tracemalloc
import zlib
from typing import ClassVar

import cramjam
import crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.storage.conftest import build_batch
from yak.errors import ProtocolViolation
from yak.protocol.record_batch import HEADER_BYTES, read_header
from yak.protocol.record_walk import check_records, decompress, walk_records


def build(records, timestamps=None):
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for index, (key, value, headers) in enumerate(records):
        builder.append(index, (timestamps or [5] * len(records))[index], key, value, headers)
    return bytes(builder.build())


def recompressed(batch, codec):
    records = batch[HEADER_BYTES:]
    if codec == 1:
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(records) + packer.flush()
    elif codec == 2:
        packed = bytes(cramjam.snappy.compress_raw(records))
    else:
        packed = bytes({3: cramjam.lz4, 4: cramjam.zstd}[codec].compress(records))
    return with_records(batch, packed, codec)


def with_records(batch, records, codec=0):
    header = bytearray(batch[:HEADER_BYTES])
    struct.pack_into(">i", header, 8, HEADER_BYTES - 12 + len(records))
    struct.pack_into(">h", header, 21, codec)
    struct.pack_into(">I", header, 17, crc32c.crc32c(bytes(header[21:]) + records))
    return bytes(header) + records


blobs = st.none() | st.binary(max_size=40)
entries = st.tuples(blobs, blobs, st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3))


def test_records_behind_one_without_a_timestamp_have_theirs():
    """The base timestamp is then -1, from which the others count (DefaultRecord.readFrom)."""
    batch = build_batch([b"v"] * 3, timestamps=[-1, 1_000, -1])
    assert read_header(batch).base_timestamp == -1
    assert [record.timestamp for record in walk_records(batch)] == [-1, 1_000, -1]


@given(st.lists(entries, min_size=1, max_size=20), st.integers(0, 4))
@settings(max_examples=80)
def test_records_come_out_as_they_went_in_through_every_codec(records, codec):
    batch = build(records, list(range(1000, 1000 + len(records))))
    if codec:
        batch = recompressed(batch, codec)
    walked = list(walk_records(batch))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in walked] == [
        (index, 1000 + index, key, value) for index, (key, value, _) in enumerate(records)
    ]


def test_snappy_in_xeriels_framing_is_understood():
    batch = build([(b"k", b"v" * 5000, [])])
    records = batch[HEADER_BYTES:]
    blocks = [bytes(cramjam.snappy.compress_raw(records[at : at + 2000])) for at in range(0, len(records), 2000)]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    (record,) = walk_records(with_records(batch, framed, 2))
    assert record.value == b"v" * 5000
    with pytest.raises(ProtocolViolation):
        list(walk_records(with_records(batch, framed[:-5], 2)))


def test_log_append_time_is_every_records_time():
    batch = bytearray(build([(None, b"a", []), (None, b"b", [])], [1, 2]))
    struct.pack_into(">h", batch, 21, 8)
    struct.pack_into(">q", batch, 35, 777)
    assert [record.timestamp for record in walk_records(batch)] == [777, 777]


@given(st.lists(entries, min_size=1, max_size=5), st.data())
@settings(max_examples=300)
def test_broken_bytes_are_a_violation_or_other_records_but_nothing_else(records, data):
    batch = build(records)
    body = bytearray(batch[HEADER_BYTES:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    for changed in (bytes(body), bytes(body[:cut])):
        broken = with_records(batch, changed)
        with contextlib.suppress(ProtocolViolation):
            check_records(read_header(broken), broken)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_bomb_is_refused_before_it_is_unpacked(codec):
    zeros = bytes(6 * 1024 * 1024)
    if codec == 1:
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(zeros) + packer.flush()
    else:
        packed = bytes({3: cramjam.lz4, 4: cramjam.zstd}[codec].compress(zeros))
    with pytest.raises(ProtocolViolation):
        decompress(codec, packed, 1024 * 1024)
    assert len(decompress(codec, packed)) == len(zeros)
    with pytest.raises(ProtocolViolation):
        decompress(codec, packed, len(zeros) - 1)


class NotedInflater:
    """zlib's, with the sizes that it was given and gave."""

    sizes: ClassVar[list[tuple[int, int]]] = []
    make = staticmethod(zlib.decompressobj)

    def __init__(self, wbits):
        self._inflater = self.make(wbits=wbits)

    def decompress(self, data, length_max):
        piece = self._inflater.decompress(data, length_max)
        self.sizes.append((len(data), len(piece)))
        return piece

    def __getattr__(self, name):
        return getattr(self._inflater, name)


@pytest.mark.parametrize("kind", ["tight", "loose"])
def test_gzip_is_unpacked_in_pieces_that_let_other_threads_run(kind, monkeypatch):
    monkeypatch.setattr(zlib, "decompressobj", NotedInflater)
    NotedInflater.sizes.clear()
    data = bytes(20 << 20) if kind == "tight" else random.Random(1).randbytes(20 << 20)
    assert decompress(1, gzip.compress(data, 1)) == data
    assert max(given for given, _ in NotedInflater.sizes) <= 64 * 1024
    assert max(gave for _, gave in NotedInflater.sizes) <= 256 * 1024


def test_gzip_bomb_is_counted_and_not_buffered():
    packed = gzip.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation, match="when decompressed"):
            decompress(1, packed, 60 << 20)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 1 << 20])
def test_gzip_of_any_size_is_whole_or_cut_off(size):
    packed = gzip.compress(random.Random(size).randbytes(size), 0)
    assert len(decompress(1, packed)) == size
    for cut in (1, 8, 9):
        with pytest.raises(ProtocolViolation, match="cut off"):
            decompress(1, packed[:-cut])


@pytest.mark.parametrize("sizes", [(150, 150), (0, 7, 0, 9), (64 * 1024, 300_000, 1)])
def test_gzip_of_several_members_is_read_to_the_last(sizes):
    parts = [random.Random(size).randbytes(size) for size in sizes]
    packed = b"".join(map(gzip.compress, parts))
    assert decompress(1, packed) == b"".join(parts)
    with pytest.raises(ProtocolViolation, match="cut off"):
        decompress(1, packed[:-1])
    with pytest.raises(ProtocolViolation, match="when decompressed"):
        decompress(1, packed, sum(sizes) - 1)


def test_gzip_of_several_members_ends_before_bytes_of_no_member():
    assert decompress(1, gzip.compress(b"first") + gzip.compress(b"second") + bytes(40)) == b"firstsecond"


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"", b"\xff", b"nonsense" * 9])
def test_data_of_no_codec_is_a_violation(codec, data):
    with pytest.raises(ProtocolViolation):
        decompress(codec, data)
    with pytest.raises(ProtocolViolation):
        decompress(5, data)
