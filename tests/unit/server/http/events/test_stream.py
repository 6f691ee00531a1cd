"""Who may listen: no more than the bound, and no cursor that is none."""

from types import SimpleNamespace

import pytest

from tests.unit.server.http.rig import make_context
from yak.server.http.context import HttpLimits
from yak.server.http.events.listeners import EventFilter, EventRing, Subscription
from yak.server.http.events.pump import Pump
from yak.server.http.events.stream import EventStream, StreamRequest, event_pump
from yak.server.http.problems import Problem

EVERYTHING = Subscription(EventFilter(), None, has_progress=True)


def context_with(listeners):
    ring = EventRing("1-abc", 10)
    context = make_context(HttpLimits(event_listeners_max=3))
    pump = Pump(context.shell, SimpleNamespace(), ring, SimpleNamespace())
    pump.listeners = listeners
    context.parts[event_pump] = pump
    return context


def test_as_many_as_the_bound_may_listen():
    assert EventStream(context_with(2), StreamRequest(EVERYTHING)).media_type == "text/event-stream"
    with pytest.raises(Problem, match="maximum of 3 event streams") as refused:
        EventStream(context_with(3), StreamRequest(EVERYTHING))
    assert (refused.value.status, refused.value.error) == (503, "too-many-listeners")


def test_invalid_event_cursor_is_refused_before_the_stream_begins():
    with pytest.raises(Problem, match="not an event id"):
        EventStream(context_with(0), StreamRequest(EVERYTHING, "yesterday"))
