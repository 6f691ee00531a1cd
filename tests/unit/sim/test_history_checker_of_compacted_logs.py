"""The checker lets compaction remove records from the time it removed them on, and nothing else."""

from yak.sim.history_checker.history import Assign, Commit, Final, History, Outcome, Poll, Send, Txn, run
from yak.sim.history_checker.report import check_history

NAME = "t-compact-0"


def history(*, taken, read_at=5.0, seen=(2,)):
    """0, 1 and 2 are acknowledged within a second; somebody reads some of them at `read_at`, and all that is left at 9."""
    made = History()
    for number in range(3):
        made.add(Send("p", NAME, number, number / 10, number / 10 + 0.05, Outcome.OK, number))
    made.add(Assign("c", 0.0, {NAME: 0}, (), "g"))
    made.add(Poll("c", read_at, read_at, (run(NAME, [(offset, offset) for offset in seen]),)))
    made.add(Commit("c", "g", 6.0, 6.1, Outcome.OK, {NAME: 3}))
    made.add(Assign("last", 0.0, {NAME: 0}))
    made.add(Poll("last", 9.0, 9.0, (run(NAME, [(offset, offset) for offset in range(3) if offset not in taken]),)))
    made.add(Final("last", {NAME: 3}))
    made.taken = {NAME: taken}
    return made


def kinds(made):
    return sorted(check_history(made).by_kind)


def test_record_removed_by_compaction_may_be_missing():
    assert kinds(history(taken={0: 4.0, 1: 4.5})) == []


def test_consumer_that_skips_a_record_before_its_compaction_is_reported():
    assert kinds(history(taken={0: 4.0, 1: 5.5})) == ["poll-skip"]


def test_record_not_removed_by_compaction_must_be_present():
    made = history(taken={0: 4.0, 1: 4.5})
    made.taken = {NAME: {0: 4.0}}
    assert kinds(made) == ["group-skip", "lost-write", "poll-skip"]


def test_transaction_of_which_compaction_removed_a_record_is_not_torn():
    """Its outcome is unknown to its producer, and a reader got its other record (seed 31 of four brokers in a quorum)."""
    made = History()
    made.add(Txn(0, "p", 1.0, 9.0, Outcome.INFO))
    for number in range(2):
        made.add(Send("p", NAME, number, 0.1, 0.2, Outcome.OK, number, txn=0))
    made.add(Assign("last", 0.0, {NAME: 0}))
    made.add(Poll("last", 9.0, 9.0, (run(NAME, [(1, 1)]),), read_committed=True))
    made.add(Final("last", {NAME: 2}))
    made.taken = {NAME: {0: 4.0}}
    assert kinds(made) == []
    made.taken = {}
    assert "torn-transaction" in kinds(made)
