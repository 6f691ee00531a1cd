"""The groups demo's count: what may be read twice and what may not, and every way in which a record can be lost."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.local.demo.group_events import Began, Committed, Event, Given, NotCommitted, Read, Taken, from_line, to_line
from yak.local.demo.group_ledger import GroupLedger, Place, totals


class Told:
    """A transcript: each line happens a second after the one before."""

    def __init__(self):
        self.events: list[tuple[str, Event]] = []

    @property
    def now(self):
        return float(len(self.events))

    def given(self, member, *partitions):
        self.events.append((member, Given(self.now, partitions)))

    def taken(self, member, *partitions):
        self.events.append((member, Taken(self.now, partitions)))

    def read(self, member, partition, *offsets):
        for offset in offsets:
            self.events.append((member, Read(self.now, partition, offset, checksum_of(partition, offset))))

    def committed(self, member, partition, offset):
        self.events.append((member, Committed(self.now, self.now - 0.5, ((partition, offset),))))

    def ledger(self):
        return GroupLedger.of(self.events)


def checksum_of(partition, offset):
    return partition * 1000 + offset


def stored(*places):
    return {Place(*place): checksum_of(*place) for place in places}


def all_of(partition, end):
    return stored(*((partition, offset) for offset in range(end)))


@pytest.mark.parametrize(
    "event",
    [
        Began(1.5, 41),
        Given(1.5, (0, 3)),
        Given(1.5, ()),
        Taken(1.5, (2,), False),
        Read(1.5, 2, 17, 99),
        Committed(2.5, 1.5, ((0, 4), (3, 9))),
        NotCommitted(1.5, "no coordinator"),
    ],
)
def test_what_a_member_tells_is_read_back_as_it_was(event):
    assert from_line(to_line(event) + "\n") == event


@pytest.mark.parametrize(
    "line",
    ["", "\n", '{"event":"rea', "[1]", "7", '{"event":"sung"}', '{"event":"began","at":1}', '{"at":1,"pid":2}', "null"],
)
def test_a_line_that_is_no_event_is_none(line):
    assert from_line(line) is None


def test_a_partition_handed_over_at_its_last_commit_is_read_once():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 3)
    told.taken("a", 0)
    told.given("b", 0)
    told.read("b", 0, 3, 4)
    (verdict,) = told.ledger().verdicts(all_of(0, 5), 1)
    assert verdict.holds
    assert (verdict.readers, verdict.acknowledged, verdict.read) == (("a", "b"), 5, 5)
    assert (verdict.lost, verdict.twice_committed, verdict.twice_uncommitted, verdict.unconfirmed) == (0, 0, 0, 0)


def test_what_was_not_committed_when_its_reader_died_may_be_read_again_and_is_counted():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("a", 0, 2)
    told.read("a", 0, 2, 3)
    told.given("b", 0)
    told.read("b", 0, 2, 3, 4)
    (verdict,) = told.ledger().verdicts(all_of(0, 5), 1)
    assert verdict.holds
    assert (verdict.twice_committed, verdict.twice_uncommitted) == (0, 2)


def test_what_was_committed_before_the_hand_over_must_not_be_read_again():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 2)
    told.given("b", 0)
    told.read("b", 0, 1, 2)
    (verdict,) = told.ledger().verdicts(all_of(0, 3), 1)
    assert not verdict.holds
    assert (verdict.twice_committed, verdict.twice_uncommitted) == (1, 1)


def test_what_the_coordinator_says_is_committed_counts_though_no_member_was_told():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("the coordinator", 0, 2)
    told.given("b", 0)
    told.read("b", 0, 1)
    assert told.ledger().verdicts(all_of(0, 2), 1)[0].twice_committed == 1


def test_a_commit_that_was_acknowledged_after_the_hand_over_does_not_bind_it():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.given("b", 0)
    told.committed("a", 0, 1)
    told.read("b", 0, 0)
    (verdict,) = told.ledger().verdicts(all_of(0, 1), 1)
    assert (verdict.holds, verdict.twice_uncommitted) == (True, 1)


def test_a_member_that_goes_back_behind_its_own_commit_breaks_the_promise():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    told.committed("a", 0, 2)
    told.read("a", 0, 1)
    assert told.ledger().verdicts(all_of(0, 2), 1)[0].twice_committed == 1


def test_members_are_heard_in_any_order_and_counted_by_time():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.committed("a", 0, 1)
    told.given("b", 0)
    told.read("b", 0, 0)
    shuffled = told.events[:]
    random.Random(7).shuffle(shuffled)
    assert shuffled != told.events
    assert GroupLedger.of(shuffled).verdicts(all_of(0, 1), 1)[0].twice_committed == 1


def test_a_record_that_nobody_read_or_that_has_another_content_is_lost():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 2)
    changed = all_of(0, 3) | {Place(0, 2): -1}
    ledger = told.ledger()
    assert ledger.missing(changed) == 1
    (verdict,) = ledger.verdicts(changed, 1)
    assert (verdict.read, verdict.lost, verdict.holds) == (2, 2, False)


def test_a_record_that_was_never_acknowledged_may_be_read_and_is_shown():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0, 1)
    (verdict,) = told.ledger().verdicts(all_of(0, 1), 1)
    assert (verdict.holds, verdict.unconfirmed) == (True, 1)


def test_who_reads_what_and_whether_it_is_shared_evenly():
    told = Told()
    told.given("a", 0, 1, 2)
    ledger = told.ledger()
    assert not ledger.is_shared_evenly(("a", "b"), 4)
    told.taken("a", 2)
    told.given("b", 2)
    assert not told.ledger().is_shared_evenly(("a", "b"), 4)  # nobody has 3
    told.given("b", 3)
    ledger = told.ledger()
    assert ledger.is_shared_evenly(("a", "b"), 4)
    assert not ledger.is_shared_evenly(("a", "b", "c"), 4)
    assert (ledger.partitions_of("a"), ledger.partitions_of("b")) == ((0, 1), (2, 3))
    ledger.note("c", Given(9.0, (3,)))
    assert not ledger.is_shared_evenly(("a", "b"), 4)  # 3 has two readers


def test_the_dead_member_leaves_what_it_had_with_how_far_it_was():
    told = Told()
    told.given("a", 1, 0)
    told.read("a", 0, 0, 1, 2)
    told.committed("a", 0, 1)
    ledger = told.ledger()
    assert [hold.uncommitted for hold in ledger.holds_of("a")] == [2, 0]
    dead = ledger.note_dead("a")
    assert [(hold.partition, hold.first_offset, hold.read_to, hold.settled) for hold in dead] == [
        (0, 0, 3, 1),
        (1, None, None, 0),
    ]
    assert ledger.holds_of("a") == ()


def test_the_next_commit_is_one_that_was_asked_for_after_the_kill():
    told = Told()
    told.given("a", 0)
    told.read("a", 0, 0)
    told.committed("a", 0, 1)
    asked_at = told.now - 1.5
    told.read("a", 0, 1)
    told.committed("a", 0, 2)
    ledger = told.ledger()
    assert ledger.first_commit_after(asked_at, "a") == 4.0
    assert ledger.first_commit_after(asked_at, "b") is None
    assert ledger.first_commit_after(9.0, "a") is None


def test_partitions_that_changed_hands_are_those_given_since():
    told = Told()
    told.given("a", 0, 1)
    told.given("b", 1)
    assert [(hold.member, hold.partition) for hold in told.ledger().given_since(0.5)] == [("b", 1)]


def test_totals_add_up():
    told = Told()
    told.given("a", 0, 1)
    told.read("a", 0, 0)
    verdicts = told.ledger().verdicts(stored((0, 0), (1, 0)), 2)
    assert totals(verdicts) == {
        "acknowledged": 2,
        "read": 1,
        "lost": 1,
        "twice_committed": 0,
        "twice_uncommitted": 0,
        "unconfirmed": 0,
    }


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
    (verdict,) = told.ledger().verdicts(all_of(0, seen), 1)
    assert verdict.holds
    assert (verdict.read, verdict.twice_committed, verdict.twice_uncommitted) == (seen, 0, again)


@given(STEPS)
def test_a_reader_that_begins_before_the_last_commit_is_caught(steps):
    told, seen, committed, _ = run_group([*steps, ("read", 2), ("hand over", 1)], lambda committed: committed - 1)
    told.read(told.events[-1][0], 0, committed - 1)
    (verdict,) = told.ledger().verdicts(all_of(0, seen), 1)
    assert not verdict.holds


@given(STEPS)
def test_a_reader_that_begins_after_the_last_commit_loses_what_is_between(steps):
    told, seen, committed, _ = run_group([*steps, ("commit", 1), ("die", 1)], lambda committed: committed + 1)
    told.read(told.events[-1][0], 0, committed + 1)
    (verdict,) = told.ledger().verdicts(all_of(0, max(seen, committed + 2)), 1)
    read = {event.offset for _, event in told.events if isinstance(event, Read)}
    assert verdict.lost == len(set(range(max(seen, committed + 2))) - read)
    assert verdict.holds is (verdict.lost == 0)
