"""The checker of histories accepts what a cluster may do, and rejects every contradiction."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yak.errors import UsageError
from yak.sim.history_checker import random_history
from yak.sim.history_checker.anomalies import MEANINGS, Kind
from yak.sim.history_checker.corruptions import CORRUPTIONS, copy_of, self_test
from yak.sim.history_checker.history import (
    UNREADABLE,
    Assign,
    Commit,
    Event,
    Final,
    History,
    Outcome,
    Poll,
    Send,
    Txn,
    run,
)
from yak.sim.history_checker.json_lines import from_lines, to_lines
from yak.sim.history_checker.random_history import HistorySettings
from yak.sim.history_checker.report import around, check_history
from yak.sim.seeded_random import SeededRandom

P = "t-0"
MADE = st.builds(
    HistorySettings,
    partitions=st.integers(1, 4),
    producers=st.integers(1, 4),
    readers=st.integers(0, 3),
    members=st.integers(0, 3),
    steps=st.integers(0, 120),
    transactions=st.booleans(),
)


def history_of(*events: Event) -> History:
    history = History()
    for event in events:
        history.add(event)
    return history


def sent(value: int, offset: int | None, at: float, outcome: Outcome = Outcome.OK, process: str = "a") -> Send:
    return Send(process, P, value, at, at + 0.5, outcome, offset)


def read(process: str, at: float, *records: tuple[int, int], committed: bool = False) -> Poll:
    return Poll(process, at, at + 0.1, (run(P, records),), read_committed=committed)


def kinds(history: History) -> list[Kind]:
    return [each.kind for each in check_history(history).anomalies]


@settings(max_examples=100)
@given(st.integers(0, 2**32), MADE)
def test_history_of_a_correct_cluster_is_accepted(seed: int, how: HistorySettings) -> None:
    assert check_history(random_history.make(SeededRandom(seed), how)).anomalies == ()


@pytest.mark.parametrize("seed", range(3))
def test_every_mutated_history_is_rejected_for_what_was_done_to_it(seed: int) -> None:
    found = list(self_test(seed))
    assert [each for each in found if not each.is_found] == []
    assert len(found) == len(CORRUPTIONS)
    assert {each.kind for each in found} == set(Kind) == set(MEANINGS)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_history_comes_back_from_its_lines(seed: int) -> None:
    history = random_history.make(SeededRandom(seed))
    again = from_lines(to_lines(history))
    assert again == history
    assert copy_of(history) == history


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '["sent"]', '["send", 1]', '["poll","a",0,1,[["t-0",[1],[]]],false,null]', '["first",{"t-0":"x"}]'],
)
def test_a_line_that_is_no_event_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(UsageError, match="line 2") as refused:
        from_lines(["", line])
    assert refused.value.code == "bad-history"


def test_an_unknown_write_may_be_there_or_not() -> None:
    unknown = sent(2, None, 1.0, Outcome.INFO)
    for records in ([(0, 1), (1, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 3), (2, 2)]):
        end = len(records)
        history = history_of(
            sent(1, 0, 0.0), unknown, sent(3, end - 1 if end == 2 or records[1][1] == 2 else 1, 2.0),
            Assign("f", 8.0, {P: 0}), read("f", 9.0, *records), Final("f", {P: end}),
        )  # fmt: skip
        assert kinds(history) == []


def test_a_write_that_is_acknowledged_without_an_offset_is_held_to_its_promise() -> None:
    history = history_of(sent(1, None, 0.0), sent(2, 1, 1.0), read("f", 9.0, (1, 2)), Final("f", {P: 2}))
    assert kinds(history) == [Kind.UNSEEN]


def test_record_that_all_consumers_read_and_is_missing_at_the_end_is_lost() -> None:
    history = history_of(
        sent(1, 0, 0.0), sent(2, 1, 1.0), read("r", 2.0, (0, 1), (1, 2)),
        Assign("f", 8.0, {P: 0}), read("f", 9.0, (1, 2)), Final("f", {P: 2}),
    )  # fmt: skip
    assert kinds(history) == [Kind.LOST_WRITE, Kind.POLL_SKIP]


def test_consumer_with_a_new_assignment_may_go_back_and_ahead() -> None:
    history = history_of(
        sent(1, 0, 0.0), sent(2, 1, 1.0), sent(3, 2, 2.0),
        Assign("r", 3.0, {P: 0}), read("r", 3.5, (0, 1)), Assign("r", 4.0, {P: 2}), read("r", 4.5, (2, 3)),
        Assign("r", 5.0, {P: None}), read("r", 5.5, (1, 2), (2, 3)), Assign("r", 6.0, {}, (P,)), read("r", 7.0, (0, 1)),
    )  # fmt: skip
    assert kinds(history) == []


def test_an_offset_without_a_record_may_be_passed_over() -> None:
    history = history_of(
        sent(1, 0, 0.0), sent(2, 2, 1.0), Assign("r", 3.0, {P: 0}), read("r", 3.5, (0, 1)), read("r", 3.6, (2, 2))
    )
    assert kinds(history) == []


def test_unreadable_content_is_no_duplicate_of_itself() -> None:
    assert kinds(history_of(read("r", 1.0, (0, UNREADABLE), (1, UNREADABLE)))) == [Kind.PHANTOM]


def test_record_repeated_after_its_deletion_is_a_duplicate_only_above_the_forgotten_offset() -> None:
    history = history_of(sent(1, 5, 0.0), read("r", 1.0, (3, 1)), read("r", 2.0, (5, 1)))
    assert kinds(history) == [Kind.DUPLICATE]
    history.forgotten = {P: 4}
    assert kinds(history) == []
    history.forgotten = {P: 3}
    assert kinds(history) == [Kind.DUPLICATE]


def test_writes_at_the_same_time_may_stand_either_way() -> None:
    first, second = sent(1, 1, 0.0), sent(2, 0, 0.4, process="b")
    assert kinds(history_of(first, second)) == []
    late = sent(2, 0, 0.6, process="b")
    assert kinds(history_of(first, late)) == [Kind.STALE_APPEND]


def test_commit_of_unknown_outcome_may_come_after_the_next_one() -> None:
    def anomalies(start: int, first: Outcome) -> list[Kind]:
        return kinds(
            history_of(
                Commit("m", "g", 1.0, 1.5, first, {P: 5}),
                Commit("m", "g", 2.0, 2.5, Outcome.OK, {P: 9}),
                Assign("n", 3.0, {P: start}, (), "g"),
            )
        )

    assert anomalies(9, Outcome.INFO) == anomalies(5, Outcome.INFO) == []
    assert anomalies(5, Outcome.OK) == anomalies(4, Outcome.INFO) == anomalies(-1, Outcome.FAIL) == [Kind.LOST_COMMIT]


def test_a_reader_of_everything_may_see_what_is_not_committed() -> None:
    open_send = Send("a", P, 1, 0.0, 0.5, Outcome.OK, 0, txn=7)
    aborted = Txn(7, "a", 5.0, 5.5, Outcome.FAIL)
    assert kinds(history_of(open_send, aborted, read("r", 1.0, (0, 1)))) == []
    assert kinds(history_of(open_send, aborted, read("r", 1.0, (0, 1), committed=True))) == [Kind.ABORTED_READ]


def test_anomaly_is_printed_with_the_operations_around_it() -> None:
    history = history_of(
        *(sent(number, number, float(number)) for number in range(1, 40)), read("r", 50.0, (19, 19), (21, 21))
    )
    (lost,) = (each for each in check_history(history).anomalies if each.value == 20 and each.kind is Kind.LOST_WRITE)
    lines = list(around(history, lost))
    assert any(line.startswith(">") and "sent 20: ok" in line for line in lines)
    assert len([line for line in lines if " sent " in line]) == 21
    assert any("r read 19 to 21" in line for line in lines)


def test_report_counts_the_operations() -> None:
    found = check_history(
        history_of(
            sent(1, 0, 0.0), sent(2, None, 1.0, Outcome.INFO), sent(3, None, 2.0, Outcome.FAIL), read("r", 1.0, (0, 1))
        )
    )
    assert found.holds
    document = found.as_json()
    assert {name: document[name] for name in ("operations", "acknowledged", "unknown", "refused", "polled")} == {
        "operations": 4, "acknowledged": 1, "unknown": 1, "refused": 1, "polled": 1,
    }  # fmt: skip
