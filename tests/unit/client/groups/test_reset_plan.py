"""Where a reset moves offsets to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.groups.reset import NO_LEADER, NOTHING_COMMITTED, Step, Target, plan_reset
from yak.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
LOG = {ORDERS: (10, 50)}


def step(target, before=20, at_time=-1):
    committed = {} if before is None else {ORDERS: before}
    (found,) = plan_reset(target, [ORDERS], committed, LOG, {ORDERS: at_time})
    return found


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (Target("earliest"), 10),
        (Target("latest"), 50),
        (Target("offset", 33), 33),
        (Target("offset", 50), 50),
        (Target("shift", 5), 25),
        (Target("shift", -10), 10),
        (Target("current"), 20),
    ],
)
def test_a_target_inside_the_log_is_taken_as_it_is(target, after):
    assert step(target) == Step(ORDERS, 20, after, "")


@pytest.mark.parametrize(
    ("target", "before", "after", "note"),
    [
        (Target("offset", 9), 20, 10, "9 is before the log, which starts at 10"),
        (Target("offset", 51), 20, 50, "51 is after the log, which ends at 50"),
        (Target("shift", -11), 20, 10, "9 is before the log, which starts at 10"),
        (Target("shift", 100), 20, 50, "120 is after the log, which ends at 50"),
        (Target("current"), 3, 10, "3 is before the log, which starts at 10"),
        (Target("current"), 99, 50, "99 is after the log, which ends at 50"),
    ],
)
def test_a_target_outside_the_log_becomes_the_nearest_inside_and_says_so(target, before, after, note):
    assert step(target, before) == Step(ORDERS, before, after, note)


def test_a_time_is_the_first_record_from_then_on_or_the_end():
    assert step(Target("timestamp", 1), at_time=31) == Step(ORDERS, 20, 31, "")
    assert step(Target("timestamp", 1)) == Step(ORDERS, 20, 50, "no record is that young: the end")


def test_shift_without_a_committed_offset_has_no_target():
    assert step(Target("shift", 1), before=None) == Step(ORDERS, None, None, NOTHING_COMMITTED)
    assert not step(Target("shift", 1), before=None).is_change
    assert step(Target("current"), before=None).after == 50


def test_a_partition_without_leader_is_left_alone():
    (found,) = plan_reset(Target("earliest"), [OTHER], {OTHER: 4}, LOG, {})
    assert found == Step(OTHER, 4, None, NO_LEADER)
    assert not found.is_change


def test_reset_to_the_committed_offset_is_no_change():
    assert not step(Target("offset", 20)).is_change
    assert step(Target("offset", 21)).is_change


OFFSETS = st.integers(-(2**40), 2**40)


@given(
    st.sampled_from(["earliest", "latest", "offset", "timestamp", "shift", "current"]),
    OFFSETS,
    st.none() | st.integers(0, 2**40),
    st.integers(0, 2**30),
    st.integers(0, 2**30),
    st.integers(-1, 2**31),
)
def test_no_plan_leaves_the_log(kind, number, before, start, length, at_time):
    marks = {ORDERS: (start, start + length)}
    committed = {} if before is None else {ORDERS: before}
    (found,) = plan_reset(Target(kind, number), [ORDERS], committed, marks, {ORDERS: at_time})
    assert found.before == before
    if found.after is None:
        assert (kind, before) == ("shift", None)
    else:
        assert start <= found.after <= start + length


def test_a_file_moves_what_it_names_and_leaves_the_rest():
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    steps = plan_reset(Target("file", offsets={one: 4}), [one, two], {one: 9, two: 9}, {one: (0, 10), two: (0, 10)}, {})
    assert [(each.after, each.note) for each in steps] == [(4, ""), (None, "the file does not name it")]
