"""The checker finds cycles of transactions by their reads, and counts those through writes."""

import pytest

from yak.sim.history_checker.anomalies import Kind
from yak.sim.history_checker.history import History, Outcome, Poll, Send, Txn, run
from yak.sim.history_checker.report import HistoryReport, check_history

X, Y = "x-0", "y-0"
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
Record = tuple[int, str, int]
"""A transaction, and the partition and offset of a record of it."""


def value_of(record: Record) -> int:
    return record[0] * 1000 + (record[1] == Y) * 100 + record[2]


def history_of(writes: list[Record], reads: dict[int, list[Record]], *, process: str = "") -> History:
    """Overlapping transactions, each of a producer of its own or all of `process`; `reads` has the inputs of each."""
    history = History()
    for record in writes:
        txn, partition, offset = record
        history.add(Send(process or f"p{txn}", partition, value_of(record), 0.0, 9.0, OK, offset, txn))
    for txn, inputs in reads.items():
        for record in inputs:
            found = run(record[1], [(record[2], value_of(record))])
            history.add(Poll(f"t{txn} {record}", 10.0, 10.0, (found,), read_committed=True, txn=txn))
    for txn in {record[0]: None for record in writes}:
        history.add(Txn(txn, process or f"p{txn}", 9.0, 10.0, OK))
    return history


def found_in(history: History) -> tuple[list[Kind], int, int]:
    report: HistoryReport = check_history(history)
    return [each.kind for each in report.anomalies], report.write_cycles, report.mixed_cycles


A, B, C = (1, X, 0), (2, X, 1), (3, X, 2)


@pytest.mark.parametrize(
    ("reads", "members"),
    [
        ({1: [B], 2: [A]}, "1, 2"),
        ({1: [B], 2: [C], 3: [A]}, "1, 2, 3"),
        ({1: [B, C], 2: [A], 3: [A]}, "1, 2, 3"),
    ],
)
def test_cycle_of_reads_is_one_anomaly(reads: dict[int, list[Record]], members: str) -> None:
    history = history_of([A, B, C], reads)
    assert found_in(history) == ([Kind.G1C], 0, 0)
    assert f"the reads of {members} are a cycle" in check_history(history).anomalies[0].words


@pytest.mark.parametrize("reads", [{2: [A], 3: [A, B]}, {2: [A], 3: [B]}, {1: [], 2: []}])
def test_chain_of_reads_is_accepted(reads: dict[int, list[Record]]) -> None:
    assert found_in(history_of([A, B, C], reads)) == ([], 0, 0)


def test_two_separate_cycles_of_reads_are_two_anomalies() -> None:
    history = history_of([A, B, C, (4, X, 3)], {1: [B], 2: [A], 3: [(4, X, 3)], 4: [C]})
    assert found_in(history) == ([Kind.G1C, Kind.G1C], 0, 0)


@pytest.mark.parametrize(("outcome", "found"), [(OK, [Kind.G1C]), (INFO, [Kind.G1C]), (FAIL, [Kind.ABORTED_READ])])
def test_cycle_needs_transactions_that_took_effect(outcome: Outcome, found: list[Kind]) -> None:
    history = history_of([A, B], {1: [B], 2: [A]})
    history.add(Txn(1, "p1", 9.0, 10.0, outcome))
    assert found_in(history)[0] == found


def test_writes_in_opposite_orders_are_counted_and_accepted() -> None:
    assert found_in(history_of([A, B, (2, Y, 0), (1, Y, 1)], {})) == ([], 1, 0)


def test_write_between_two_writes_of_a_transaction_is_counted_and_accepted() -> None:
    assert found_in(history_of([A, B, (1, X, 2)], {})) == ([], 1, 0)


def test_cycle_of_a_write_and_a_read_is_counted_and_accepted() -> None:
    # 2 is behind 1 in x, and 1 processed a record of 2
    assert found_in(history_of([A, B, (2, Y, 0)], {1: [(2, Y, 0)]})) == ([], 0, 1)


def test_cycle_of_writes_of_one_producer_is_a_violation() -> None:
    history = history_of([A, (1, Y, 1), B, (2, Y, 0)], {}, process="p")
    assert found_in(history) == ([Kind.NONMONOTONIC_SEND], 1, 0)


def test_long_chain_needs_no_recursion() -> None:
    records = [(txn, X, txn) for txn in range(5_000)]
    reads = {txn: [records[txn - 1]] for txn in range(1, 5_000)} | {0: [records[-1]]}
    assert found_in(history_of(records, reads)) == ([Kind.G1C], 0, 0)
