"""The ring of events: ids, cursors, what is wanted of it, and what is no longer there."""

import pytest

from yak.server.http.events.listeners import EventFilter, EventRing
from yak.server.http.problems import Problem

ALL = EventFilter()


def ring_of(count, events_max=10):
    ring = EventRing("1-abc", events_max)
    for number in range(1, count + 1):
        ring.add("isr-shrunk" if number % 2 else "leader-changed", f"t{number % 3}", {"n": number})
    return ring


def numbers(body):
    return [int(line.partition(b":")[2].rpartition(b":")[2]) for line in body.split(b"\n") if line.startswith(b"id: ")]


def test_an_event_is_rendered_with_id_kind_and_one_line_of_json():
    ring = EventRing("1-abc", 10)
    ring.add("topic-created", "a", {"message": "line\none"})
    body, reached = ring.collect(1, ring.next, ALL, 1000)
    assert body == b'id: 1-abc:1\nevent: topic-created\ndata: {"kind":"topic-created","message":"line\\none"}\n\n'
    assert reached == 2


def test_cursor_continues_after_its_named_event():
    ring = ring_of(5)
    assert ring.after("1-abc:3") == 4
    assert ring.after("1-abc:5") == 6
    assert numbers(ring.collect(4, ring.next, ALL, 1000)[0]) == [4, 5]


def test_cursors_too_old_from_the_future_and_of_another_boot_are_gaps():
    ring = ring_of(25)
    assert (ring.first, ring.next) == (16, 26)
    assert ring.after("1-abc:15") == 16
    assert ring.after("1-abc:14") is None
    assert ring.after("1-abc:26") is None
    assert ring.after("1-abd:20") is None


@pytest.mark.parametrize(
    "cursor", ["", "5", "1-abc", "1-abc:", ":5", "1-abc:x", "1-abc:-1", "1-abc:" + "9" * 19, "A B:1"]
)
def test_invalid_event_cursor_is_refused(cursor):
    with pytest.raises(Problem, match="not an event id"):
        ring_of(1).after(cursor)


def test_kinds_families_and_topics_choose():
    ring = ring_of(6)

    def chosen(wish):
        return numbers(ring.collect(1, ring.next, wish, 10_000)[0])

    assert chosen(EventFilter(frozenset(["isr-shrunk"]))) == [1, 3, 5]
    assert chosen(EventFilter(frozenset(["leader"]))) == [2, 4, 6]
    assert chosen(EventFilter(frozenset(["isr", "leader"]), "t0")) == [3, 6]
    assert chosen(EventFilter(frozenset(["lead"]))) == []
    ring.add("broker-fenced", None, {})
    assert chosen(EventFilter(None, "t0")) == [3, 6, 7]


def test_pieces_are_bounded_and_continue_where_the_last_piece_ended():
    ring = ring_of(8)
    found, position, pieces = [], 1, 0
    while position < ring.next:
        body, position = ring.collect(position, ring.next, ALL, 100)
        found += numbers(body)
        pieces += 1
    assert (found, pieces) == (list(range(1, 9)), 4)


def test_after_a_loss_every_earlier_cursor_is_a_gap():
    ring = ring_of(3)
    ring.lose()
    assert ring.after("1-abc:3") is None
    assert ring.after("1-abc:4") == 5
    ring.add("topic-created", None, {})
    assert numbers(ring.collect(ring.first, ring.next, ALL, 100)[0]) == [5]
