"""What we compress, our own bounded decompression and other clients' codecs read."""

import pytest
from aiokafka.record import default_records
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.partitions.batch_validation import recompress
from yak.protocol.compression import compress
from yak.protocol.record_batch import CODECS, compute_crc, read_header
from yak.protocol.record_walk import decompress
from yak.sim.wire import record_batch

CODEC_NUMBERS = range(len(CODECS))


@settings(max_examples=60)
@given(st.binary(max_size=100_000), st.sampled_from(CODEC_NUMBERS))
def test_every_codec_gives_back_what_it_took(data, codec):
    assert bytes(decompress(codec, compress(codec, data), 1 << 20)) == data


@pytest.mark.parametrize("codec", [1, 3])
def test_another_clients_parser_reads_a_recompressed_batch(codec):
    batch = record_batch([b"a" * 1000, b"b"], 1_000)
    packed = recompress(read_header(batch), batch, codec)
    header = read_header(packed)
    assert header.codec == codec
    assert header.crc == compute_crc(packed)
    assert [record.value for record in default_records.DefaultRecordBatch(packed)] == [b"a" * 1000, b"b"]


def test_lz4_frames_have_blocks_that_stand_alone_for_java_reads_no_others():
    flags = compress(3, b"abc" * 100_000)[4]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "block independence"


def test_an_unknown_codec_is_refused():
    with pytest.raises(ValueError, match="unknown"):
        compress(5, b"x")
