import contextlib
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.groups.consumer.partitions import AssignmentEpochs, flattened
from yak.groups.consumer.records import (
    KINDS,
    Change,
    ClassicMetadata,
    CurrentValue,
    GroupValue,
    Kind,
    MemberValue,
    PartitionMetadataValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    decode,
    encode,
)
from yak.groups.record import Record
from yak.protocol.record_fields import UnreadableRecord

INT32 = st.integers(-(2**31), 2**31 - 1)
INDEX = st.integers(0, 2**31 - 1)
MEMBER_EPOCH = st.integers(-2, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=40)
MAYBE_TEXT = st.none() | TEXT
PARTITION = st.tuples(st.uuids(), INDEX)
PARTITIONS = st.frozensets(PARTITION, max_size=20)
TEXTS = st.lists(TEXT, max_size=5).map(tuple)
PROTOCOLS = st.lists(st.tuples(TEXT, st.binary(max_size=200)), min_size=1, max_size=4).map(tuple)
CLASSIC = st.builds(ClassicMetadata, INT32, PROTOCOLS)


def current(
    epoch: int, previous_epoch: int, state: int, assigned: AssignmentEpochs, revoking: AssignmentEpochs
) -> CurrentValue:
    epochs = {**revoking, **assigned}
    return CurrentValue(
        epoch, previous_epoch, state, frozenset(assigned), frozenset(revoking) - frozenset(assigned), epochs
    )


VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.GROUP: st.builds(GroupValue, INDEX, INT64),
    Kind.PARTITION_METADATA: st.builds(PartitionMetadataValue, st.binary(max_size=50)),
    Kind.MEMBER: st.builds(
        MemberValue, MAYBE_TEXT, MAYBE_TEXT, TEXT, TEXT, TEXTS, MAYBE_TEXT, INT32, MAYBE_TEXT, st.none() | CLASSIC
    ),
    Kind.TARGET_EPOCH: st.builds(TargetEpochValue, INDEX),
    Kind.TARGET: st.builds(TargetValue, PARTITIONS),
    Kind.CURRENT: st.tuples(
        MEMBER_EPOCH, MEMBER_EPOCH, st.integers(-128, 127), *[st.dictionaries(PARTITION, INT32, max_size=20)] * 2
    ).map(lambda drawn: current(*drawn)),
    Kind.REGEX: st.builds(RegexValue, TEXTS, INT64, INT64),
}
NAMED = {Kind.MEMBER, Kind.TARGET, Kind.CURRENT, Kind.REGEX}


@st.composite
def changes(draw: st.DrawFn) -> Change:
    kind = draw(st.sampled_from(list(Kind)))
    name = draw(TEXT) if kind in NAMED else ""
    return Change(kind, draw(TEXT), name, draw(st.none() | VALUES[kind]))


@given(changes())
def test_written_record_is_read_back_unchanged(change: Change) -> None:
    assert decode(encode(change)) == change


@given(changes(), st.data())
def test_a_record_that_is_cut_is_refused(change: Change, data: st.DataObject) -> None:
    record = encode(change)
    if record.value is None or change.kind is Kind.PARTITION_METADATA:
        return
    end = data.draw(st.integers(0, len(record.value) - 1))
    with pytest.raises(UnreadableRecord):
        decode(Record(record.key, record.value[:end]))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(UnreadableRecord):
        assert decode(Record(key, value)).kind in KINDS


# Bytes written out by hand from Kafka's ConsumerGroup*Key.json and *Value.json (4.2) and from MessageDataGenerator.java.
FIRST, SECOND = uuid.UUID(int=1), uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
GOLDEN = {
    "a group": (Change(Kind.GROUP, "grp", "", GroupValue(5)), "0003 0003 677270", "0000 00000005 00"),
    "a group that reads topics": (
        Change(Kind.GROUP, "grp", "", GroupValue(5, 0x0102030405060708)),
        "0003 0003 677270",
        "0000 00000005 01 00 08 0102030405060708",
    ),
    "4.0's topics, taken back": (Change(Kind.PARTITION_METADATA, "grp", "", None), "0004 0003 677270", None),
    "a member": (
        Change(
            Kind.MEMBER,
            "grp",
            "m1",
            MemberValue(None, "rk", "cl", "/1.2.3.4", ("a", "b"), "", 300_000, "uniform"),
        ),
        "0005 0003 677270 0002 6d31",
        "0000 00 03 726b 03 636c 09 2f312e322e332e34 03 02 61 02 62 01 000493e0 08 756e69666f726d 00",
    ),
    "a member that speaks the classic protocol": (
        Change(
            Kind.MEMBER,
            "grp",
            "m1",
            MemberValue("i", None, "", "", (), None, -1, None, ClassicMetadata(45_000, (("range", b"\x00\x01"),))),
        ),
        "0005 0003 677270 0002 6d31",
        # tag 0 with 17 bytes: 1 for "not null", the session time-out, one protocol, no tags of its own
        "0000 02 69 00 01 01 01 00 ffffffff 00 01 00 11 01 0000afc8 02 06 72616e6765 03 0001 00 00",
    ),
    "the epoch of a target": (
        Change(Kind.TARGET_EPOCH, "grp", "", TargetEpochValue(7)),
        "0006 0003 677270",
        "0000 00000007 00",
    ),
    "a target": (
        Change(Kind.TARGET, "grp", "m1", TargetValue(flattened([(SECOND, [2]), (FIRST, [1, 0])]))),
        "0007 0003 677270 0002 6d31",
        (
            "0000 03 00000000000000000000000000000001 03 00000000 00000001 00"
            " 00112233445566778899aabbccddeeff 02 00000002 00 00"
        ),
    ),
    "what a member has": (
        Change(
            Kind.CURRENT,
            "grp",
            "m1",
            CurrentValue(6, 5, 1, flattened([(FIRST, [0])]), flattened([(FIRST, [3])]), {(FIRST, 0): 6, (FIRST, 3): 4}),
        ),
        "0008 0003 677270 0002 6d31",
        (
            "0000 00000006 00000005 01 02 00000000000000000000000000000001 02 00000000 01 00 05 02 00000006"
            " 02 00000000000000000000000000000001 02 00000003 01 00 05 02 00000004 00"
        ),
    ),
    "what an expression means": (
        Change(Kind.REGEX, "grp", "a.*", RegexValue(("ab", "ac"), 9, 1_000)),
        "0010 0003 677270 0003 612e2a",
        "0000 03 03 6162 03 6163 0000000000000009 00000000000003e8 00",
    ),
}


@pytest.mark.parametrize("what", GOLDEN)
def test_bytes_are_kafkas(what: str) -> None:
    change, key, value = GOLDEN[what]
    record = Record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert encode(change) == record
    assert decode(record) == change


def test_tagged_fields_of_a_newer_kafka_are_skipped() -> None:
    # 4.3 adds CreationTimeMs (KIP-1282) as tag 1.
    value = bytes.fromhex("0000 00000005 02 00 08 0000000000000001 01 08 0000000000000fff")
    assert decode(Record(bytes.fromhex("0003 0001 67"), value)) == Change(Kind.GROUP, "g", "", GroupValue(5, 1))


def test_record_that_is_not_of_a_consumer_group_is_refused() -> None:
    for kind in (0, 1, 2, 9, 17):
        with pytest.raises(UnreadableRecord, match="not a consumer group's"):
            decode(Record(struct.pack(">hh", kind, 0), None))


def test_a_newer_version_of_a_value_is_refused() -> None:
    with pytest.raises(UnreadableRecord, match="version 1"):
        decode(Record(bytes.fromhex("0003 0001 67"), bytes.fromhex("0001 00000005 00")))


def test_bytes_after_a_value_are_refused() -> None:
    with pytest.raises(UnreadableRecord, match="too many"):
        decode(Record(bytes.fromhex("0003 0001 67"), bytes.fromhex("0000 00000005 00 00")))


@pytest.mark.parametrize(("epoch", "expected"), [("00000006", 6), ("fffffffe", 0)])
def test_partitions_without_assignment_epochs_have_the_epoch_of_the_member(epoch, expected):
    # Utils.assignmentFromTopicPartitions: records before KIP-1251, and epochs of another number than the partitions
    key = bytes.fromhex("0008 0003 677270 0002 6d31")
    for tags in ("00", "01 00 05 02 00000001", "01 00 01 00"):
        topic = f"02 00000000000000000000000000000001 03 00000000 00000003 {tags}"
        value = decode(Record(key, bytes.fromhex(f"0000 {epoch} 00000005 00 {topic} 01 00"))).value
        assert value.assignment_epochs == {(FIRST, 0): expected, (FIRST, 3): expected}
