"""What readers see of transactions, and the markers that end them, on the simulated broker."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields
from tests.unit.broker.requests import begin_fetch, fetched, list_offset
from yak.ids import TopicPartition
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers, read_header
from yak.protocol.record_writer import build_batch

READ_COMMITTED = 1
ORDERS = TopicPartition("orders", 0)


def send(rig: Rig, producer_id: int, *, epoch: int = 0, value: bytes = b"x") -> int:
    """Append a record of a producer's transaction; returns its offset."""
    broker = rig.node.broker
    batch = build_batch(
        [(None, value)],
        broker.context.clock.wall_ms,
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return broker.leader_appends.append_own_batch(broker.partitions[ORDERS], batch).base_offset


def end(rig: Rig, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, **fields) -> ErrorCode:
    """End a transaction with WriteTxnMarkers."""
    topic = {"name": fields.get("topic", "orders"), "partition_indexes": [0]}
    marker = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "transaction_result": commit,
        "topics": [topic],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": fields.get("version", 1),
    }
    answer = rig.ask(27, 2, markers=[marker])
    return answer.markers[0].topics[0].partitions[0].error_code


def fetch(rig: Rig, offset: int = 0, **fields):
    asked = {**fetch_fields("orders", offset, **fields), "isolation_level": READ_COMMITTED}
    return rig.ask(1, 12, **asked).responses[0].partitions[0]


def offsets_of(partition) -> list[int]:
    data = bytes(partition.records or b"")
    return [header.base_offset for _, header in iterate_headers(data)]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (-1, 0), (-2, 0), (7, -1)])
def test_marker_of_no_producer_or_epoch_returns_invalid_producer_epoch_and_is_not_written(rig, producer_id, epoch):
    """Kafka refuses an id or epoch of -1 with UNKNOWN_SERVER_ERROR, a lower epoch with INVALID_PRODUCER_EPOCH."""
    assert end(rig, producer_id, commit=False, epoch=epoch) == ErrorCode.invalid_producer_epoch
    assert latest(rig, READ_COMMITTED) == 0


def latest(rig: Rig, isolation_level: int) -> int:
    return list_offset(rig, version=5, isolation_level=isolation_level).offset


def test_an_open_transaction_is_hidden_from_readers_of_committed_records(rig):
    rig.produce("orders", [b"before"])
    send(rig, 7)
    rig.produce("orders", [b"behind"])
    found = fetch(rig)
    assert (offsets_of(found), found.high_watermark, found.last_stable_offset) == ([0], 3, 1)
    everything = rig.fetch("orders", 0)
    assert (offsets_of(everything), everything.last_stable_offset) == ([0, 1, 2], 1)
    assert everything.aborted_transactions is None
    assert (latest(rig, 0), latest(rig, READ_COMMITTED)) == (3, 1)
    assert end(rig, 7, commit=True) == ErrorCode.none
    found = fetch(rig)
    assert (offsets_of(found), found.last_stable_offset) == ([0, 1, 2, 3], 4)
    assert not found.aborted_transactions
    assert latest(rig, READ_COMMITTED) == 4


def test_a_reader_gets_the_list_of_the_aborted_transactions(rig):
    send(rig, 7)
    send(rig, 8)
    end(rig, 7, commit=False)
    end(rig, 8, commit=True)
    found = fetch(rig)
    assert offsets_of(found) == [0, 1, 2, 3]
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(7, 0)]
    assert not fetch(rig, 3).aborted_transactions


def test_a_waiting_fetch_sleeps_through_undecided_records_and_wakes_at_the_marker(rig):
    send(rig, 7)
    reader = rig.new_client()
    waiting = begin_fetch(rig, "orders", 0, client=reader, max_wait_ms=5_000, isolation_level=READ_COMMITTED)
    rig.run_for(100)
    send(rig, 7)
    rig.produce("orders", [b"behind"])
    rig.run_for(100)
    assert not waiting.is_done
    end(rig, 7, commit=True)
    rig.run_for(50)
    assert offsets_of(fetched(waiting)) == [0, 1, 2, 3]


def test_a_fetch_session_names_a_partition_again_when_its_transaction_ends(rig):
    send(rig, 7)
    reader = rig.new_client()
    asked = {**fetch_fields("orders", 0), "isolation_level": READ_COMMITTED, "session_epoch": 0}
    first = rig.ask(1, 12, client=reader, **asked)
    assert offsets_of(first.responses[0].partitions[0]) == []
    following = {**asked, "session_id": first.session_id, "session_epoch": 1, "topics": []}
    end(rig, 7, commit=True)
    second = rig.ask(1, 12, client=reader, **following)
    assert offsets_of(second.responses[0].partitions[0]) == [0, 1]


def test_a_marker_is_refused_where_it_is_late_or_lost(rig):
    send(rig, 7, epoch=3)
    assert end(rig, 7, commit=True, epoch=2) == ErrorCode.invalid_producer_epoch
    assert end(rig, 7, commit=True, epoch=3, version=2) == ErrorCode.invalid_producer_epoch
    assert end(rig, 7, commit=True, epoch=4, coordinator_epoch=5, version=2) == ErrorCode.none
    send(rig, 7, epoch=4)
    assert end(rig, 7, commit=True, epoch=5, coordinator_epoch=4) == ErrorCode.transaction_coordinator_fenced
    assert end(rig, 7, commit=True, topic="nothing") == ErrorCode.unknown_topic_or_partition


def test_the_producers_of_a_partition_are_described_with_their_transactions(rig):
    rig.produce("orders", [b"before"])
    send(rig, 7)
    asked = [{"name": "orders", "partition_indexes": [0]}]
    (producer,) = rig.ask(61, 0, topics=asked).topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.current_txn_start_offset, producer.coordinator_epoch) == (7, 1, -1)
    end(rig, 7, commit=True, coordinator_epoch=2)
    (producer,) = rig.ask(61, 0, topics=asked).topics[0].partitions[0].active_producers
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, 2)


def test_the_group_coordinator_learns_of_each_marker_that_was_appended(rig, monkeypatch):
    heard, markers = [], rig.node.broker.transaction_markers
    monkeypatch.setattr(markers, "_transaction_ended", lambda partition, marker: heard.append((partition, marker)))
    send(rig, 7)
    end(rig, 7, commit=False, epoch=-5)
    assert not heard
    end(rig, 7, commit=False)
    ((partition, marker),) = heard
    assert partition.topic_partition == ORDERS
    assert (marker.producer_id, marker.is_commit) == (7, False)
    assert read_header(partition.log.read(1, 999, 2, at_least_one=True)).is_control
