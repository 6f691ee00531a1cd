"""Turns end after a slice of time: one connection's pipelined requests or large frames do not hold up the others."""

import select
import socket
from collections.abc import Callable

import pytest
import trio

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import Running, ask, one_client, receive, running
from yak.core.events import TimerDue
from yak.limits import ALONE_TURNS, LARGE_FRAME_READ_BYTES_MAX, TURN_SLICE_ALONE_NS, TURN_SLICE_NS
from yak.protocol.versions import API_VERSIONS, FETCH, SASL_HANDSHAKE
from yak.server.clock import Clock
from yak.server.connection_selector import Weight
from yak.server.receive_buffer import Memory
from yak.server.shell import ConnectionLimits

FRAMES_PER_SLICE = 5


class FrameClock(Clock):
    """Its steady clock stands still but for what each frame takes: a fifth of a slice."""

    def __init__(self, frames: Callable[[], int]) -> None:
        super().__init__()
        self.steady_ns = lambda: frames() * (TURN_SLICE_NS // FRAMES_PER_SLICE + 1)  # type: ignore[method-assign]


def first_request(api_key: int) -> bytes:
    return frame(api_key.to_bytes(2) + bytes(6))


def time_frames(broker: Running) -> None:
    broker.shell.clock = FrameClock(lambda: sum(map(len, broker.core.turns)))


async def test_pipelined_requests_of_one_connection_are_cut_into_slices():
    async with running() as broker:
        time_frames(broker)
        stream = await broker.connect()
        data = b"".join(frame(b"frame %03d" % number) for number in range(FRAMES_PER_SLICE * ALONE_TURNS))
        await stream.send_all(data)
        assert await receive(stream, len(data)) == data
        assert max(map(len, broker.core.turns)) == FRAMES_PER_SLICE
        await broker.ends_healthy()


async def test_slices_of_a_connection_are_longer_only_while_no_other_has_a_turn():
    async with running() as broker:
        time_frames(broker)
        greedy, other = await broker.connect(), await broker.connect()
        await ask(other, b"another 0")
        data = b"".join(frame(b"greedy %04d" % number) for number in range(4000))
        await greedy.send_all(data)
        longer = FRAMES_PER_SLICE * TURN_SLICE_ALONE_NS // TURN_SLICE_NS
        await broker.until(lambda: max(map(len, broker.core.turns)) == longer)
        broker.shell.post(TimerDue())
        before = len(broker.core.turns)
        await broker.until(lambda: len(broker.core.turns) > before + 2)
        assert next(len(turn) for turn in broker.core.turns[before:] if turn) == longer, "a timer is no client"
        assert await ask(other, b"another 1") == b"another 1"
        turns = [turn for turn in broker.core.turns if turn]
        at = turns.index([b"another 1"])
        assert len(turns[at - 1]) == longer
        assert await receive(greedy, len(data)) == data
        turns = [turn for turn in broker.core.turns if turn]
        assert [len(turn) for turn in turns[at + 1 : at + ALONE_TURNS]] == [FRAMES_PER_SLICE] * (ALONE_TURNS - 1)
        await broker.ends_healthy()


async def pipeline(broker: Running, connections: list[trio.SocketStream]) -> bytes:
    """Send 100 frames on each connection, and wait until the broker is busy with them; returns what each has sent."""
    data = b"".join(frame(b"greedy %03d" % number) for number in range(100))
    for stream in connections:
        await stream.send_all(data)
    await broker.until(lambda: len(broker.core.turns) > 20)
    return data


async def test_other_connections_are_served_between_the_slices_of_many_pipelining_ones():
    async with running() as broker:
        time_frames(broker)
        healthy = await broker.connect()
        await ask(healthy, b"healthy 0")
        greedy = [await broker.connect() for _ in range(20)]
        data = await pipeline(broker, greedy)
        seen = sum(map(len, broker.core.turns))
        assert await ask(healthy, b"healthy 1") == b"healthy 1"
        waited = sum(map(len, broker.core.turns)) - seen
        assert waited <= 10 * FRAMES_PER_SLICE, "in a few passes, not behind 2,000 frames"
        for stream in greedy:
            assert await receive(stream, len(data)) == data
        await broker.ends_healthy()


async def test_first_request_of_a_new_connection_does_not_wait_for_many_pipelining_ones():
    async with running() as broker:
        time_frames(broker)
        greedy = [await broker.connect() for _ in range(50)]
        data = await pipeline(broker, greedy)
        seen = sum(map(len, broker.core.turns))
        new = await broker.connect()
        await new.send_all(first_request(API_VERSIONS))
        assert await receive(new, len(first_request(API_VERSIONS))) == first_request(API_VERSIONS)
        waited = sum(map(len, broker.core.turns)) - seen
        assert waited <= 20 * FRAMES_PER_SLICE, "in some passes, not behind a slice of each"
        for stream in greedy:
            assert await receive(stream, len(data)) == data
        await broker.ends_healthy()


@pytest.mark.parametrize(
    ("api_key", "weight"), [(API_VERSIONS, Weight.NEW), (SASL_HANDSHAKE, Weight.NEW), (FETCH, Weight.HEAVY)]
)
async def test_new_connection_waits_for_heavy_ones_unless_its_first_request_is_cheap(api_key, weight):
    async with running() as broker:
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            await broker.until(lambda: len(broker.shell.selector._readers) == 1)
            (connection,) = broker.shell.connections.values()
            client.sendall(first_request(api_key))
            assert select.select([connection.sock], [], [], 5)[0]
            assert connection.weight is weight
        await broker.is_healthy()


async def test_large_frame_is_received_in_bounded_reads():
    async with one_client(ConnectionLimits(unsent_reply_bytes_max=100 << 20)) as (broker, stream):
        data = frame(b"large..." * (1 << 20))
        received: list[int] = []
        note = broker.shell.memory.change_frames
        broker.shell.memory.change_frames = lambda by: (received.append(by), note(by))[1]  # type: ignore[method-assign,assignment]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, data)
            assert await receive(stream, len(data)) == data
        assert len(received) > len(data) // LARGE_FRAME_READ_BYTES_MAX
        assert max(received) <= LARGE_FRAME_READ_BYTES_MAX


def test_large_frames_fill_half_of_the_memory_and_small_requests_continue():
    memory = Memory(100)
    memory.change_frames(60)
    assert memory.may_read("first", in_frame=True, in_large_frame=True), "one at a time may always read on"
    assert not memory.may_read("second", in_frame=True, in_large_frame=True)
    assert memory.may_read("small", in_frame=False, in_large_frame=False)
    memory.change(50)
    assert not memory.may_read("small", in_frame=False, in_large_frame=False), "memory as a whole is full"
    memory.change(-50)
    waiting = trio.Event()
    memory.wait_in(waiting)
    memory.change_frames(-5)
    assert not waiting.is_set()
    memory.change_frames(-5)
    assert waiting.is_set()


async def test_connection_that_used_many_slices_stays_heavy_for_a_while():
    async with running() as broker:
        time_frames(broker)
        stream = await broker.connect()
        await ask(stream, b"small one")
        (connection,) = broker.shell.connections.values()
        assert connection.weight is Weight.LIGHT
        data = b"".join(frame(b"frame %03d" % number) for number in range(100))
        await stream.send_all(data)
        await receive(stream, len(data))
        assert connection.weight is Weight.HEAVY
        await stream.aclose()
