"""A channel to another broker, over fake connections."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.contexts import StubContext
from yak.core.broker_channel import (
    ANSWER_MS_MAX,
    RECONNECT_FIRST_MS,
    RECONNECT_LONGEST_MS,
    BrokerChannel,
    ChannelEvents,
)
from yak.core.timers import Timers

OTHER = 7
EVENTS = ChannelEvents("test-lost", "test-unanswered", "test-broken")


class FakePeers:
    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.closed: list[int] = []
        self.sent: list[bytes] = []
        self.suspected: list[int] = []
        self.rng = SimpleNamespace(below=lambda bound: 0)
        self.suspect = self.suspected.append

    def open(self, info: Any, owner: Any) -> int:
        self.opened.append(info)
        return len(self.opened)

    def send(self, peer_id: int, parts: list[bytes]) -> None:
        assert peer_id == len(self.opened)
        self.sent += parts

    def close(self, peer_id: int) -> None:
        self.closed.append(peer_id)


class Bench:
    """A channel, and its user: it sends the requests of `due`."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(now_ms=1_000)
        self.peers, self.timers = FakePeers(), Timers()
        self.notices: list[tuple[str, str]] = []
        self.image = SimpleNamespace(brokers={OTHER: SimpleNamespace(boot_id="first")})
        context: Any = StubContext(clock=self.clock, image=self.image, timers=self.timers, notice=self.notice)
        self.due: list[bytes] = []
        self.answers: list[bytes] = []
        self.disconnects = 0
        self.refusal = ""
        self.reopens = False
        self.channel = BrokerChannel(context, self.peers, OTHER, self, EVENTS)  # type: ignore[arg-type]

    def notice(self, level: str, event: str, **fields: Any) -> None:
        assert fields["leader"] == OTHER
        self.notices.append((level, event))

    def send_due(self) -> None:
        while self.due and self.channel.is_proven and len(self.channel.in_flight) < 2:
            self.channel.send(self.due.pop(0))

    def on_answer(self, frame: memoryview) -> None:
        if self.refusal:
            self.channel.give_up("test-refused", self.refusal)
            return
        self.answers.append(bytes(frame[4:]))
        self.send_due()

    def on_disconnected(self) -> None:
        self.disconnects += 1
        if self.reopens:
            self.channel.open()

    @property
    def peer_id(self) -> int:
        return len(self.peers.opened)

    def connect(self) -> None:
        self.channel.open()
        self.channel.on_connected(self.peer_id)
        self.channel.on_proven(self.peer_id)

    def answer(self, correlation_id: int, content: bytes = b"") -> None:
        self.channel.on_answer(self.peer_id, memoryview(struct.pack(">i", correlation_id) + content))

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.timers.run_due(self.clock.now_ms)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_broker_channel_sends_what_is_due_once_proven(bench):
    bench.due = [b"a", b"b", b"c"]
    bench.channel.open()
    bench.channel.open()
    assert bench.peer_id == 1
    bench.channel.on_connected(1)
    assert not bench.channel.is_proven
    bench.channel.on_proven(1)
    assert bench.peers.sent == [b"a", b"b"]
    bench.answer(1, b"A")
    assert (bench.answers, bench.peers.sent) == ([b"A"], [b"a", b"b", b"c"])


@pytest.mark.parametrize("frame", [b"", b"\0\0", struct.pack(">i", 2)])
def test_broker_channel_answer_out_of_order_ends_the_connection(bench, frame):
    bench.due = [b"a", b"b"]
    bench.connect()
    bench.channel.on_answer(1, memoryview(frame))
    assert (bench.answers, bench.peers.closed, bench.disconnects) == ([], [1], 1)
    assert bench.notices == [("debug", "test-broken")]
    assert not bench.channel.in_flight


def test_broker_channel_answer_without_a_request_ends_the_connection(bench):
    bench.connect()
    bench.answer(1)
    assert bench.peers.closed == [1]


def test_broker_channel_pauses_grow_until_an_answer_is_taken(bench):
    bench.channel.open()
    pauses, pause_ms = [], RECONNECT_FIRST_MS
    for _ in range(9):
        bench.channel.on_lost(bench.peer_id, "refused", "")
        bench.channel.open()
        assert not bench.channel.is_proven
        pauses.append(bench.timers.next_due() - bench.clock.now_ms)
        bench.pass_time(pauses[-1])
    assert pauses == [min(pause_ms << tries, RECONNECT_LONGEST_MS) for tries in range(9)]
    bench.due = [b"a"]
    bench.connect()
    bench.answer(1)
    bench.channel.on_lost(bench.peer_id, "closed", "")
    assert bench.timers.next_due() - bench.clock.now_ms == RECONNECT_FIRST_MS


def test_broker_channel_refused_answers_are_logged_as_warnings_when_they_continue_and_then_less_often(bench):
    bench.refusal = "not_leader"
    for correlation_id in range(1, 41):
        bench.due = [b"a"]
        bench.connect()
        bench.answer(correlation_id)
        bench.pass_time(RECONNECT_LONGEST_MS)
    assert {event for _level, event in bench.notices} == {"test-refused"}
    warned = [number for number, (level, _event) in enumerate(bench.notices, 1) if level == "warning"]
    assert warned == [4, 5, 6, 7, 8, 16, 32]
    assert {level for level, _event in bench.notices} == {"debug", "warning"}


def test_broker_channel_overdue_answer_ends_the_connection(bench):
    bench.connect()
    bench.pass_time(ANSWER_MS_MAX)
    assert bench.peers.closed == []
    bench.due = [b"a"]
    bench.send_due()
    bench.pass_time(ANSWER_MS_MAX)
    assert (bench.peers.closed, bench.notices) == ([1], [("debug", "test-unanswered")])
    bench.pass_time(RECONNECT_FIRST_MS)
    bench.channel.on_connected(2)
    bench.pass_time(ANSWER_MS_MAX)
    assert bench.peers.closed == [1, 2], "the proof was not answered"


def test_broker_channel_counts_overdue_answers_until_as_many_come_early(bench):
    for overdue in (1, 2):
        bench.due = [b"a"]
        bench.connect()
        assert len(bench.channel.in_flight) == 1
        bench.pass_time(ANSWER_MS_MAX)
        assert bench.channel.overdue == overdue
        bench.pass_time(RECONNECT_LONGEST_MS)
    bench.due = [b"a", b"a"]
    bench.connect()
    bench.due = [b"a"]
    for correlation_id, ms, overdue in [(3, ANSWER_MS_MAX // 4, 2), (4, ANSWER_MS_MAX // 4 - 1, 1), (5, 0, 0)]:
        bench.pass_time(ms)
        bench.answer(correlation_id)
        assert bench.channel.overdue == overdue


@pytest.mark.parametrize(
    ("how", "is_suspected"), [("reset", True), ("closed", True), ("refused", False), ("unreachable", False)]
)
def test_broker_channel_loss_suspects_a_broker_that_ended_the_connection(bench, how, is_suspected):
    bench.due = [b"a"]
    bench.connect()
    bench.channel.on_lost(1, how, "gone")
    assert bench.notices == [("info", "test-lost")]
    assert bench.peers.suspected == [OTHER] * is_suspected
    assert (bench.disconnects, list(bench.channel.in_flight)) == (1, [])


def test_broker_channel_loss_while_this_broker_stops_is_not_logged(bench):
    bench.connect()
    bench.channel._context.is_stopping = True
    bench.channel.on_lost(1, "closed", "gone")
    assert (bench.notices, bench.peers.suspected, bench.disconnects) == ([], [], 1)


def test_broker_channel_new_incarnation_of_the_other_broker_reconnects(bench):
    bench.connect()
    bench.channel.hurry()
    assert bench.peer_id == 1
    bench.image.brokers[OTHER] = SimpleNamespace(boot_id="second")
    bench.channel.hurry()
    assert (bench.peers.closed, bench.peer_id, bench.disconnects) == ([1], 2, 1)
    bench.channel.hurry()
    assert bench.peer_id == 2


def test_broker_channel_hurry_ends_a_pause(bench):
    broker = bench.image.brokers.pop(OTHER)
    bench.channel.open()
    assert bench.peer_id == 0
    bench.image.brokers[OTHER] = broker
    bench.channel.hurry()
    assert bench.peer_id == 1


def test_broker_channel_closed_by_its_user_stays_closed(bench):
    bench.connect()
    bench.channel.close()
    bench.pass_time(2 * ANSWER_MS_MAX)
    assert (bench.peers.closed, bench.peer_id, bench.disconnects, len(bench.timers)) == ([1], 1, 1, 0)


@pytest.mark.parametrize("end", ["loss", "bad answer", "new incarnation"])
def test_broker_channel_has_one_connection_when_its_user_sends_again_at_once(bench, end):
    """Simulator, 3 brokers, seed 2123: requests were sent over a second connection, which was not proven."""
    bench.reopens = True
    bench.connect()
    if end == "loss":
        bench.channel.on_lost(1, "reset", "gone")
    elif end == "bad answer":
        bench.answer(1)
    else:
        bench.image.brokers[OTHER] = SimpleNamespace(boot_id="second")
        bench.channel.hurry()
    assert bench.disconnects == 1
    assert bench.peer_id == (2 if end == "new incarnation" else 1), "a pause before the next connection"
    bench.pass_time(ANSWER_MS_MAX // 2)
    assert bench.peer_id == 2
