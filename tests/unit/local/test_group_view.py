"""The groups demo's count: what may be read twice and what may not, and every way in which a record can be lost."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.local.demo.groups import GroupView, Ownership, handovers, partition_counts
from yak.sim.history_checker.history import Assign, Commit, Event, History, Outcome, Poll, Send, run
from yak.sim.history_checker.json_lines import from_line, to_line


class Told:
    """A transcript: each line happens a second after the one before."""

    def __init__(self):
        self.events: list[Event] = []

    @property
    def now(self):
        return float(len(self.events))

    def given(self, member, *partitions):
        self.events.append(Assign(member, self.now, {name_of(each): None for each in partitions}, (), "g"))

    def taken(self, member, *partitions):
        self.events.append(Assign(member, self.now, {}, tuple(map(name_of, partitions)), "g"))

    def read(self, member, partition, *offsets):
        for offset in offsets:
            found = run(name_of(partition), [(offset, content_of(partition, offset))])
            self.events.append(Poll(member, self.now, self.now, (found,)))

    def committed(self, member, partition, offset):
        self.events.append(Commit(member, "g", self.now - 0.5, self.now, Outcome.OK, {name_of(partition): offset}))

    def view(self):
        return GroupView.of(self.events)

    def counts(self, acknowledged, partitions=1):
        """The counts when these records, by place, were acknowledged to the producer."""
        history = History()
        for (partition, offset), content in sorted(acknowledged.items()):
            history.add(Send("w", name_of(partition), content, 0.0, 0.0, Outcome.OK, offset))
        rows = partition_counts(history, self.events, [name_of(each) for each in range(partitions)])
        return [SimpleNamespace(holds=row["ok"], **row) for row in rows]


def name_of(partition):
    return f"t-{partition}"


def content_of(partition, offset):
    return partition * 1000 + offset


def stored(*places):
    return {place: content_of(*place) for place in places}


def all_of(partition, end):
    return stored(*((partition, offset) for offset in range(end)))


@pytest.mark.parametrize(
    "event",
    [
        Assign("m", 1.5, {"t-0": None, "t-3": None}, (), "g"),
        Assign("m", 1.5, {}, ("t-2",), "g"),
        Commit("m", "g", 1.5, 2.5, Outcome.OK, {"t-0": 4, "t-3": 9}),
        Commit("m", "g", 1.5, 2.5, Outcome.INFO, {"t-0": 4}),
        Poll("m", 1.0, 1.5, (run("t-2", [(17, 99)]),)),
    ],
)
def test_event_of_a_member_is_read_back_as_it_was(event):
    assert from_line(to_line(event) + "\n") == event


@pytest.mark.parametrize(
    "line", ["", "\n", '["poll","m",1', "[1]", "7", '["sung"]', '["poll","m"]', '{"at":1,"pid":2}', "null"]
)
def test_line_that_is_no_event_is_none(line):
    assert from_line(line) is None


def test_a_partition_handed_over_at_its_last_commit_is_read_once():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 3)
    told.taken("a", 0)
    told.given("b", 0)
    told.read("b", 0, 3, 4)
    (found,) = told.counts(all_of(0, 5))
    assert found.holds
    assert (found.readers, found.acknowledged, found.read) == (("a", "b"), 5, 5)
    assert (found.lost, found.twice_committed, found.twice_uncommitted, found.unconfirmed) == (0, 0, 0, 0)


def test_records_uncommitted_when_the_reader_died_may_be_read_again_and_are_counted():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("a", 0, 2)
    told.read("a", 0, 2, 3)
    told.given("b", 0)
    told.read("b", 0, 2, 3, 4)
    (found,) = told.counts(all_of(0, 5))
    assert found.holds
    assert (found.twice_committed, found.twice_uncommitted) == (0, 2)


def test_records_committed_before_the_handover_must_not_be_read_again():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 2)
    told.given("b", 0)
    told.read("b", 0, 1, 2)
    (found,) = told.counts(all_of(0, 3))
    assert not found.holds
    assert (found.twice_committed, found.twice_uncommitted) == (1, 1)


def test_commit_reported_by_the_coordinator_counts_though_no_member_was_notified():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("the coordinator", 0, 2)
    told.given("b", 0)
    told.read("b", 0, 1)
    assert told.counts(all_of(0, 2))[0].twice_committed == 1


def test_a_commit_that_was_acknowledged_after_the_hand_over_does_not_bind_it():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.given("b", 0)
    told.committed("a", 0, 1)
    told.read("b", 0, 0)
    (found,) = told.counts(all_of(0, 1))
    assert (found.holds, found.twice_uncommitted) == (True, 1)


def test_a_member_that_goes_back_behind_its_own_commit_breaks_the_promise():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("a", 0, 2)
    told.read("a", 0, 1)
    assert told.counts(all_of(0, 2))[0].twice_committed == 1


def test_member_events_are_received_in_any_order_and_counted_by_time():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.committed("a", 0, 1)
    told.given("b", 0)
    told.read("b", 0, 0)
    shuffled = told.events[:]
    random.Random(7).shuffle(shuffled)
    assert shuffled != told.events
    assert GroupView.of(shuffled).twice_committed[0] == 1


def test_record_that_no_member_read_or_that_has_another_content_is_lost():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 2)
    (found,) = told.counts(all_of(0, 3) | {(0, 2): 9999})
    assert (found.read, found.lost, found.holds) == (2, 2, False)


def test_record_that_was_never_acknowledged_may_be_read_and_is_unconfirmed():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    (found,) = told.counts(all_of(0, 1))
    assert (found.holds, found.unconfirmed) == (True, 1)


def test_group_view_reports_the_reader_of_each_partition_and_whether_shares_are_even():
    told = Told()
    told.given("a", 0, 1, 2)
    view = told.view()
    assert not view.is_shared_evenly(("a", "b"), 4)
    told.taken("a", 2)
    told.given("b", 2)
    assert not told.view().is_shared_evenly(("a", "b"), 4)  # nobody has 3
    told.given("b", 3)
    view = told.view()
    assert view.is_shared_evenly(("a", "b"), 4)
    assert not view.is_shared_evenly(("a", "b", "c"), 4)
    assert [[hold.partition for hold in view.holds_of(name)] for name in "ab"] == [[0, 1], [2, 3]]
    view.note(Assign("c", 9.0, {"t-3": None}, (), "g"))
    assert not view.is_shared_evenly(("a", "b"), 4)  # 3 has two readers


def test_dead_member_leaves_its_partitions_with_its_read_and_committed_positions():
    told = Told()
    told.given("a", 1, 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 1)
    view = told.view()
    assert [hold.uncommitted for hold in view.holds_of("a")] == [2, 0]
    dead = view.note_dead("a")
    assert [(hold.partition, hold.first_offset, hold.read_to, hold.floor) for hold in dead] == [
        (0, 0, 3, 1),
        (1, None, None, 0),
    ]
    assert view.holds_of("a") == ()


def test_next_commit_is_one_that_was_requested_after_the_kill():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.committed("a", 0, 1)
    asked_at = told.now - 1.5
    told.read("a", 0, 1)
    told.committed("a", 0, 2)
    view = told.view()
    assert view.first_commit_after(asked_at, "a") == 4.0
    assert view.first_commit_after(asked_at, "b") is None
    assert view.first_commit_after(9.0, "a") is None


def test_partitions_that_changed_hands_are_those_assigned_since():
    told = Told()
    told.given("a", 0, 1)
    told.given("b", 1)
    assert [(hold.member, hold.partition) for hold in told.view().assigned_since(0.5)] == [("b", 1)]


STEPS = st.lists(st.tuples(st.sampled_from(("read", "commit", "die", "hand over")), st.integers(1, 4)), max_size=40)


def run_group(steps, begin_at):
    """One partition through any number of readers; `begin_at(committed)` is where the next one begins."""
    told, position, committed, again, seen, reader = Told(), 0, 0, 0, 0, 0
    told.given("m0", 0)
    for what, count in steps:
        if what == "read":
            told.read(f"m{reader}", 0, *range(position, position + count))
            again += max(0, min(position + count, seen) - position)
            position += count
            seen = max(seen, position)
        elif what == "commit":
            committed = max(committed, position)
            told.committed(f"m{reader}", 0, committed)
        else:
            if what == "hand over":
                committed = max(committed, position)
                told.committed(f"m{reader}", 0, committed)
                told.taken(f"m{reader}", 0)
            reader += 1
            told.given(f"m{reader}", 0)
            position = begin_at(committed)
    return told, seen, committed, again


@given(STEPS)
def test_a_group_that_keeps_its_promise_is_found_to(steps):
    told, seen, _, again = run_group(steps, lambda committed: committed)
    (found,) = told.counts(all_of(0, seen))
    assert found.holds
    assert (found.read, found.twice_committed, found.twice_uncommitted) == (seen, 0, again)


@given(STEPS)
def test_a_reader_that_begins_before_the_last_commit_is_caught(steps):
    told, seen, committed, _ = run_group([*steps, ("read", 2), ("hand over", 1)], lambda committed: committed - 1)
    told.read(told.events[-1].process, 0, committed - 1)
    (found,) = told.counts(all_of(0, seen))
    assert not found.holds


@given(STEPS)
def test_a_reader_that_begins_after_the_last_commit_loses_what_is_between(steps):
    told, seen, committed, _ = run_group([*steps, ("commit", 1), ("die", 1)], lambda committed: committed + 1)
    told.read(told.events[-1].process, 0, committed + 1)
    (found,) = told.counts(all_of(0, max(seen, committed + 2)))
    read = told.view().read[0]
    assert found.lost == len(set(range(max(seen, committed + 2))) - read)
    assert found.holds is (found.lost == 0)


def test_a_partition_goes_to_the_first_that_read_it():
    dead = (Ownership("a", 0, 1.0, 0, first_offset=0, read_to=9), Ownership("a", 1, 1.0, 4))
    later = (
        Ownership("b", 0, 5.0, 7),
        Ownership("c", 0, 6.0, 7, first_offset=7),
        Ownership("c", 1, 5.0, 4, first_offset=4),
    )
    first, second = handovers(dead, later, {0: 7, 1: 4})
    assert first == {
        "partition": 0, "committed": 7, "read_to": 9, "taken_by": "c", "began_at": 7, "read_again": 2, "ok": True,
    }  # fmt: skip
    assert (second["read_to"], second["read_again"], second["ok"]) == (4, 0, True)
    assert [each["ok"] for each in handovers(dead, later, {0: 6, 1: 5})] == [False, False]
