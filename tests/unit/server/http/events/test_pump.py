"""The pump: each listener gets the wanted events once, in order; it ends without listeners; many get fewer rounds."""

import json
import time
import uuid
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest.mock import Mock, patch

import trio

from yak.broker.counters import Counters as CoreCounters
from yak.cluster.image import Delta, Image
from yak.core.events import Notice
from yak.server.http.events.listeners import EventFilter, EventRing, Listener, Subscription
from yak.server.http.events.pump import (
    KEEP_ALIVE_SECONDS,
    NOTES_MAX,
    NOTES_WITHOUT_LISTENERS_MAX,
    PendingEvents,
    Pump,
    Rates,
)
from yak.server.http.fair_share import FairShare
from yak.server.shell import Counters

QUIET = Subscription(EventFilter(frozenset(["group"])), None, has_progress=False)
OTHERS = Subscription(EventFilter(frozenset(["leader"])), None, has_progress=False)
EVERYTHING = Subscription(EventFilter(), None, has_progress=False)
WALL_MS = 7_200_000
"""How far the wall clock is ahead of the steady one."""


class Ear:
    """What one listener got."""

    def __init__(self):
        self.raw = b""
        self.sends = 0

    def send(self, data):
        self.raw += bytes(data)
        self.sends += 1
        return len(data)

    def groups(self):
        return [json.loads(line[6:])["group"] for line in self.raw.split(b"\n") if line.startswith(b"data: ")]


@asynccontextmanager
async def pumping():
    """A pump on a clock that jumps, on which a round takes no time."""

    def now_ms():
        return round(trio.current_time() * 1000)

    with patch("yak.server.http.events.pump.time", Mock(wraps=time, perf_counter=trio.current_time)):
        async with trio.open_nursery() as nursery:
            clock = SimpleNamespace(now_ms=now_ms, wall_ms=lambda: WALL_MS + now_ms())
            shell = SimpleNamespace(clock=clock, nursery=nursery, counters=Counters())
            broker = SimpleNamespace(now_ms=0, wall_ms=WALL_MS, node_id=1, partitions={}, metadata_in_quorum=False)
            pump = Pump(shell, broker, EventRing("1-abc", 100), FairShare(shell.counters))
            yield pump
            nursery.cancel_scope.cancel()
            assert shell.counters.bugs == 0


def happen(pump, group):
    pump.gathering.note_notice(Notice("info", "group-empty", {"group": group, "generation": 1}))


def join(pump, subscription=QUIET, position=None):
    ear = Ear()
    listener = Listener(ear.send, pump.ring.next if position is None else position)
    pump.join(subscription, listener)
    return ear, listener


async def test_events_and_gaps_carry_the_time_of_the_wall_clock(autojump_clock):
    async with pumping() as pump:
        ear, _ = join(pump)
        pump.ring.lose()
        happen(pump, "a")
        await trio.sleep(1)
        lines = ear.raw.split(b"\n")
        assert [line for line in lines if line.startswith(b"event: ")] == [b"event: gap", b"event: group-empty"]
        assert min(json.loads(line[6:])["time_ms"] for line in lines if line.startswith(b"data: {")) >= WALL_MS


async def test_listener_receives_each_event_of_its_filter_once_and_in_order(autojump_clock):
    async with pumping() as pump:
        (one, _), (two, _), (other, _) = join(pump), join(pump), join(pump, OTHERS)
        for group in ("a", "b"):
            happen(pump, group)
        await trio.sleep(1)
        happen(pump, "c")
        await trio.sleep(1)
        assert one.groups() == two.groups() == ["a", "b", "c"]
        assert one.raw == two.raw
        assert other.groups() == []


async def test_the_first_goes_at_once_and_what_follows_goes_together(autojump_clock):
    async with pumping() as pump:
        ear, _ = join(pump)
        await trio.sleep(1)
        happen(pump, "first")
        await trio.sleep(0.01)
        assert ear.groups() == ["first"]
        for number in range(5):
            happen(pump, f"g{number}")
            await trio.sleep(0.01)
        assert ear.groups() == ["first"]
        await trio.sleep(0.1)
        assert len(ear.groups()) == 6
        assert ear.sends == 2


async def test_listener_that_joins_later_receives_the_events_after_its_position(autojump_clock):
    async with pumping() as pump:
        one, _ = join(pump)
        happen(pump, "a")
        happen(pump, "b")
        await trio.sleep(1)
        late, _ = join(pump, position=2)
        ahead, _ = join(pump, position=pump.ring.next)
        happen(pump, "c")
        await trio.sleep(1)
        assert one.groups() == ["a", "b", "c"]
        assert late.groups() == ["b", "c"]
        assert ahead.groups() == ["c"]


async def test_pump_stops_without_listeners_and_starts_again(autojump_clock):
    async with pumping() as pump:
        for _ in range(2):
            ear, listener = join(pump)
            await trio.sleep(1)
            pump.leave(QUIET, listener)
            await trio.sleep(1)
            assert not pump._is_running
            happen(pump, "unheard")
        ear, _ = join(pump, position=1)
        await trio.sleep(1)
        assert ear.groups() == ["unheard", "unheard"]


async def test_rates_of_several_intervals_are_computed_with_pauses_between_them(autojump_clock, monkeypatch):
    times, since_last = [], Rates.since_last
    monkeypatch.setattr(Rates, "since_last", lambda *given: times.append(trio.current_time()) or since_last(*given))
    async with pumping() as pump:
        pump._broker.counters = CoreCounters()
        pump._process = SimpleNamespace(figures=dict)
        intervals = (100, 200, 400)
        ears = [join(pump, Subscription(EventFilter(), each, has_progress=False))[0] for each in intervals]
        await trio.sleep(2)
    assert all(b"event: rates" in each.raw for each in ears)
    assert len(set(times)) == len(times)


async def test_quiet_listener_gets_comments_while_others_are_busy(autojump_clock):
    async with pumping() as pump:
        ear, _ = join(pump, OTHERS)
        join(pump)
        for _ in range(round(KEEP_ALIVE_SECONDS * 2.5)):
            happen(pump, "busy")
            await trio.sleep(1)
        assert ear.raw.count(b": still here") == 2


async def test_listener_that_joins_during_a_round_receives_no_event_twice(autojump_clock):
    """It joins after the events that it missed were sent to it, which may be newer than those of the round."""
    async with pumping() as pump:
        joined = [join(pump)[0] for _ in range(9)]
        join(pump, EVERYTHING)
        await trio.sleep(1)
        happen(pump, "a")
        while not joined[7].sends:  # the round pauses here
            await trio.lowlevel.checkpoint()
        happen(pump, "b")
        await pump.gathering.digest()
        late, _ = join(pump, EVERYTHING)
        await trio.sleep(1)
        happen(pump, "c")
        await trio.sleep(1)
        assert late.groups() == ["c"]


async def test_many_listeners_get_fewer_rounds(autojump_clock):
    async with pumping() as pump:
        ears = [join(pump)[0] for _ in range(300)]
        for number in range(100):
            happen(pump, f"g{number}")
            await trio.sleep(0.05)
        for _ in range(1_000):
            if all(len(ear.groups()) == 100 for ear in ears):
                break
            await trio.sleep(0.05)
        assert all(len(ear.groups()) == 100 for ear in ears)
        # five seconds at 1,000 sends a second
        assert 12 <= ears[0].sends <= 18


async def test_listener_that_leaves_during_a_round_is_sent_nothing_more(autojump_clock):
    async with pumping() as pump:
        joined = [join(pump) for _ in range(30)]
        await trio.sleep(1)
        happen(pump, "a")
        while not joined[0][0].sends:
            await trio.lowlevel.checkpoint()
        ear, listener = joined[-1]
        pump.leave(QUIET, listener)
        await trio.sleep(1)
        assert ear.sends == 0
        assert all(other.groups() == ["a"] for other, _ in joined[:-1])


def gathering_of(events_max=10_000):
    woken = []
    ring = EventRing("1-abc", events_max)
    broker = SimpleNamespace(now_ms=5, wall_ms=7_200_005, node_id=1, metadata_in_quorum=False)
    return ring, PendingEvents(broker, ring, lambda: woken.append(True)), woken


def controller(number):
    before = Image(controller_id=1, controller_epoch=number)
    return before, Image(controller_id=2, controller_epoch=number + 1), Delta(controller_changed=True)


def empty(group):
    return Notice("info", "group-empty", {"group": group, "generation": 1})


def all_of(ring):
    return ring.collect(ring.first, ring.next, EventFilter(), 1 << 30)[0].decode()


async def test_events_have_the_order_of_their_notes():
    ring, gathering, woken = gathering_of()
    gathering.has_listeners = True
    gathering.note_notice(empty("g1"))
    gathering.note_image(*controller(1))
    gathering.note_notice(Notice("info", "segments-removed", {"partition": "a-0"}))
    gathering.note_notice(empty("g2"))
    assert len(woken) == 3
    await gathering.digest()
    kinds = [line for line in all_of(ring).splitlines() if line.startswith("event: ")]
    assert kinds == ["event: group-empty", "event: controller-changed", "event: group-empty"]
    assert '"time_ms":7200005,"node_id":1,"message":"group g1 has no members"' in all_of(ring)


async def test_without_listeners_few_notes_are_buffered_and_the_loss_is_a_gap():
    ring, gathering, woken = gathering_of()
    gathering.has_listeners = True
    gathering.note_notice(empty("known"))
    await gathering.digest()
    gathering.has_listeners = False
    for number in range(NOTES_WITHOUT_LISTENERS_MAX):
        gathering.note_image(*controller(number))
    assert len(woken) == 1
    await gathering.digest()
    assert ring.after("1-abc:1") == 2, "nothing was lost yet"
    for number in range(NOTES_WITHOUT_LISTENERS_MAX + 1):
        gathering.note_image(*controller(number))
    cursor = ring.event_id(ring.next - 1)
    await gathering.digest()
    assert ring.after(cursor) is None
    assert ring.next - ring.first == NOTES_WITHOUT_LISTENERS_MAX


async def test_notes_are_bounded_with_listeners_too():
    ring, gathering, _woken = gathering_of()
    gathering.has_listeners = True
    for _ in range(NOTES_MAX + 10):
        gathering.note_notice(empty("g"))
    await gathering.digest()
    assert ring.next - ring.first == NOTES_MAX


async def test_listener_that_disconnects_while_events_are_made_takes_none_from_the_others():
    ring, gathering, _woken = gathering_of()
    gathering.has_listeners = True
    names = [f"t{number}" for number in range(1_000)]
    removed = Delta(topics_removed=tuple((name, uuid.uuid4()) for name in names))
    gathering.note_image(Image(), Image(), removed)
    async with trio.open_nursery() as connection:
        connection.start_soon(gathering.digest)
        while ring.next == ring.first:
            await trio.lowlevel.checkpoint()
        connection.cancel_scope.cancel()
    await gathering.digest()
    assert all_of(ring).count("event: topic-deleted") == len(names)


async def test_others_have_the_loop_while_many_events_are_made():
    _ring, gathering, _woken = gathering_of()
    gathering.has_listeners = True
    for _ in range(1000):
        gathering.note_notice(empty("g"))
    passes = []

    async def other(scope: trio.CancelScope) -> None:
        with scope:
            while True:
                passes.append(True)
                await trio.lowlevel.checkpoint()

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other, scope)
        await gathering.digest()
        scope.cancel()
    assert len(passes) > 10
