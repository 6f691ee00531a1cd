"""The decisions of the transaction coordinator: each rule of Kafka's TransactionMetadata and TransactionCoordinator."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.transactions.transaction import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    MOVES,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    PROTOCOL_1,
    PROTOCOL_2,
    ProducerIdAndEpoch,
    ProducerIdNeededError,
    Transaction,
    TransactionState,
)

NEW = Transaction("payments", 7)
PLACE = TopicPartition("orders", 0)
LAST = 2**15 - 2


def opened(epoch: int = 3, client_version: int = PROTOCOL_1) -> Transaction:
    return NEW._replace(producer_epoch=epoch, timeout_ms=60_000).add_partitions(
        ProducerIdAndEpoch(7, epoch), [PLACE], client_version, 1_000
    )


def refusal(decide) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        decide()
    return refused.value.error_code


def end(
    transaction: Transaction, epoch: int, *, is_commit: bool = True, version: int = PROTOCOL_1, **more
) -> Transaction:
    producer = ProducerIdAndEpoch(more.pop("producer_id", 7), epoch)
    return transaction.end(producer, is_commit=is_commit, client_version=version, now_ms=2_000, **more)


def test_init_of_a_new_id_gives_epoch_0_and_each_further_one_the_next():
    first = NEW.initialize(60_000, None, 5)
    assert (first.state, first.producer_epoch, first.timeout_ms, first.updated_ms) == (EMPTY, 0, 60_000, 5)
    assert first.initialize(60_000, None, 6).producer_epoch == 1


def test_init_with_the_present_identity_bumps_and_its_repetition_does_not():
    first = NEW.initialize(1, None, 5)
    recovered = first.initialize(1, ProducerIdAndEpoch(7, 0), 6)
    assert (recovered.producer_epoch, recovered.last_producer_epoch) == (1, 0)
    assert recovered.initialize(1, ProducerIdAndEpoch(7, 0), 7).producer_epoch == 1
    # a new producer clears the last epoch: the old one is fenced for good
    taken_over = recovered.initialize(1, None, 8)
    assert refusal(lambda: taken_over.initialize(1, ProducerIdAndEpoch(7, 1), 9)) == ErrorCode.producer_fenced


@pytest.mark.parametrize("expected", [ProducerIdAndEpoch(8, 3), ProducerIdAndEpoch(7, 1), ProducerIdAndEpoch(7, 4)])
def test_init_with_a_foreign_identity_is_fenced(expected):
    transaction = NEW._replace(producer_epoch=3)
    assert refusal(lambda: transaction.initialize(1, expected, 5)) == ErrorCode.producer_fenced


def test_init_after_the_last_epoch_needs_a_new_producer_id_and_its_repetition_gets_the_same():
    used_up = NEW._replace(producer_epoch=LAST)
    with pytest.raises(ProducerIdNeededError):
        used_up.initialize(1, None, 5)
    rotated = used_up.initialize(1, ProducerIdAndEpoch(7, LAST), 5, 8)
    assert (rotated.producer_id, rotated.producer_epoch, rotated.previous_producer_id) == (8, 0, 7)
    again = rotated
    for repetition in range(2):
        again = again.initialize(1, ProducerIdAndEpoch(7, LAST), 6 + repetition)
        assert (again.producer_id, again.producer_epoch) == (8, 0)


def test_init_while_a_transaction_is_open_aborts_it_under_the_next_epoch():
    fenced = opened().initialize(1, None, 9)
    assert (fenced.state, fenced.producer_epoch, fenced.partitions) == (PREPARE_ABORT, 4, {PLACE})
    assert refusal(lambda: fenced.initialize(1, None, 9)) == ErrorCode.concurrent_transactions
    assert refusal(lambda: end(fenced.complete(10), 3)) == ErrorCode.producer_fenced


def test_init_does_not_take_back_a_producer_whose_transaction_another_one_aborted():
    aborted = opened().initialize(1, None, 9).complete(10)
    assert refusal(lambda: aborted.initialize(1, ProducerIdAndEpoch(7, 3), 11)) == ErrorCode.producer_fenced
    assert aborted.initialize(1, None, 11).producer_epoch == 5


def test_init_by_the_producer_of_the_open_transaction_aborts_it_and_may_be_repeated():
    me = ProducerIdAndEpoch(7, 3)
    aborted = opened().initialize(1, me, 9).complete(10)
    assert aborted.initialize(1, me, 11).producer_epoch == 4
    timed_out = opened().fence(9).complete(10)
    assert timed_out.initialize(1, me, 11).producer_epoch == 4


@pytest.mark.parametrize("zombie", [ProducerIdAndEpoch(7, 2), ProducerIdAndEpoch(6, LAST)])
def test_init_by_a_zombie_does_not_abort_the_open_transaction(zombie):
    transaction = opened()._replace(previous_producer_id=6, last_producer_epoch=2)
    assert refusal(lambda: transaction.initialize(1, zombie, 9)) == ErrorCode.producer_fenced


def test_add_partitions_begins_a_transaction_and_is_idempotent():
    transaction = opened()
    assert (transaction.state, transaction.started_ms, transaction.partitions) == (ONGOING, 1_000, {PLACE})
    assert transaction.add_partitions(ProducerIdAndEpoch(7, 3), [PLACE], PROTOCOL_1, 5_000) is transaction
    more = transaction.add_partitions(ProducerIdAndEpoch(7, 3), [TopicPartition("orders", 1)], PROTOCOL_1, 5_000)
    assert (len(more.partitions), more.started_ms, more.updated_ms) == (2, 1_000, 5_000)


@pytest.mark.parametrize(
    ("producer", "code"),
    [
        (ProducerIdAndEpoch(8, 3), ErrorCode.invalid_producer_id_mapping),
        (ProducerIdAndEpoch(7, 2), ErrorCode.producer_fenced),
        (ProducerIdAndEpoch(7, 4), ErrorCode.producer_fenced),
    ],
)
def test_requests_of_other_producers_are_refused(producer, code):
    transaction = opened()
    assert refusal(lambda: transaction.add_partitions(producer, [PLACE], PROTOCOL_1, 5)) == code
    assert transaction.verify(producer, PLACE) == code
    assert refusal(lambda: end(transaction, producer.epoch, producer_id=producer.producer_id)) == code


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_transaction_may_be_ended_before_the_markers_are_written(is_commit):
    prepared = end(opened(client_version=2), 3, version=PROTOCOL_2)
    code = refusal(lambda: end(prepared, 4, is_commit=is_commit, version=PROTOCOL_2))
    assert code == ErrorCode.concurrent_transactions


def test_requests_while_the_end_is_prepared_are_retried():
    transaction = end(opened(), 3)
    assert transaction.state is PREPARE_COMMIT
    producer = ProducerIdAndEpoch(7, 3)
    assert refusal(lambda: transaction.add_partitions(producer, [PLACE], 0, 5)) == ErrorCode.concurrent_transactions
    assert transaction.verify(producer, PLACE) == ErrorCode.concurrent_transactions
    assert refusal(lambda: end(transaction, 3)) == ErrorCode.concurrent_transactions
    assert refusal(lambda: end(transaction, 3, is_commit=False)) == ErrorCode.invalid_txn_state


def test_verify_distinguishes_partitions_in_the_transaction_from_others():
    producer = ProducerIdAndEpoch(7, 3)
    assert opened().verify(producer, PLACE) == ErrorCode.none
    assert opened().verify(producer, TopicPartition("orders", 1)) == ErrorCode.transaction_abortable
    committed = end(opened(), 3).complete(5)
    assert committed.verify(producer, PLACE) == ErrorCode.transaction_abortable


@pytest.mark.parametrize(("is_commit", "state"), [(True, COMPLETE_COMMIT), (False, COMPLETE_ABORT)])
def test_end_with_protocol_1_keeps_the_epoch_and_may_be_repeated(is_commit, state):
    done = end(opened(), 3, is_commit=is_commit).complete(5)
    assert (done.state, done.producer_epoch, done.partitions) == (state, 3, frozenset())
    assert end(done, 3, is_commit=is_commit) is done
    assert refusal(lambda: end(done, 3, is_commit=not is_commit)) == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_without_a_transaction_is_invalid_with_protocol_1(is_commit):
    assert refusal(lambda: end(NEW._replace(producer_epoch=3), 3, is_commit=is_commit)) == ErrorCode.invalid_txn_state


@pytest.mark.parametrize(("is_commit", "state"), [(True, COMPLETE_COMMIT), (False, COMPLETE_ABORT)])
def test_end_with_protocol_2_bumps_the_epoch_and_knows_its_repetition(is_commit, state):
    prepared = end(opened(client_version=2), 3, is_commit=is_commit, version=PROTOCOL_2)
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (4, 3)
    code = refusal(lambda: end(prepared, 3, is_commit=is_commit, version=PROTOCOL_2))
    assert code == ErrorCode.concurrent_transactions
    done = prepared.complete(5)
    assert (done.state, done.producer_epoch) == (state, 4)
    assert end(done, 3, is_commit=is_commit, version=PROTOCOL_2) is done
    wrong = refusal(lambda: end(done, 3, is_commit=not is_commit, version=PROTOCOL_2))
    assert wrong == ErrorCode.invalid_txn_state
    # a delayed EndTxn of this transaction cannot end the next one
    following = done.add_partitions(ProducerIdAndEpoch(7, 4), [PLACE], PROTOCOL_2, 6)
    assert refusal(lambda: end(following, 3, version=PROTOCOL_2)) == ErrorCode.producer_fenced


@pytest.mark.parametrize("state", AT_REST)
def test_protocol_2_aborts_a_transaction_without_partitions_and_refuses_to_commit_it(state):
    idle = NEW._replace(producer_epoch=3, state=state)
    aborted = end(idle, 3, is_commit=False, version=PROTOCOL_2)
    assert (aborted.state, aborted.producer_epoch, aborted.started_ms) == (PREPARE_ABORT, 4, 2_000)
    assert refusal(lambda: end(idle, 3, version=PROTOCOL_2)) == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_a_fenced_producer_with_protocol_2_does_not_repeat_that_of_its_successor_with_protocol_1(is_commit):
    """The answer would give the zombie its successor's epoch."""
    prepared = end(opened(4), 4, is_commit=is_commit)
    for transaction in (prepared, prepared.complete(3_000)):
        zombies = refusal(lambda at=transaction: end(at, 3, is_commit=is_commit, version=PROTOCOL_2))
        assert zombies == ErrorCode.producer_fenced


def test_protocol_2_moves_to_a_new_producer_id_after_the_last_epoch():
    with pytest.raises(ProducerIdNeededError):
        end(opened(LAST), LAST, version=PROTOCOL_2)
    prepared = end(opened(LAST), LAST, version=PROTOCOL_2, new_producer_id=8)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, LAST + 1, 8)
    done = prepared.complete(5)
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id, done.next_producer_id) == (8, 0, 7, -1)
    assert end(done, LAST, version=PROTOCOL_2) is done


def test_no_client_gets_the_epoch_of_a_fence_after_the_last_one():
    """The end of a transaction in that epoch could bump it no more, and leaders would refuse its markers for ever."""
    timed_out = opened(LAST, PROTOCOL_2).fence(5)
    again = {"is_commit": False, "version": PROTOCOL_2}
    assert refusal(lambda: end(timed_out, LAST, **again)) == ErrorCode.concurrent_transactions
    assert refusal(lambda: end(timed_out.complete(6), LAST, **again)) == ErrorCode.producer_fenced
    assert timed_out.complete(6).initialize(1, ProducerIdAndEpoch(7, LAST), 7, 8).producer_id == 8


def test_a_fence_never_exceeds_the_greatest_epoch():
    fenced = opened(LAST + 1).fence(5)
    assert fenced.producer_epoch == LAST + 1
    assert fenced.complete(6).initialize(1, None, 7, 8).producer_id == 8


def test_timeout_and_expiry():
    transaction = opened()
    assert not transaction.is_timed_out(61_000)
    assert transaction.is_timed_out(61_001)
    assert not transaction.is_expired(10**12, 1)
    done = end(transaction, 3).complete(5_000)
    assert not done.is_timed_out(10**12)
    assert not done.is_expired(5_999, 1_000)
    assert done.is_expired(6_000, 1_000)


def test_every_state_has_its_moves_and_kafkas_number():
    assert set(MOVES) == set(TransactionState)
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["init", "add", "end", "complete", "fence"]), st.booleans(), st.booleans()),
        max_size=30,
    )
)
def test_no_sequence_of_decisions_lowers_an_epoch_or_ends_twice(steps):
    transaction, ids = NEW.initialize(1_000, None, 0), iter(range(100, 200))
    for step, is_commit, is_2 in steps:
        before = transaction
        me = ProducerIdAndEpoch(before.producer_id, before.producer_epoch)
        try:
            if step == "init":
                transaction = before.initialize(1_000, me if is_commit else None, 1, next(ids))
            elif step == "add":
                transaction = before.add_partitions(me, [PLACE], PROTOCOL_2 if is_2 else PROTOCOL_1, 1)
            elif step == "end":
                transaction = before.end(
                    me, is_commit=is_commit, client_version=PROTOCOL_2 if is_2 else PROTOCOL_1, now_ms=1
                )
            elif step == "complete" and before.state in PREPARED:
                transaction = before.complete(1)
            elif step == "fence" and before.state is ONGOING:
                transaction = before.fence(1)
        except PeerError:
            continue
        assert (transaction.producer_id, transaction.producer_epoch) >= me
        if transaction is not before:
            assert before.state in MOVES[transaction.state]
        if is_2 and step == "end" and transaction.state in PREPARED:
            assert transaction.producer_epoch == me.epoch + 1
