from hypothesis import given
from hypothesis import strategies as st

from yak.groups.consumer.deadlines import DeadlineAction, Deadlines

KEYS = st.tuples(st.sampled_from(DeadlineAction), st.sampled_from("abc"))
STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "once", "cancel", "forget", "look"]), KEYS, st.integers(0, 50)), max_size=60
)


@given(STEPS)
def test_the_heap_says_what_a_plain_dict_would_say(steps: list[tuple[str, tuple[DeadlineAction, str], int]]) -> None:
    deadlines, model = Deadlines(), dict[tuple[DeadlineAction, str], int]()
    for what, key, at_ms in steps:
        if what == "set":
            deadlines.set(*key, at_ms)
            model[key] = at_ms
        elif what == "once":
            deadlines.set_once(*key, at_ms)
            model.setdefault(key, at_ms)
        elif what == "cancel":
            deadlines.cancel(*key)
            model.pop(key, None)
        elif what == "forget":
            deadlines.forget(key[1])
            model = {known: at for known, at in model.items() if known[1] != key[1]}
        else:
            assert deadlines.next_ms() == min(model.values(), default=None)
            late = [(*known, 0) for known, at in model.items() if at <= at_ms]
            assert deadlines.over(at_ms) == sorted(late)
    assert deadlines.next_ms() == min(model.values(), default=None)


def test_a_deadline_that_moves_on_forever_takes_no_room() -> None:
    deadlines = Deadlines()
    for at_ms in range(10_000):
        deadlines.set(DeadlineAction.SESSION, "a", at_ms + 45_000)
        deadlines.set(DeadlineAction.REBALANCE, "a", at_ms + 10)
        deadlines.cancel(DeadlineAction.REBALANCE, "a")
        deadlines.next_ms()
    assert len(deadlines._heap) <= 3


def test_members_that_left_leave_no_deadline_behind_one_that_stays() -> None:
    """A classic member chooses the time for its SyncGroup, up to 24 days."""
    deadlines = Deadlines()
    deadlines.set(DeadlineAction.SESSION, "stays", 45_000)
    for number in range(1_000):
        deadlines.set(DeadlineAction.SYNC, f"m{number}", 2**31 + number)
        deadlines.forget(f"m{number}")
        assert deadlines.next_ms() == 45_000
    assert len(deadlines._heap) == len(deadlines._queued) < 100
