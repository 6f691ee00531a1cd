"""Kafka's small files, against bytes written by hand."""

import struct
import uuid

import crc32c
import pytest

from yak.ids import TopicPartition
from yak.storage import checkpoints, names
from yak.storage.indexes import OffsetIndex, TimeIndex, floor_by_position, floor_by_timestamp
from yak.storage.producer_state import BadSnapshot, ProducerSnapshotEntry, ProducerState, parse_snapshot

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_offset_checkpoints_are_version_count_and_lines():
    offsets = [(TopicPartition("a", 0), 5), (TopicPartition("my-topic", 12), 2**40)]
    data = b"0\n2\na 0 5\nmy-topic 12 1099511627776\n"
    assert checkpoints.format_offsets(offsets) == data
    assert checkpoints.parse_offsets(data) == dict(offsets)


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\nx\n", b"\xff\xfe", b"0\n1\na b c\n"]
)
def test_broken_offset_checkpoint_is_distinguished_from_an_empty_one(data):
    with pytest.raises(checkpoints.BadCheckpoint):
        checkpoints.parse_offsets(data)


def test_the_epoch_checkpoint_is_version_count_and_pairs():
    data = b"0\n2\n0 0\n3 17\n"
    assert checkpoints.format_epochs([(0, 0), (3, 17)]) == data
    assert checkpoints.parse_epochs(data) == [(0, 0), (3, 17)]
    with pytest.raises(checkpoints.BadCheckpoint):
        checkpoints.parse_epochs(b"0\n2\n3 0\n2 17\n")


def test_partition_metadata_has_no_line_end_after_the_id():
    data = b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert checkpoints.format_partition_metadata(TOPIC_ID) == data
    assert checkpoints.parse_partition_metadata(data) == TOPIC_ID
    with pytest.raises(checkpoints.BadCheckpoint):
        checkpoints.parse_partition_metadata(b"version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w")
    with pytest.raises(checkpoints.BadCheckpoint):
        checkpoints.parse_partition_metadata(b"version: 0\ntopic_id: short")


def test_the_clean_shutdown_mark_is_kafkas_json():
    assert checkpoints.format_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
    assert checkpoints.parse_clean_shutdown(b'{"version":0,"brokerEpoch":42}') == 42
    assert checkpoints.parse_clean_shutdown(b"") == -1


def test_meta_properties_written_by_java_are_understood():
    data = b"#\n#Mon Jan 01 00:00:00 UTC 2024\nnode.id=1\nversion=1\ncluster.id=a\\:b\n"
    assert checkpoints.parse_properties(data) == {"node.id": "1", "version": "1", "cluster.id": "a:b"}


def test_an_offset_index_is_pairs_of_relative_offset_and_position():
    index = OffsetIndex(100)
    index.append(105, 4200)
    index.append(130, 9000)
    assert bytes(index.entries) == bytes.fromhex("00000005 00001068 0000001e 00002328")
    assert [index.lookup(offset) for offset in (100, 104, 105, 129, 130, 999)] == [0, 0, 4200, 4200, 9000, 9000]
    assert [floor_by_position(index.entries, position)[1] for position in (0, 4199, 4200, 10**6)] == [0, 0, 4200, 9000]
    index.truncate_to(130)
    assert (index.count, index.saved_count) == (1, -1)


def test_a_time_index_is_rising_timestamps_with_relative_offsets():
    index = TimeIndex(100)
    assert index.maybe_append(1_700_000_000_000, 105)
    assert not index.maybe_append(1_700_000_000_000, 130), "strictly rising"
    assert index.maybe_append(1_700_000_000_001, 131)
    assert bytes(index.entries) == bytes.fromhex("0000018bcfe56800 00000005 0000018bcfe56801 0000001f")
    times = (0, 1_700_000_000_000, 1_800_000_000_000)
    assert [floor_by_timestamp(index.entries, each) for each in times] == [0, 5, 31]


def snapshot_of(*entries):
    state = ProducerState()
    state.load_snapshot(entries, 0)
    return state.to_snapshot()


def test_a_producer_snapshot_is_version_1_with_a_crc():
    entry = ProducerSnapshotEntry(9, 2, 11, 57, 3, 1000, -1, -1)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 9, 2, 11, 57, 3, 1000, -1, -1)
    data = struct.pack(">hI", 1, crc32c.crc32c(body)) + body
    assert snapshot_of(entry) == data
    assert list(parse_snapshot(data)) == [entry]
    assert snapshot_of() == bytes.fromhex("0001 48674bc7 00000000")


def test_incomplete_snapshot_is_rejected():
    data = snapshot_of(ProducerSnapshotEntry(9, 2, 11, 57, 3, 1000, -1, -1))
    for size in range(len(data)):
        with pytest.raises(BadSnapshot):
            parse_snapshot(data[:size])
    with pytest.raises(BadSnapshot):
        parse_snapshot(data[:-1] + b"\x01")
    with pytest.raises(BadSnapshot):
        parse_snapshot(b"\x00\x02" + data[2:])


@pytest.mark.parametrize(
    ("folder", "partition"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("my-topic-12", TopicPartition("my-topic", 12)),
        ("lost+found", None),
        ("-0", None),
        ("t-", None),
        ("t-01", None),
        ("t--delete", None),
    ],
)
def test_partition_folders_are_recognized_by_their_name(folder, partition):
    assert names.parse_partition_folder(folder) == partition


def test_a_name_set_aside_fits_255_bytes():
    name = names.set_aside_name(TopicPartition("x" * 249, 12345), TOPIC_ID, names.DELETE_FOLDER_SUFFIX)
    assert len(name) == 255
    assert name.endswith(f"-12345.{TOPIC_ID.hex}-delete")
    assert names.is_set_aside(name)
    assert names.parse_offset("00000000000000000042.log", ".log") == 42
    assert names.parse_offset("42.log", ".log") is None
