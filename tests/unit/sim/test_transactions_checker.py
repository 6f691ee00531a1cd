"""The checker finds aborted, torn, doubled and lost records of transactions, and inputs that were not processed once."""

import pytest

from yak.sim.history_checker.anomalies import Kind
from yak.sim.history_checker.history import Assign, Commit, Final, History, Outcome, Poll, Send, Txn, run
from yak.sim.history_checker.report import check_history

IN, OUT = "in-0", "out-0"
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


def kinds(history: History) -> list[Kind]:
    return sorted({each.kind for each in check_history(history).anomalies})


def transaction(outcome: Outcome, *read: tuple[int, int], end: int = 4) -> History:
    """Values 1 and 2 in one transaction at offsets 0 and 1, its marker at 2, value 3 without a transaction at 3."""
    history = History()
    for value, offset, txn in ((1, 0, 7), (2, 1, 7), (3, 3, None)):
        history.add(Send("w", OUT, value, float(offset), offset + 0.5, OK, offset, txn))
    history.add(Txn(7, "w", 2.0, 2.5, outcome))
    history.add(Assign("final", 9.0, {OUT: 0}))
    history.add(Poll("final", 9.0, 9.5, (run(OUT, read),), read_committed=True))
    history.add(Final("final", {OUT: end}))
    return history


WHOLE, NONE = ((0, 1), (1, 2), (3, 3)), ((3, 3),)


@pytest.mark.parametrize(
    ("outcome", "read", "found"),
    [
        (OK, WHOLE, []),
        (FAIL, NONE, []),
        (INFO, WHOLE, []),
        (INFO, NONE, []),
        (FAIL, WHOLE, [Kind.ABORTED_READ]),
        (INFO, ((0, 1), (3, 3)), [Kind.TORN_TRANSACTION]),
        (OK, NONE, [Kind.LOST_WRITE]),
        (OK, (*WHOLE, (4, 2)), [Kind.DUPLICATE]),
    ],
)
def test_transaction_is_read_whole_and_once_or_not_at_all(outcome, read, found):
    history = transaction(outcome, *read, end=5)
    # A missing record is also one that the reader passed over.
    assert [each for each in kinds(history) if not each.endswith("poll-skip")] == found


def chain(*steps: tuple[Outcome, tuple[int, ...], bool], committed: int) -> History:
    """Workers process inputs by their offsets, each step in a transaction; with `True` its outputs are read."""
    history = History()
    for offset in range(3):
        history.add(Send("w", IN, 100 + offset, offset, offset + 0.5, OK, offset))
    read, value = [], 1
    for number, (outcome, offsets, is_read) in enumerate(steps):
        at = 10.0 * (number + 1)
        worker = f"worker-{number}"
        history.add(Assign(worker, at, {IN: offsets[0]}, (), "g"))
        history.add(Poll(worker, at, at + 1.0, (run(IN, [(each, 100 + each) for each in offsets]),), True, number))
        for _ in offsets:
            history.add(Send(worker, OUT, value, at + 2.0, at + 3.0, OK, value, number))
            read += [(value, value)] if is_read else []
            value += 1
        history.add(Txn(number, worker, at + 4.0, at + 5.0, outcome))
        history.add(Commit(worker, "g", at + 4.0, at + 5.0, outcome, {IN: offsets[-1] + 1}))
    history.add(Commit("last", "g", 97.0, 98.0, OK, {IN: committed}))
    inputs = run(IN, [(offset, 100 + offset) for offset in range(3)])
    history.add(Assign("final", 99.0, {IN: 0, OUT: 0}))
    history.add(Poll("final", 99.0, 99.5, (inputs, run(OUT, read)), read_committed=True))
    history.add(Final("final", {IN: 3, OUT: value}))
    return history


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([(OK, (0, 1, 2), True)], []),
        ([(FAIL, (0, 1), False), (OK, (0, 1, 2), True)], []),
        ([(INFO, (0, 1), False), (OK, (0, 1, 2), True)], []),
        ([(INFO, (0, 1), True), (OK, (2,), True)], []),
        ([(OK, (0, 1), True), (OK, (1, 2), True)], [Kind.DUPLICATE_INPUT]),
        ([(INFO, (0, 1), True), (OK, (0, 1, 2), True)], [Kind.DUPLICATE_INPUT]),
        ([(OK, (0, 1), True)], [Kind.LOST_INPUT]),
        ([(FAIL, (0, 1), False), (OK, (2,), True)], [Kind.LOST_INPUT]),
        ([(INFO, (0, 1), False), (OK, (2,), True)], [Kind.LOST_INPUT]),
        ([(FAIL, (0, 1, 2), False)], [Kind.LOST_INPUT]),
    ],
)
def test_each_input_is_processed_in_one_transaction_that_took_effect(steps, found):
    history = chain(*steps, committed=3)
    assert [each for each in kinds(history) if each.startswith(("lost-i", "duplicate-i"))] == found
    if not found:
        assert check_history(history).holds


def test_input_of_a_transaction_of_unknown_outcome_is_not_lost_before_the_end():
    history = chain((INFO, (0, 1), False), (OK, (2,), True), committed=3)
    history.finals.clear()
    assert Kind.LOST_INPUT not in kinds(history)


def test_report_counts_transactions_and_their_inputs():
    history = chain((OK, (0,), True), (FAIL, (1,), False), (INFO, (1,), False), (OK, (1, 2), True), committed=3)
    assert check_history(history).as_json()["transactions"] == {
        "committed": 2,
        "aborted": 1,
        "unknown": 1,
        "processed": 3,
        "allowed_cycles": {"g0": 0, "g1c": 0},
    }
