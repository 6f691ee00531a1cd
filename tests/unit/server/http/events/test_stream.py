"""Who may listen: no more than the bound, and no cursor that is none; and the events that a stream begins with."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from tests.unit.server.http.rig import Acls, make_context, make_request
from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.core.events import Notice
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.context import HttpLimits
from yak.server.http.events import stream
from yak.server.http.events.listeners import EventFilter, EventRing, Listener, Subscription
from yak.server.http.events.pump import Pump
from yak.server.http.events.stream import EventStream, StreamRequest, event_pump
from yak.server.http.problems import Problem
from yak.server.http.routes import events as routes

EVERYTHING = Subscription(EventFilter(), None, has_progress=True)


def context_with(listeners):
    ring = EventRing("1-abc", 10)
    context = make_context(HttpLimits(event_listeners_max=3))
    pump = Pump(context.shell, SimpleNamespace(node_id=1, wall_ms=0), ring, SimpleNamespace())
    pump.listeners = listeners
    context.parts[event_pump] = pump
    return context


class Answered:
    """What a stream sent, and what happens at each send."""

    def __init__(self, on_send: Any = lambda: None) -> None:
        self.raw = b""
        self._on_send = on_send

    async def send(self, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.raw += message["body"]
        self._on_send()

    @property
    def groups(self) -> list[str]:
        return [line.partition(b'"group":"')[2][:1].decode() for line in self.raw.splitlines() if b'"group":"' in line]


def happen(pump, group):
    pump.gathering.note_notice(Notice("info", "group-empty", {"group": group, "generation": 1}))


def test_as_many_as_the_bound_may_listen():
    assert EventStream(context_with(2), StreamRequest(EVERYTHING)).media_type == "text/event-stream"
    with pytest.raises(Problem, match="maximum of 3 event streams") as refused:
        EventStream(context_with(3), StreamRequest(EVERYTHING))
    assert (refused.value.status, refused.value.error) == (503, "too-many-listeners")


def test_invalid_event_cursor_is_refused_before_the_stream_begins():
    with pytest.raises(Problem, match="not an event id"):
        EventStream(context_with(0), StreamRequest(EVERYTHING, "yesterday"))


@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ("cursor=1-abc:1", {}, "1-abc:1"),
        ("", {"last-event-id": "1-abc:2"}, "1-abc:2"),
        ("cursor=1-abc:1", {"last-event-id": "1-abc:2"}, "1-abc:2"),
    ],
)
async def test_event_stream_of_a_browser_that_reconnects_continues_after_its_last_event(query, headers, expected):
    """An EventSource repeats its address, with the cursor that it began with."""
    request = make_request(query, headers, http_version="1.1")
    answer = await routes.events(context_with(0), request)
    assert answer._request.cursor == expected


async def test_event_stream_without_a_cursor_has_no_earlier_events():
    """Those that a broker queues while there are no listeners are for a listener that reconnects."""
    context = context_with(0)
    pump = context.parts[event_pump]
    happen(pump, "a")
    for cursor, expected in ((None, []), ("1-abc:0", ["a"])):
        answered = Answered()
        position = await EventStream(context, StreamRequest(EVERYTHING, cursor))._catch_up(answered.send)
        assert (answered.groups, position) == (expected, 2)


async def test_event_stream_that_catches_up_slowly_ends_when_an_acl_takes_the_right_away():
    CALLER.set(Caller("User:ann", None, "10.0.0.9:4711"))
    context = context_with(0)
    acls = Acls((Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME))
    context.broker.authorization = acls
    ring = context.parts[event_pump].ring

    def add_one() -> None:
        ring.add("group-empty", None, {"group": "b"})
        acls.allowed = () if ring.next > 3 else acls.allowed

    answered = Answered(add_one)
    stream = EventStream(context, StreamRequest(EVERYTHING, "1-abc:0"))
    with trio.fail_after(5):
        await stream._catch_up(answered.send)
    assert answered.groups == ["b", "b"]


async def test_event_stream_ends_when_an_acl_takes_the_right_away(monkeypatch):
    monkeypatch.setattr(stream, "RIGHTS_SECONDS", 0.001)
    CALLER.set(Caller("User:ann", None, "10.0.0.9:4711"))
    context = context_with(0)
    acls = Acls((Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME))
    context.broker.authorization = acls
    listening = []
    pump = context.parts[event_pump]
    monkeypatch.setattr(pump, "join", lambda _subscription, listener: listening.append(listener))
    monkeypatch.setattr(pump, "leave", lambda _subscription, listener: listening.remove(listener))
    listener = Listener(len, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(EventStream(context, StreamRequest(EVERYTHING))._listen, listener)
        await trio.sleep(0.02)
        assert listening == [listener]
        acls.allowed = ()
        with trio.fail_after(5):
            while listening:  # noqa: ASYNC110 - nothing is set when a listener leaves
                await trio.sleep(0.001)
