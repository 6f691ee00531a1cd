"""A listener: what the socket does not take is queued, within bounds; dropped events are reported."""

import itertools
import random

import pytest

from yak.server.http.events.listeners import QUEUE_BYTES_MAX, SLOW_SECONDS_MAX, EventRing, Listener, chunk_of


class Socket:
    """Takes `room` bytes at most until it is given more."""

    def __init__(self, room):
        self.room = room
        self.got = bytearray()
        self.is_broken = False

    def send(self, data):
        if self.is_broken:
            raise BrokenPipeError("gone")
        taken = bytes(data)[: self.room]
        self.room -= len(taken)
        self.got += taken
        return len(taken)


def listener_of(room, now=lambda: 0.0):
    socket = Socket(room)
    return socket, Listener(socket.send, 1, now)


def bodies(raw):
    """The chunks of a stream."""
    found = []
    while raw:
        size, _, rest = bytes(raw).partition(b"\r\n")
        length = int(size, 16)
        assert rest[length : length + 2] == b"\r\n"
        found.append(rest[:length])
        raw = rest[length + 2 :]
    return found


def test_a_socket_with_room_gets_all_at_once():
    socket, listener = listener_of(1000)
    listener.offer(chunk_of(b"one"))
    listener.offer(chunk_of(b"two"))
    assert bodies(socket.got) == [b"one", b"two"]
    assert not listener.is_behind


def test_listener_sends_chunks_that_did_not_fit_later_and_in_order():
    socket, listener = listener_of(5)
    listener.offer(chunk_of(b"first"))
    assert listener.is_behind
    assert not listener.is_whole
    listener.offer(chunk_of(b"second"))
    socket.room = 100
    listener.drain()
    assert bodies(socket.got) == [b"first", b"second"]
    assert listener.is_whole
    assert not listener.is_behind


@pytest.mark.parametrize("seed", range(20))
def test_chunks_stay_whole_and_in_order_however_much_the_socket_accepts(seed):
    rng = random.Random(seed)
    socket, listener = listener_of(0)
    sent = [str(number).encode() * rng.randint(1, 50) for number in range(50)]
    for body in sent:
        listener.drain()
        listener.offer(chunk_of(body))
        socket.room += rng.randint(0, 60)
    socket.room = 1_000_000
    listener.drain()
    assert bodies(socket.got) == sent


def test_dropped_events_are_reported_once_the_queue_is_empty():
    ring = EventRing("1-abc", 10)
    for _ in range(7):
        ring.add("topic-created", None, {})
    socket, listener = listener_of(10)
    big = chunk_of(b"x" * (QUEUE_BYTES_MAX // 4 - 100))
    for _ in range(6):
        listener.offer(big)
    assert listener.has_gap
    listener.send_gap(ring, 5)
    assert listener.has_gap, "first what waits"
    socket.room = 10_000_000
    listener.drain()
    listener.send_gap(ring, 5)
    listener.offer(chunk_of(b"after"))
    *taken, reported, after = bodies(socket.got)
    assert len(taken) == 4
    assert reported.startswith(b"id: 1-abc:7\nevent: gap\n")
    assert after == b"after"


def test_listener_that_reads_nothing_is_dropped():
    clock = itertools.count()
    times = iter([0.0, 0.0, 0.0, SLOW_SECONDS_MAX - 1, SLOW_SECONDS_MAX + 1])
    _socket, listener = listener_of(0, lambda: next(times, float(next(clock)) + 100))
    listener.offer(chunk_of(b"one"))
    assert not listener.ended.is_set()
    listener.drain()
    listener.drain()
    assert listener.ended.is_set()


def test_a_connection_that_broke_ends_the_listener():
    socket, listener = listener_of(100)
    socket.is_broken = True
    listener.offer(chunk_of(b"one"))
    assert listener.ended.is_set()
