"""A message decodes itself when it is asked, and spoils nothing else when it cannot."""

import copy
import pickle

import pytest
from messages import message

from yak.client.api.message import BYTES, Serde
from yak.errors import YakError
from yak.ids import TopicPartition


def test_key_and_value_are_decoded_and_the_raw_bytes_are_retained():
    it = message("orders", 2, 7, key=b"u1", value=b'{"total":12}')
    assert (it.key, it.value, it.raw_key, it.raw_value) == ("u1", {"total": 12}, b"u1", b'{"total":12}')
    assert it.topic_partition == TopicPartition("orders", 2)
    assert (it.offset, it.leader_epoch, it.headers, it.timestamp_ms) == (7, 3, [], -1)
    assert "orders" in repr(it)


def test_null_is_none():
    assert message(key=None, value=None).value is None
    assert message(key=None, value=None).key is None


def test_message_value_is_decoded_once():
    seen = []
    count = Serde("counting", bytes, lambda raw: seen.append(raw) or raw)
    it = message(value=b"x", values=count)
    assert (it.value, it.value, seen) == (b"x", b"x", [b"x"])


def test_value_that_is_not_json_is_reported_with_its_offset_and_a_remedy():
    it = message("orders", 1, 41, key=b"\xff", value=b"plain words")
    with pytest.raises(YakError) as failed:
        _ = it.value
    error = failed.value
    assert error.code == "not-decoded"
    assert error.message == "the value of orders-1 at offset 41 is not JSON"
    assert "b'plain words'" in error.why
    assert error.try_[0] == "read message.raw_value"
    assert any("yak.TEXT" in note for note in error.__notes__)
    assert it.raw_value == b"plain words"
    with pytest.raises(YakError, match="the key of orders-1 at offset 41 is not text"):
        _ = it.key
    assert message(key=b"\xff", keys=BYTES).key == b"\xff"


def test_message_that_was_pickled_or_copied_decodes_itself():
    unread, read = message(key=b"u1", value=b"[1]"), message(key=b"u1", value=b"[1]")
    assert read.value == [1]
    for it in (unread, read):
        for other in (pickle.loads(pickle.dumps(it)), copy.deepcopy(it)):
            assert (other.key, other.value, other.topic_partition, other.offset) == ("u1", [1], it.topic_partition, 0)
