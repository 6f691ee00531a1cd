"""Records of the compacted topic: keys, tombstones, and the way back to the value."""

from yak.protocol.record_walk import walk_records
from yak.sim.compacted_records import COMPACT, KEYS, batch_for, is_tombstone, key_of, value_in

VALUES = [b"%d:%d" % (producer, number) for producer in range(3) for number in range(20)]


def test_a_reader_knows_each_value_again_tombstones_too():
    records = list(walk_records(batch_for(COMPACT, VALUES, 5), with_headers=True))
    assert [value_in(record) for record in records] == VALUES
    assert [record.key for record in records] == [key_of(value) for value in VALUES]
    assert [record.value is None for record in records] == [is_tombstone(value) for value in VALUES]


def test_compacted_topic_records_have_few_keys_and_some_tombstones():
    assert len({key_of(value) for value in VALUES}) == KEYS
    assert 5 < sum(map(is_tombstone, VALUES)) < 25


def test_other_topics_have_no_keys():
    records = list(walk_records(batch_for("t-three", VALUES, 5), with_headers=True))
    assert [(record.key, record.value) for record in records] == [(None, value) for value in VALUES]
