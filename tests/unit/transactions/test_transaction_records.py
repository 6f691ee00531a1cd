"""The bytes of `__transaction_state`, as Kafka's generated TransactionLogKey and TransactionLogValue write them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.ids import TopicPartition
from yak.protocol.record_fields import UnreadableRecord
from yak.transactions.records import (
    _partitions,
    read_transaction,
    transaction_key,
    transaction_value,
)
from yak.transactions.shard import TransactionShard
from yak.transactions.transaction import DEAD, EMPTY, ONGOING, PREPARE_COMMIT, Transaction, TransactionState

ONE = Transaction(
    "tx",
    4_000,
    5,
    previous_producer_id=3_999,
    timeout_ms=60_000,
    state=ONGOING,
    partitions=frozenset({TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 2)}),
    started_ms=1_000,
    updated_ms=2_000,
    client_version=2,
)


def test_key_is_version_0_and_the_transactional_id():
    assert transaction_key("tx") == b"\0\0\0\2tx"


def test_value_is_kafkas_version_1():
    assert transaction_value(ONE) == (
        b"\0\1"
        + struct.pack(">qhib", 4_000, 5, 60_000, 1)
        + b"\3"
        + b"\2a\3\0\0\0\0\0\0\0\1\0"
        + b"\2b\2\0\0\0\2\0"
        + struct.pack(">qq", 2_000, 1_000)
        + b"\2"
        + b"\0\x08"
        + struct.pack(">q", 3_999)
        + b"\2\2\0\2"
    )


def test_value_of_an_empty_transaction_has_no_partitions_and_no_tags_with_defaults():
    value = transaction_value(Transaction("tx", 1, 0, timeout_ms=9, state=EMPTY, updated_ms=8))
    assert value == b"\0\1" + struct.pack(">qhib", 1, 0, 9, 0) + b"\0" + struct.pack(">qq", 8, -1) + b"\0"


def test_the_partitions_of_a_large_transaction_are_not_remembered():
    """128 of 100,000 partitions each took 150 MB for as long as the broker ran."""
    many = frozenset(TopicPartition("a", number) for number in range(5_000))
    before = _partitions.cache_info().currsize
    assert len(transaction_value(ONE._replace(partitions=many))) > 20_000
    assert _partitions.cache_info().currsize == before
    assert read_transaction(transaction_key("tx"), transaction_value(ONE._replace(partitions=many))).partitions == many


def test_version_0_of_older_clusters_is_read():
    value = (
        b"\0\0"
        + struct.pack(">qhib", 4_000, 5, 60_000, 2)
        + struct.pack(">ih1si2i", 1, 1, b"a", 2, 0, 1)
        + struct.pack(">qq", 2_000, 1_000)
    )
    assert read_transaction(b"\0\0\0\2tx", value) == ONE._replace(
        state=PREPARE_COMMIT,
        partitions=frozenset({TopicPartition("a", 0), TopicPartition("a", 1)}),
        previous_producer_id=-1,
        client_version=0,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\1\0\2tx", transaction_value(ONE)),
        (b"\0\0\0\3tx", transaction_value(ONE)),
        (b"\0\0\0\2tx", b"\0\2" + transaction_value(ONE)[2:]),
        (b"\0\0\0\2tx", transaction_value(ONE)[:-1]),
        (b"\0\0\0\2tx", transaction_value(ONE)[:16] + b"\x08" + transaction_value(ONE)[17:]),
        (b"\0\0\0\2tx", transaction_value(ONE)[:17] + b"\xff\xff\xff\x0f" + transaction_value(ONE)[18:]),
    ],
)
def test_other_bytes_are_refused(key, value):
    with pytest.raises(UnreadableRecord):
        read_transaction(key, value)


@given(
    st.builds(
        Transaction,
        st.text(min_size=1, max_size=20),
        st.integers(0, 2**63 - 1),
        st.integers(-1, 2**15 - 1),
        last_producer_epoch=st.just(-1),
        previous_producer_id=st.integers(-1, 2**63 - 1),
        next_producer_id=st.integers(-1, 2**63 - 1),
        timeout_ms=st.integers(0, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state is not EMPTY]),
        partitions=st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1))),
        started_ms=st.integers(-1, 2**62),
        updated_ms=st.integers(-1, 2**62),
        client_version=st.integers(0, 2),
    )
)
def test_written_record_is_read_back_unchanged(transaction):
    key = transaction_key(transaction.transactional_id)
    assert read_transaction(key, transaction_value(transaction)) == transaction


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data):
    for key, value in ((data, transaction_value(ONE)), (transaction_key("tx"), data)):
        try:
            read_transaction(key, value)
        except UnreadableRecord:
            continue


def test_shard_keeps_the_last_record_of_each_key():
    shard = TransactionShard()
    shard.gather(transaction_key("tx"), transaction_value(ONE), 0, None)
    shard.gather(transaction_key("gone"), transaction_value(ONE), 1, None)
    shard.gather(transaction_key("tx"), transaction_value(ONE._replace(state=DEAD)), 2, None)
    shard.gather(transaction_key("gone"), None, 3, None)
    shard.gather(b"foreign", b"value", 4, None)
    shard.gather(None, b"value", 5, None)
    assert len(list(shard.restore())) == 2
    assert {name: entry.transaction.state for name, entry in shard.ids.items()} == {"tx": DEAD}
    assert shard.unreadable == 2
