"""Batches of a transaction wait for the answer of a coordinator on another broker."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, produce_fields
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import TOPIC, alter, delete_topic
from yak.ids import TopicPartition
from yak.partitions.transaction_markers import TxnMarker
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers
from yak.protocol.record_writer import build_batch

ORDERS = TopicPartition("orders", 0)
NONE = ErrorCode.none


class Coordinator:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple] = []
        self.then = None

    def verify(self, topic_partition, transactional_id, producer, version, then) -> None:
        self.asked.append((topic_partition, transactional_id, producer, version))
        self.then = then


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create_topic("orders")
    return rig


@pytest.fixture
def coordinator(rig) -> Coordinator:
    found = Coordinator()
    rig.node.broker.leader_appends.transactional._verify = found.verify
    return found


def produce(
    rig: Rig, sequence: int, *, version: int = 9, transactional_id: str | None = "tx", acks: int = -1, epoch: int = 0
):
    batch = build_batch(
        [(None, b"x")],
        rig.node.broker.context.clock.wall_ms,
        attributes=TRANSACTIONAL_BIT,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    fields = produce_fields("orders", batch, acks=acks) | {"transactional_id": transactional_id}
    pending = rig.begin(0, version, client=rig.new_client(), **fields)
    rig.run_for(5)
    return pending


def answered(rig: Rig, coordinator: Coordinator, code: ErrorCode) -> None:
    coordinator.then(code)
    rig.ask(18, 0)  # the next step sends what was answered
    rig.run_for(5)


def result(pending) -> tuple[ErrorCode, int]:
    partition = pending.answer.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


def log_of(rig: Rig) -> list[int]:
    records = rig.fetch("orders", 0).records
    return [header.base_sequence for _, header in iterate_headers(bytes(records or b""))]


def test_the_first_batches_of_a_transaction_wait_and_the_later_ones_do_not(rig, coordinator):
    first, second = produce(rig, 0), produce(rig, 1)
    rig.produce("orders", [b"of another producer"])
    assert not first.is_done
    assert rig.node.broker.held_bytes > 0
    answered(rig, coordinator, NONE)
    assert coordinator.asked == [(ORDERS, "tx", (7, 0), 9)]
    assert (result(first), result(second)) == ((NONE, 1), (NONE, 2))
    assert result(produce(rig, 2)) == (NONE, 3)
    assert len(coordinator.asked) == 1
    assert rig.node.broker.held_bytes == 0
    assert log_of(rig) == [-1, 0, 1, 2]


@pytest.mark.parametrize("codec", ["producer", "gzip"])
@pytest.mark.parametrize(("version", "code"), [(11, NONE), (12, ErrorCode.out_of_order_sequence_number)])
def test_first_batch_of_a_producer_begins_at_sequence_0_with_protocol_2(rig, coordinator, version, code, codec):
    """ProducerAppendInfo.checkSequence: an earlier batch of the same epoch is missing, and may still come (KIP-890).

    A batch that is recompressed first passes the same check.
    """
    assert alter(rig, TOPIC, "orders", {"compression.type": codec}).error_code == NONE
    later = produce(rig, 1, version=version)
    answered(rig, coordinator, NONE)
    rig.run_for(20)
    assert result(later)[0] == code
    first = produce(rig, 0, version=version)
    if code:
        answered(rig, coordinator, NONE)
        rig.run_for(20)
        assert result(first) == (NONE, 0)
        second = produce(rig, 1, version=version)
        rig.run_for(20)
        assert result(second) == (NONE, 1)


def test_refused_batches_are_not_written(rig, coordinator):
    first, second = produce(rig, 0), produce(rig, 1)
    answered(rig, coordinator, ErrorCode.transaction_abortable)
    assert {result(first), result(second)} == {(ErrorCode.transaction_abortable, -1)}
    assert log_of(rig) == []
    produce(rig, 0)
    assert len(coordinator.asked) == 2


def test_batch_for_a_deleted_topic_is_not_written_to_its_successor(rig, coordinator):
    """A client may have named the topic by its id."""
    pending = produce(rig, 0)
    delete_topic(rig, "orders")
    rig.create_topic("orders")
    answered(rig, coordinator, NONE)
    assert result(pending) == (ErrorCode.unknown_topic_or_partition, -1)
    assert rig.node.broker.partitions[ORDERS].log_end_offset == 0


def test_a_marker_outdates_the_answer_that_is_under_way(rig, coordinator):
    pending = produce(rig, 0)
    rig.node.broker.transaction_markers.write(ORDERS, TxnMarker(7, 0, 0, False, 0), lambda _code: None)
    answered(rig, coordinator, NONE)
    assert result(pending) == (ErrorCode.not_enough_replicas, -1)
    assert rig.node.broker.partitions[ORDERS].last_stable_offset == 1


def test_the_answer_about_a_zombie_does_not_refuse_its_successor(rig, coordinator):
    zombie, successor = produce(rig, 0), produce(rig, 0, epoch=1)
    assert result(successor) == (ErrorCode.not_enough_replicas, -1), "retried, and verified by itself"
    answered(rig, coordinator, ErrorCode.invalid_producer_epoch)
    assert result(zombie) == (ErrorCode.invalid_producer_epoch, -1)
    successor = produce(rig, 0, epoch=1)
    answered(rig, coordinator, NONE)
    assert [producer for _, _, producer, _ in coordinator.asked] == [(7, 0), (7, 1)]
    assert result(successor) == (NONE, 0)


def test_the_answer_about_a_producer_lets_no_zombie_pass(rig, coordinator):
    producer, zombie = produce(rig, 0, epoch=1), produce(rig, 0)
    assert result(zombie) == (ErrorCode.invalid_producer_epoch, -1)
    answered(rig, coordinator, NONE)
    assert result(producer) == (NONE, 0)


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_answer_about_a_transactional_id_counts_for_no_other(rig, coordinator, epoch):
    producer, foreign = produce(rig, 0, epoch=1), produce(rig, 1, transactional_id="another", epoch=epoch)
    assert result(foreign) == (ErrorCode.not_enough_replicas, -1), "verified by itself, when it is sent again"
    answered(rig, coordinator, NONE)
    assert result(producer) == (NONE, 0)


def test_an_answer_from_before_another_leader_is_outdated(rig, coordinator):
    """The other leader may have written the marker: behind it the batch would open a transaction that nothing ends."""
    add_broker(rig, 2)
    pending = produce(rig, 0)
    set_partition(rig, "orders", leader=2, replicas=(1,), isr=(1,))
    set_partition(rig, "orders", leader=1, replicas=(1,), isr=(1,))
    answered(rig, coordinator, NONE)
    assert result(pending) == (ErrorCode.not_enough_replicas, -1), "retried, and verified again"
    assert log_of(rig) == []


def test_a_transactional_batch_needs_a_transactional_id(rig, coordinator):
    refused = produce(rig, 0, transactional_id=None)
    assert result(refused) == (ErrorCode.transactional_id_authorization_failed, -1)
    assert not coordinator.asked


@pytest.mark.parametrize("version", [9, 11, 12])
def test_an_empty_transactional_id_is_an_invalid_request(rig, version):
    """TransactionCoordinator.handleAddPartitionsToTransaction."""
    pending = produce(rig, 0, version=version, transactional_id="")
    rig.run_for(20)
    assert result(pending) == (ErrorCode.invalid_request, -1)


@pytest.mark.parametrize(("version", "asks"), [(11, 0), (12, 1)])
def test_verification_can_be_switched_off_for_protocol_1_only(version, asks):
    rig = Rig(settings={"transaction.partition.verification.enable": "false"})
    rig.create_topic("orders")
    found = Coordinator()
    rig.node.broker.leader_appends.transactional._verify = found.verify
    produce(rig, 0, version=version)
    assert len(found.asked) == asks


def test_a_batch_that_is_recompressed_does_not_follow_the_marker_of_its_transaction(rig, coordinator):
    """Behind the marker it would open a transaction that nothing ends: the last stable offset would stand still."""
    alter(rig, TOPIC, "orders", {"compression.type": "gzip"})
    partition = rig.node.broker.partitions[ORDERS]
    batch = produce(rig, 0)
    coordinator.then(NONE)
    assert partition.pending_appends is not None
    codes = []
    rig.node.broker.transaction_markers.write(ORDERS, TxnMarker(7, 0, 0, False, 1), codes.append)
    rig.run_for(100)
    assert codes == [NONE]
    assert result(batch) == (ErrorCode.not_enough_replicas, -1), "retried, and verified again"
    assert partition.last_stable_offset == partition.high_watermark == 1


@pytest.mark.parametrize("is_late", [False, True])
def test_no_later_batch_overtakes_one_whose_verification_has_to_be_repeated(rig, coordinator, is_late):
    codes = iter([ErrorCode.not_enough_replicas, NONE, NONE, NONE])

    def verify(_topic_partition, _transactional_id, _producer, _version, then) -> None:
        coordinator.then = then
        if not is_late:
            then(next(codes))

    rig.node.broker.leader_appends.transactional._verify = verify

    def send(sequence: int) -> tuple[ErrorCode, int]:
        pending = produce(rig, sequence)
        if is_late and not pending.is_done:
            answered(rig, coordinator, next(codes))
        return result(pending)

    assert send(0) == (ErrorCode.not_enough_replicas, -1)
    assert send(1) == (ErrorCode.not_enough_replicas, -1), "the log does not know the producer, and would accept it"
    assert send(0) == (NONE, 0)
    assert send(1) == (NONE, 1)
