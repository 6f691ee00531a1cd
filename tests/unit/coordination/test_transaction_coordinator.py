"""The transaction coordinator on the simulated broker: requests in, records and markers out."""

import datetime as dt
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields
from tests.unit.broker.requests import delete_topic
from tests.unit.noted_calls import note_calls
from yak.core import events
from yak.core.placement import partition_of
from yak.ids import TopicPartition
from yak.limits import GROUP_STRING_BYTES_MAX, SLICE_ELEMENTS
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers
from yak.protocol.record_writer import build_batch
from yak.transactions.records import TRANSACTION_TOPIC
from yak.transactions.shard import TransactionalId
from yak.transactions.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    ProducerIdAndEpoch,
    Transaction,
)

TX = "payments"
ORDERS = TopicPartition("orders", 0)
NONE = ErrorCode.none
LAST_EPOCH = 2**15 - 2
"""The last one that a producer gets."""


@pytest.fixture
def rig() -> Rig:
    return make_rig()


def make_rig(settings: dict[str, str] | None = None) -> Rig:
    rig = Rig(settings=settings)
    rig.create_topic("orders", 2)
    answer = rig.ask(10, 3, key=TX, key_type=1)
    assert (answer.error_code, answer.node_id) == (NONE, rig.node.broker.node_id)
    rig.run_for(100)
    return rig


def init(
    rig: Rig, name: str = TX, *, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1, version: int = 4
):
    fields = {"producer_id": producer_id, "producer_epoch": epoch} if version >= 3 else {}
    timeout = dt.timedelta(milliseconds=timeout_ms)
    return rig.ask(22, version, transactional_id=name, transaction_timeout=timeout, **fields)


def addition(producer, *, index: int = 0, topic: str = "orders") -> dict[str, object]:
    """The fields of AddPartitionsToTxn v3."""
    return {
        "v3_and_below_transactional_id": TX,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.producer_epoch,
        "v3_and_below_topics": [{"name": topic, "partitions": [index]}],
    }


def added(answer) -> ErrorCode:
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def add(rig: Rig, producer, *, client=None, **named) -> ErrorCode:
    return added(rig.ask(24, 3, client=client, **addition(producer, **named)))


def add_for_leader(rig: Rig, producer, *, verify_only: bool, index: int = 0) -> ErrorCode:
    transaction = {
        "transactional_id": TX,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "verify_only": verify_only,
        "topics": [{"name": "orders", "partitions": [index]}],
    }
    answer = rig.ask(24, 5, transactions=[transaction])
    return answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code


def end(rig: Rig, producer, *, commit: bool = True, version: int = 3, client=None):
    return rig.ask(
        26,
        version,
        client=client,
        transactional_id=TX,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )


def send(rig: Rig, producer, place: TopicPartition = ORDERS) -> None:
    """Append a record of the transaction."""
    broker = rig.node.broker
    batch = build_batch(
        [(None, b"x")],
        broker.context.clock.wall_ms,
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
    broker.leader_appends.append_own_batch(broker.partitions[place], batch)


def committed_batches(rig: Rig) -> int:
    asked = {**fetch_fields("orders", 0), "isolation_level": 1}
    partition = rig.ask(1, 12, **asked).responses[0].partitions[0]
    return len(list(iterate_headers(bytes(partition.records or b""))))


def state(rig: Rig):
    return rig.node.broker.transaction_coordinator.describe(TX).state


def test_a_transaction_is_committed_with_protocol_1(rig):
    producer = init(rig)
    assert (producer.error_code, producer.producer_epoch) == (NONE, 0)
    assert add(rig, producer) == NONE
    assert state(rig) is ONGOING
    send(rig, producer)
    assert committed_batches(rig) == 0
    assert end(rig, producer).error_code == NONE
    rig.run_for(50)
    assert state(rig) is COMPLETE_COMMIT
    assert committed_batches(rig) == 2
    # the next transaction has the same epoch
    assert add(rig, producer) == NONE
    assert end(rig, producer, commit=False).error_code == NONE
    rig.run_for(50)
    assert state(rig) is COMPLETE_ABORT


def test_protocol_2_bumps_the_epoch_with_each_end(rig):
    producer = init(rig)
    assert add_for_leader(rig, producer, verify_only=False) == NONE
    send(rig, producer)
    answer = end(rig, producer, version=5)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, producer.producer_id, 1)
    rig.run_for(50)
    assert committed_batches(rig) == 2
    again = end(rig, producer, version=5)
    assert (again.error_code, again.producer_epoch) == (NONE, 1)
    assert add_for_leader(rig, producer, verify_only=False) == ErrorCode.producer_fenced
    assert add_for_leader(rig, answer, verify_only=False) == NONE


def test_new_producer_fences_the_old_producer_and_aborts_its_transaction(rig):
    zombie = init(rig)
    add(rig, zombie)
    send(rig, zombie)
    assert init(rig).error_code == ErrorCode.concurrent_transactions
    rig.run_for(50)
    producer = init(rig)
    assert (producer.error_code, producer.producer_epoch) == (NONE, 2)
    assert end(rig, zombie, version=2).error_code == ErrorCode.producer_fenced
    assert end(rig, zombie, version=1).error_code == ErrorCode.invalid_producer_epoch
    assert add(rig, zombie) == ErrorCode.producer_fenced
    assert committed_batches(rig) == 2  # aborted, so that the reader sees the list
    answer = init(rig, producer_id=zombie.producer_id, epoch=zombie.producer_epoch, version=3)
    assert answer.error_code == ErrorCode.invalid_producer_epoch


def test_refusals_before_a_producer_is_known(rig):
    unknown = type("Producer", (), {"producer_id": 1, "producer_epoch": 0})
    assert add(rig, unknown) == ErrorCode.invalid_producer_id_mapping
    assert end(rig, unknown).error_code == ErrorCode.invalid_producer_id_mapping
    assert init(rig, timeout_ms=900_001).error_code == ErrorCode.invalid_transaction_timeout
    assert init(rig, timeout_ms=0).error_code == ErrorCode.invalid_transaction_timeout
    producer = init(rig)
    assert add(rig, producer, index=9) == ErrorCode.unknown_topic_or_partition
    assert add(rig, producer, topic="none") == ErrorCode.unknown_topic_or_partition
    assert state(rig) is EMPTY


@pytest.mark.parametrize("version", [1, 4])
def test_init_of_a_transactional_id_that_no_record_can_hold_is_refused(rig, version):
    # versions that are not flexible cannot carry a longer one
    size = GROUP_STRING_BYTES_MAX + 1 if version == 1 else 2**15
    answer = init(rig, "t" * size, version=version)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.invalid_request, -1)
    assert init(rig, version=version).error_code == NONE, "the broker goes on"


def test_a_transaction_timeout_is_taken_to_the_millisecond(rig):
    assert init(rig, timeout_ms=1_001).error_code == NONE
    assert rig.node.broker.transaction_coordinator.describe(TX).timeout_ms == 1_001


def test_verify_only_answers_for_the_open_transaction(rig):
    producer = init(rig)
    assert add_for_leader(rig, producer, verify_only=True) == ErrorCode.transaction_abortable
    add(rig, producer)
    assert add_for_leader(rig, producer, verify_only=True) == NONE
    assert add_for_leader(rig, producer, verify_only=True, index=1) == ErrorCode.transaction_abortable


def test_verify_only_of_a_missing_partition_and_of_no_transactional_id_are_refused_as_additions(rig):
    """KafkaApis.handleAddPartitionsToTxnRequest checks the partitions of both alike."""
    producer = init(rig)
    add(rig, producer)
    for verify_only in (True, False):
        several = {
            "transactional_id": TX,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "verify_only": verify_only,
            "topics": [{"name": "orders", "partitions": [0, 9]}],
        }
        nameless = several | {"transactional_id": "", "topics": [{"name": "orders", "partitions": [0]}]}
        answer = rig.ask(24, 5, transactions=[several, nameless])
        codes = [
            [each.partition_error_code for each in result.topic_results[0].results_by_partition]
            for result in answer.results_by_transaction
        ]
        assert codes == [
            [ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition],
            [ErrorCode.invalid_request],
        ]


def test_producer_may_not_add_a_partition_of_an_internal_topic(rig):
    """As KafkaApis: in `__consumer_offsets` only AddOffsetsToTxn and TxnOffsetCommit make a transaction take part."""
    producer = init(rig)
    for topic in ("__consumer_offsets", "__transaction_state"):
        assert add(rig, producer, topic=topic) == ErrorCode.topic_authorization_failed
    assert state(rig) is EMPTY
    assert add(rig, producer) == NONE


def test_an_open_transaction_is_aborted_after_its_timeout(rig):
    producer = init(rig, timeout_ms=1_000)
    add(rig, producer)
    send(rig, producer)
    rig.run_for(12_000)
    assert state(rig) is COMPLETE_ABORT
    assert end(rig, producer).error_code == ErrorCode.producer_fenced
    # the producer may recover, since no other one has come
    answer = init(rig, producer_id=producer.producer_id, epoch=producer.producer_epoch)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 1)


def test_a_transaction_that_began_in_the_future_times_out_all_the_same(rig):
    """The coordinator before had a clock that was ahead by an hour."""
    rig.node.post(events.WallClockMoved(3_600_000))
    producer = init(rig, timeout_ms=5_000)
    add(rig, producer)
    send(rig, producer)
    rig.node.post(events.WallClockMoved(0))
    rig.run_for(4_000)
    assert state(rig) is ONGOING
    rig.run_for(14_000)
    assert state(rig) is COMPLETE_ABORT


def test_a_restarted_coordinator_writes_the_markers_of_a_prepared_transaction(rig):
    producer = init(rig)
    add(rig, producer)
    send(rig, producer)
    rig.node.broker.marker_sender.send = lambda pending: None  # the broker dies before the markers
    assert end(rig, producer).error_code == NONE
    assert state(rig) is PREPARE_COMMIT
    assert committed_batches(rig) == 0
    rig.restart()
    rig.run_for(2_000)
    assert state(rig) is COMPLETE_COMMIT
    assert committed_batches(rig) == 2


def test_markers_of_a_deleted_topic_are_not_awaited(rig):
    producer = init(rig)
    add(rig, producer)
    delete_topic(rig, "orders")
    assert end(rig, producer).error_code == NONE
    rig.run_for(50)
    assert state(rig) is COMPLETE_COMMIT


def test_an_idle_transactional_id_expires_with_a_tombstone():
    interval = "transaction.remove.expired.transaction.cleanup.interval.ms"
    rig = make_rig({"transactional.id.expiration.ms": "5000", interval: "1000"})
    producer = init(rig)
    rig.run_for(10_000)
    assert end(rig, producer).error_code == ErrorCode.invalid_producer_id_mapping
    rig.restart()
    rig.run_for(2_000)
    assert list(rig.node.broker.transaction_coordinator.transactions()) == []


def test_long_transactional_ids_expire_in_batches_that_the_log_takes():
    interval = "transaction.remove.expired.transaction.cleanup.interval.ms"
    settings = {"transactional.id.expiration.ms": "5000", interval: "1000", "transaction.state.log.num.partitions": "1"}
    rig = make_rig(settings)
    for number in range(34):
        assert init(rig, f"{number}-".ljust(GROUP_STRING_BYTES_MAX, "t")).error_code == NONE
    rig.run_for(10_000)
    assert list(rig.node.broker.transaction_coordinator.transactions()) == []


def test_many_transactional_ids_expire_some_in_each_step(monkeypatch):
    interval = "transaction.remove.expired.transaction.cleanup.interval.ms"
    settings = {"transactional.id.expiration.ms": "5000", interval: "1000", "transaction.state.log.num.partitions": "1"}
    rig = make_rig(settings)
    init(rig)
    broker = rig.node.broker
    (coordinated,) = broker.transaction_coordinator.runtime.coordinated.values()
    names = [f"t{number}" for number in range(3 * SLICE_ELEMENTS)]
    coordinated.shard.ids.update({name: TransactionalId(Transaction(name, 7, updated_ms=0)) for name in names})
    examined = note_calls(monkeypatch, Transaction, "is_expired")
    seen = 0
    while len(coordinated.shard.ids) > 1:
        rig.run_for(1)
        assert len(examined) - seen <= SLICE_ELEMENTS
        seen = len(examined)
    assert seen >= len(names)


def test_a_late_request_over_a_replaced_connection_cannot_end_the_next_transaction(rig):
    producer = init(rig)
    old, new = rig.new_client(), rig.new_client()
    assert add(rig, producer, client=old) == NONE
    assert end(rig, producer, client=new).error_code == NONE
    rig.run_for(50)
    assert add(rig, producer, client=new) == NONE
    late = rig.begin(
        26, 3, client=old, transactional_id=TX, producer_id=producer.producer_id, producer_epoch=0, committed=True
    )
    rig.run_for(10)
    assert late.is_lost
    assert state(rig) is ONGOING
    # a fenced producer has older connections too, and gets its error
    zombie, older = producer, rig.client
    assert init(rig).error_code == ErrorCode.concurrent_transactions
    producer = init(rig)
    assert add(rig, producer, client=new) == NONE
    assert end(rig, zombie, client=older).error_code == ErrorCode.producer_fenced


def test_describe_and_list(rig):
    producer = init(rig)
    add(rig, producer)
    described = rig.ask(65, 0, transactional_ids=[TX, "other", ""]).transaction_states
    assert [each.error_code for each in described] == [
        NONE,
        ErrorCode.transactional_id_not_found,
        ErrorCode.invalid_request,
    ]
    assert (described[0].transaction_state, described[0].producer_id) == ("Ongoing", producer.producer_id)
    assert [(each.topic, each.partitions) for each in described[0].topics] == [("orders", (0,))]

    def listed(**filters):
        answer = rig.ask(66, 2, **filters)
        return [(each.transactional_id, each.transaction_state) for each in answer.transaction_states]

    assert listed() == [(TX, "Ongoing")]
    assert listed(state_filters=["Ongoing"], producer_id_filters=[producer.producer_id]) == [(TX, "Ongoing")]
    assert listed(state_filters=["Empty"]) == listed(producer_id_filters=[99]) == listed(duration_filter=10**9) == []
    assert listed(transactional_id_pattern="pay.*") == [(TX, "Ongoing")]
    assert listed(transactional_id_pattern="x.*") == []


def list_by_pattern(rig, pattern):
    answer = rig.ask(66, 2, transactional_id_pattern=pattern)
    return answer.error_code, [each.transactional_id for each in answer.transaction_states]


def test_pattern_that_costs_too_much_for_the_ids_here_is_refused_and_the_connection_stays(rig):
    for number in range(3):
        assert init(rig, f"{number}" + "x" * 31_999).error_code == NONE
    assert list_by_pattern(rig, "[a-z]{1000}y") == (ErrorCode.invalid_regular_expression, [])
    assert list_by_pattern(rig, "1x+")[0] == NONE


def test_pattern_matches_characters_of_an_id_not_its_bytes(rig):
    assert init(rig, "café").error_code == NONE
    assert list_by_pattern(rig, "caf.") == (NONE, ["café"])
    assert list_by_pattern(rig, "caf..") == (NONE, [])


def test_offsets_of_a_group_add_its_partition(rig):
    producer = init(rig)
    rig.ask(10, 3, key="g", key_type=0)
    rig.run_for(100)
    answer = rig.ask(25, 3, transactional_id=TX, producer_id=producer.producer_id, producer_epoch=0, group_id="g")
    assert answer.error_code == NONE
    transaction = rig.node.broker.transaction_coordinator.describe(TX)
    count = len(rig.node.broker.image.topics["__consumer_offsets"].partitions)
    assert transaction.partitions == {TopicPartition("__consumer_offsets", partition_of("g", count))}


def test_first_offsets_of_a_group_in_a_transaction_create_the_offsets_topic(rig):
    """A Java producer with a ConsumerGroupMetadata of its own does that after AddOffsetsToTxn."""
    producer = init(rig)
    assert "__consumer_offsets" not in rig.node.broker.image.topics
    asked = {"transactional_id": TX, "producer_id": producer.producer_id, "producer_epoch": 0, "group_id": "g"}
    assert rig.ask(25, 3, **asked).error_code == ErrorCode.coordinator_load_in_progress
    assert rig.ask(25, 3, **asked).error_code == NONE
    assert {each.topic for each in rig.node.broker.transaction_coordinator.describe(TX).partitions} == {
        "__consumer_offsets"
    }


def test_the_internal_topic_has_kafkas_configs(rig):
    topic = rig.node.broker.image.topics[TRANSACTION_TOPIC]
    assert len(topic.partitions) == 50
    assert topic.configs["cleanup.policy"] == "compact"
    assert topic.configs["unclean.leader.election.enable"] == "false"
    assert topic.configs["min.insync.replicas"] == "1"  # one broker


def test_the_next_transaction_waits_for_the_end_of_this_one(rig):
    producer = init(rig)
    add(rig, producer)
    broker = rig.node.broker
    sender, held = broker.marker_sender, []
    send_now, sender.send = sender.send, held.append
    assert end(rig, producer).error_code == NONE
    waiting = rig.begin(24, 3, **addition(producer))
    rig.run_for(20)
    assert not waiting.is_done
    send_now(held.pop())
    rig.ask(18, 0)  # the next step sends what was answered
    assert added(waiting.answer) == NONE
    assert state(rig) is ONGOING
    # it does not wait for long: the client repeats the request
    assert end(rig, producer).error_code == NONE
    waiting = rig.begin(24, 3, **addition(producer))
    rig.run_for(200)
    assert added(waiting.answer) == ErrorCode.concurrent_transactions
    send_now(held.pop())
    rig.run_for(20)
    assert state(rig) is COMPLETE_COMMIT


def test_the_next_transaction_under_a_new_id_waits_for_the_end_of_the_last_epoch(rig):
    producer = init(rig)
    entry = rig.node.broker.transaction_coordinator._find(TX)[1]
    entry.transaction = entry.transaction._replace(producer_epoch=LAST_EPOCH)
    last = SimpleNamespace(producer_id=producer.producer_id, producer_epoch=LAST_EPOCH)
    assert add_for_leader(rig, last, verify_only=False) == NONE
    send(rig, last)
    sender, held = rig.node.broker.marker_sender, []
    send_now, sender.send = sender.send, held.append
    after = end(rig, last, version=5)
    assert (after.error_code, after.producer_epoch) == (NONE, 0)
    assert after.producer_id != producer.producer_id
    assert add_for_leader(rig, after, verify_only=False) == ErrorCode.concurrent_transactions
    assert end(rig, after, version=5).error_code == ErrorCode.concurrent_transactions
    assert init(rig, producer_id=after.producer_id, epoch=0).error_code == ErrorCode.concurrent_transactions
    send_now(held.pop())
    rig.run_for(20)
    assert add_for_leader(rig, after, verify_only=False) == NONE


def test_a_transaction_completes_after_its_coordinator_was_isolated(rig, monkeypatch):
    producer = init(rig)
    add(rig, producer)
    broker, held = rig.node.broker, []
    send_now = broker.marker_sender.send
    monkeypatch.setattr(broker.marker_sender, "send", held.append)
    assert end(rig, producer).error_code == NONE
    # The markers are written while no follower of `__transaction_state` answers, and the leadership goes on.
    state_partition = broker.transaction_coordinator.runtime.find(TX).partition
    monkeypatch.setattr(broker.leadership, "_is_isolated", lambda partition: partition is state_partition)
    send_now(held.pop())
    rig.run_for(500)
    assert state(rig) is PREPARE_COMMIT
    monkeypatch.undo()
    rig.run_for(500)
    assert state(rig) is COMPLETE_COMMIT


def test_partitions_that_leaders_add_at_once_wait_for_the_first_and_share_a_record(rig):
    rig.create_topic("payments", 9)
    answer = init(rig)
    producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
    zombie = producer._replace(epoch=7)
    coordinator = rig.node.broker.transaction_coordinator
    append, held, codes = coordinator.runtime.append, [], []
    coordinator.runtime.append = lambda *arguments: held.append(arguments)
    for index in range(9):
        coordinator.add_partitions(TX, producer, (TopicPartition("payments", index),), 2, codes.append)
    coordinator.add_partitions(TX, zombie, (TopicPartition("orders", 0),), 2, codes.append)
    assert (len(held), codes) == (1, [])
    append(*held.pop())
    assert (len(held), codes) == (1, [NONE]), "with one record each, their number would be squared"
    append(*held.pop())
    assert (held, codes) == ([], [NONE] * 9 + [ErrorCode.producer_fenced])
    assert {place.topic for place in coordinator.describe(TX).partitions} == {"payments"}
    assert len(coordinator.describe(TX).partitions) == 9


@pytest.mark.parametrize("version", [1, 2])
def test_end_behind_an_addition_of_its_producer_that_waits_is_retried_and_ends_it(rig, version):
    """librdkafka aborts at once: AddPartitionsToTxn and EndTxn are on their way together (confluentinc/librdkafka#4849)."""
    answer = init(rig)
    add(rig, answer)
    sender, held, codes = rig.node.broker.marker_sender, [], []
    send_now, sender.send = sender.send, held.append
    after = end(rig, answer, version=3 if version == 1 else 5)
    producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch if version == 1 else after.producer_epoch)
    coordinator = rig.node.broker.transaction_coordinator

    def abort() -> None:
        coordinator.end(
            TX, producer, is_commit=False, client_version=version, then=lambda code, _producer: codes.append(code)
        )

    coordinator.add_partitions(TX, producer, (ORDERS,), version, codes.append)
    abort()
    assert codes == [ErrorCode.concurrent_transactions], "INVALID_TXN_STATE is fatal, and left what is added open"
    send_now(held.pop())
    rig.run_for(50)
    assert codes[1:] == [NONE]
    assert state(rig) is ONGOING
    sender.send = send_now
    abort()
    rig.run_for(50)
    assert codes[2:] == [NONE]
    assert state(rig) is COMPLETE_ABORT
