"""Time-outs against a plain model, and that finished waits leave at once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from yak.broker.call import DelayedOperation
from yak.broker.purgatory import QUEUES_MAX, Timeouts
from yak.config.log_config import NEVER


def waiting(timeout_ms: int) -> DelayedOperation:
    return DelayedOperation(call=None, timeout_ms=timeout_ms)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "expire"]), st.integers(0, 50)), max_size=60))
def test_time_outs_expire_in_order_and_never_early(steps):
    timeouts, model, now_ms = Timeouts(), {}, 0
    for step, number in steps:
        if step == "add":
            added = waiting(number)
            timeouts.add(added, now_ms)
            model[added] = now_ms + number
        elif step == "remove" and model:
            gone = list(model)[number % len(model)]
            timeouts.remove(gone)
            del model[gone]
        elif step == "expire":
            now_ms += number
            expired = timeouts.take_expired(now_ms)
            assert set(expired) == {held for held, due in model.items() if due <= now_ms}
            assert [model[held] for held in expired] == sorted(model[held] for held in expired)
            for held in expired:
                del model[held]
        assert len(timeouts) == len(model)
        assert timeouts.next_due() == min(model.values(), default=NEVER)


def test_many_different_time_outs_share_few_queues_and_wait_at_most_an_eighth_longer():
    timeouts = Timeouts()
    held = [waiting(1_000 + index) for index in range(2_000)]
    for one in held:
        asked = one.timeout_ms
        timeouts.add(one, 0)
        assert asked <= one.timeout_ms <= asked * 1.125 + 1
    assert len(timeouts._queues) < QUEUES_MAX + 32
    assert len(timeouts.take_expired(10_000)) == len(held)


def test_removing_twice_or_what_was_never_there_does_nothing():
    timeouts, one = Timeouts(), waiting(5)
    timeouts.remove(one)
    timeouts.add(one, 0)
    timeouts.remove(one)
    timeouts.remove(one)
    assert len(timeouts) == 0
