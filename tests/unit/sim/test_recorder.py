"""What clients did, as it reaches the checker: what is left out, and what is no longer promised."""

import pytest

from yak.sim.deliveries import Deliveries, Violation
from yak.sim.history import Chain, History, Key
from yak.sim.history_checker.history import Outcome
from yak.sim.recorder import ReadRecorder, Recorder, must_hold
from yak.sim.world import World

PLACE = ("t", 0)


def made(values: list[bytes], read: list[tuple[int, bytes]], *, floor: int = 0, keeps: bool = True):
    """One producer whose values are all acknowledged, from offset 0 on, and one reader of everything."""
    recorder, copies = Recorder(World()), History([])
    copies.committed[Key(*PLACE)] = Chain(100)
    deliveries = Deliveries(copies, str, recorder)
    deliveries.sent(*PLACE, values)
    recorder.acknowledged(0, values)
    recorder.reads_all("reader", PLACE)
    reading = ReadRecorder(deliveries, recorder, "reader", PLACE)
    reading.log_begins(*PLACE, 0)
    for offset, value in read:
        reading.read(*PLACE, offset, value, 100)
    return recorder.history(lambda _place: keeps, lambda _group: keeps, lambda _place: floor)


def test_history_of_acknowledged_and_read_records_holds():
    history_report = must_hold(made([b"1:1", b"1:2"], [(0, b"1:1"), (1, b"1:2")]))
    assert (history_report.acknowledged, history_report.polled) == (2, 2)


def test_acknowledged_record_that_is_not_read_is_lost():
    with pytest.raises(Violation, match="I1: lost-write"):
        must_hold(made([b"1:1", b"1:2"], [(1, b"1:2")]))


def test_record_forfeited_before_any_reader_read_it_is_not_lost():
    history = made([b"1:1", b"1:2"], [(1, b"1:2")], floor=1)
    assert [send.outcome for send in history.sends] == [Outcome.INFO, Outcome.OK]
    assert history.first_offsets == {"t-0": 1}


def test_record_at_two_offsets_is_a_duplicate():
    with pytest.raises(Violation, match="I11: duplicate"):
        must_hold(made([b"1:1"], [(0, b"1:1"), (1, b"1:1")]))


def test_forfeited_partition_is_not_in_the_history():
    history = made([b"1:1"], [], keeps=False)
    assert not list(history.sends)
    assert must_hold(history).holds


def test_a_commit_without_an_answer_may_come_at_any_time():
    recorder = Recorder(World())
    commit = recorder.commits("m", "g", {PLACE: 4})
    history = recorder.history(lambda _place: True, lambda _group: True, lambda _place: 0)
    assert [each.outcome for each in history.commits] == [Outcome.INFO]
    recorder.committed(commit, Outcome.OK)
    history = recorder.history(lambda _place: True, lambda _group: True, lambda _place: 0)
    assert [(each.outcome, each.offsets) for each in history.commits] == [(Outcome.OK, {"t-0": 4})]


def committed_before_the_answer(*, has_request_time: bool) -> Recorder:
    """A member asks for the committed offset; another commits 2 before the answer, which says 1, arrives."""
    world = World()
    recorder = Recorder(world)
    requested_at = recorder.now
    for offset in (1, 2):
        commit = recorder.commits("m", "g", {PLACE: offset})
        world.now_us += 1_000
        recorder.committed(commit, Outcome.OK)
        if offset == 1:
            requested_at = recorder.now
        world.now_us += 1_000
    recorder.assigned("n", {PLACE: 1}, group="g", requested_at=requested_at if has_request_time else None)
    return recorder


@pytest.mark.parametrize("has_request_time", [True, False])
def test_offset_fetch_with_a_late_answer_may_lack_a_later_commit(has_request_time):
    recorder = committed_before_the_answer(has_request_time=has_request_time)
    history = recorder.history(lambda _place: True, lambda _group: True, lambda _place: 0)
    if has_request_time:
        assert must_hold(history).holds
    else:
        with pytest.raises(Violation, match="lost-commit"):
            must_hold(history)
