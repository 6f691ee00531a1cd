"""Kafka first: how HTTP's share of the loop moves, and how it is enforced."""

import selectors
import socket

import pytest
import trio
import trio.testing

from yak.server.http.fair_share import SHARE_MIN, FairShare, next_share
from yak.server.io_wait import Ready, SelectorWait
from yak.server.shell import Counters


@pytest.mark.parametrize(
    ("share", "idle", "kafka", "expected"),
    [
        (1.0, 0.0, 0.0, 1.0),  # HTTP alone takes all
        (0.4, 0.0, 0.01, 0.5),  # Kafka has next to no part in it
        (1.0, 0.0, 0.4, 0.5),  # nobody is idle, and Kafka is there
        (0.06, 0.0, 0.9, SHARE_MIN),
        (SHARE_MIN, 0.0, 0.9, SHARE_MIN),
        (0.2, 0.2, 0.5, 0.2),  # enough idle time, and not more
        (0.2, 0.5, 0.5, 0.25),
        (0.9, 0.5, 0.5, 1.0),
    ],
)
def test_the_share_shrinks_while_kafka_lacks_time_and_grows_when_there_is_some(share, idle, kafka, expected):
    assert next_share(share, idle=idle, kafka=kafka) == pytest.approx(expected)


class Clock:
    def __init__(self) -> None:
        self.ns = 1_000_000_000

    def __call__(self) -> int:
        return self.ns


def limited(clock: Clock, counters: Counters) -> FairShare:
    """A share at its least, with no credit left."""
    share = FairShare(counters, clock)
    share._window_start = share._now()
    share._paid_at_ns = clock.ns
    for _ in range(10):
        clock.ns += 20_000_000
        counters.busy_ns += 19_000_000
        share.wait_s()
    assert share.share == SHARE_MIN
    share.spent(2_000_000)
    share.wait_s()
    return share


def test_http_work_that_spent_more_than_the_share_waits_until_the_share_is_earned():
    clock, counters = Clock(), Counters()
    share = limited(clock, counters)
    share.spent(1_000_000)
    assert share.wait_s() == pytest.approx(0.001 / SHARE_MIN)
    clock.ns += 10_000_000
    counters.busy_ns += 10_000_000
    assert share.wait_s() == pytest.approx(0.001 / SHARE_MIN - 0.01)
    clock.ns += 10_000_000
    counters.busy_ns += 10_000_000
    assert share.wait_s() == 0


def test_saved_up_http_share_is_bounded():
    clock, counters = Clock(), Counters()
    share = limited(clock, counters)
    for _ in range(100):
        clock.ns += 20_000_000
        counters.busy_ns += 20_000_000
        assert share.wait_s() == 0
    share.spent(2_100_000)
    assert share.wait_s() > 0


def test_without_kafka_the_limit_is_lifted():
    clock, counters = Clock(), Counters()
    share = limited(clock, counters)
    share.spent(50_000_000)
    for _ in range(20):
        clock.ns += 20_000_000
        share.wait_s()
    assert (share.share, share.wait_s()) == (1.0, 0.0)


async def test_a_long_wait_ends_early_when_the_loop_has_idle_time(autojump_clock):
    # A step that another process interrupted counts as long: at the least share, 200 ms are a wait of 4 s.
    share = FairShare(Counters(), lambda: int(trio.current_time() * 1e9))
    share._window_start, share._paid_at_ns = share._now(), share._now_ns()
    share.share = SHARE_MIN
    share._counters.busy_ns += 10_000_000
    share.spent(202_000_000)
    began = trio.current_time()
    await share.turn()
    assert trio.current_time() - began < 1.0


async def test_the_steps_of_a_task_are_counted_and_its_waiting_is_not():
    share = FairShare(Counters())

    async def work() -> str:
        end = trio.current_time() + 0.02
        while trio.current_time() < end:
            pass
        await trio.sleep(0.2)
        return "done"

    share.enter()
    assert await share.timed(work()) == "done"
    share.leave()
    assert 0.02e9 <= share._spent_ns < 0.15e9


def test_requests_served_during_a_wait_are_not_counted_as_idle_time():
    counters = Counters()
    share = FairShare(counters)
    idle = share._idle

    async def main() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, selectors.DefaultSelector() as selector:
            selector.register(ours, selectors.EVENT_READ)
            theirs.send(b"stays")

            def serve(_ready: Ready) -> None:
                counters.served_ns += 1_000_000_000

            async with trio.open_nursery() as nursery:
                nursery.start_soon(SelectorWait(selector, serve, lambda: False).run)
                await trio.testing.wait_all_tasks_blocked()
                counters.served_ns = 0
                share.enter()
                await trio.sleep(0.01)
                share.leave()
                nursery.cancel_scope.cancel()

    trio.run(main)
    assert idle.total_ns < -counters.served_ns / 2 < 0  # each pass says that it took a second


async def test_fair_share_passes_exceptions_and_cancellation_through():
    share = FairShare(Counters())

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("mine")

    async def wait() -> None:
        await trio.sleep_forever()

    with pytest.raises(ValueError, match="mine"):
        await share.timed(fail())
    with trio.move_on_after(0.01) as scope:
        await share.timed(wait())
    assert scope.cancelled_caught
