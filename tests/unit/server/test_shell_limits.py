"""What clients may take of a shell: memory, time, connections, unanswered requests, lines of its log."""

import errno
import os
import socket
import struct

import pytest
import trio

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import Running, ScriptedCore, ask, is_closed, one_client, receive, running
from yak.core.events import (
    ConnectionClosed,
    Effect,
    Event,
    FrameReceived,
    LimitConnections,
    Notice,
    PeerProven,
    Reply,
    TimerDue,
)
from yak.limits import LARGE_REQUEST_ELEMENTS
from yak.server import connection as connections
from yak.server import receive_buffer
from yak.server.low_water import UP_TO_BYTES
from yak.server.shell import ConnectionLimits, Shell


async def test_memory_grows_with_bytes_received_and_not_with_the_length_announced():
    async with running() as broker:
        streams = [await broker.connect() for _ in range(20)]
        for stream in streams:
            await stream.send_all(struct.pack(">i", 50 * 1024 * 1024) + b"slow")
        await broker.until(lambda: broker.shell.counters.received_bytes == 160)
        assert broker.shell.memory.held_bytes == 160, "what was received of the frames"
        await streams[0].send_all(bytes(UP_TO_BYTES))
        await broker.until(lambda: broker.shell.counters.received_bytes >= 200_160)
        assert 0 < broker.shell.memory.held_bytes <= 4 * broker.shell.counters.received_bytes
        await broker.ends_healthy()


async def test_client_that_sends_a_large_frame_slowly_is_not_idle():
    async with running(ConnectionLimits(idle_ms_max=100)) as broker:
        stream = await broker.connect()
        data = frame(b"long" * 50_000)
        for start in range(0, len(data), 10_000):
            await stream.send_all(data[start : start + 10_000])
            await trio.sleep(0.02)
        assert await receive(stream, len(data)) == data
        assert await is_closed(stream)


async def test_deadlines_close_the_silent_the_slow_and_the_idle():
    # on a busy machine the first byte takes long
    limits = ConnectionLimits(first_byte_ms_max=800, frame_ms_max=lambda _size: 150, idle_ms_max=300)
    async with running(limits) as broker:
        idle = await broker.connect()
        assert await ask(idle, b"once only") == b"once only"
        slow = await broker.connect()
        await slow.send_all(struct.pack(">i", 100) + b"x")
        silent = await broker.connect()

        async def dribble() -> None:
            try:
                while True:
                    await slow.send_all(b"x")
                    await trio.sleep(0.02)
            except trio.BrokenResourceError:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(dribble)
            assert await is_closed(silent)
            assert await is_closed(slow)
            assert await is_closed(idle)
            await broker.until(lambda: not broker.shell.connections)
            nursery.cancel_scope.cancel()
        assert broker.shell.counters.bad_requests == {"first-byte-deadline": 1, "frame-deadline": 1}
        await broker.is_healthy()


async def test_connection_whose_bytes_wait_for_its_turn_passes_no_deadline():
    limits = ConnectionLimits(first_byte_ms_max=300, frame_ms_max=lambda _size: 300)
    async with running(limits) as broker:
        new, partial = await broker.connect(), await broker.connect()
        await partial.send_all(frame(b"the first request")[:10])
        await broker.until(lambda: any(each.frame_since_ms for each in broker.shell.connections.values()))
        await broker.until(lambda: len(broker.shell.selector._readers) == 2)
        selector = broker.shell.selector
        has_queued, selector.has_queued = selector.has_queued, lambda _connection: True  # type: ignore[method-assign]
        await trio.sleep(0.5)
        assert len(broker.shell.connections) == 2
        selector.has_queued = has_queued  # type: ignore[method-assign]
        await trio.sleep(0.1)
        (connection,) = broker.shell.connections.values()
        assert connection.frame_since_ms, "the time that the broker took is not the client's"
        assert broker.shell.counters.bad_requests == {"first-byte-deadline": 1}
        assert await is_closed(partial)
        assert broker.shell.counters.bad_requests == {"first-byte-deadline": 1, "frame-deadline": 1}
        await new.aclose()


async def test_connection_is_idle_only_from_its_last_answer_on():
    async with running(ConnectionLimits(idle_ms_max=1000)) as broker:
        stream = await broker.connect()
        await stream.send_all(frame(b"hold...."))
        await broker.until(lambda: bool(broker.core.held))
        await trio.sleep(0.6)
        (connection,) = broker.shell.connections.values()
        (held,) = broker.core.held.pop(connection.connection_id)
        broker.core.on_event = lambda _event: [Reply(connection.connection_id, [frame(held)])]
        broker.shell.post(TimerDue())
        broker.core.on_event = None
        assert await receive(stream, len(frame(held))) == frame(held)
        await trio.sleep(0.6)
        assert await ask(stream, b"still there") == b"still there"


async def test_client_address_over_its_connection_limit_is_refused_until_one_closes():
    async with running(ConnectionLimits(connections_per_ip_max=3)) as broker:
        streams = [await broker.connect() for _ in range(3)]
        for stream in streams:
            await ask(stream, b"hello you")
        extra = await broker.connect()
        assert await is_closed(extra)
        await streams.pop().aclose()
        await broker.until(lambda: len(broker.shell.connections) == 2)
        again = await broker.connect()
        assert await ask(again, b"hello you") == b"hello you"
        await broker.ends_healthy()


async def test_changed_limits_count_for_the_next_connections():
    limits: list[Effect] = [LimitConnections(9, 1), LimitConnections(2, 9), LimitConnections(1_000, 9)]
    core = ScriptedCore(on_event=lambda event: [limits.pop(0)] if type(event) is TimerDue else [])
    async with running(ConnectionLimits(connections_possible=3), core=core) as broker:
        streams = [await broker.connect()]
        await ask(streams[0], b"hello you")
        for possible in (1, 2, 3):
            broker.shell.post(TimerDue())
            while len(streams) < possible:
                streams.append(await broker.connect())
                assert await ask(streams[-1], b"hello you") == b"hello you"
            assert await is_closed(await broker.connect())
        await broker.ends_healthy()


def request(api_key: int, client_id: bytes = b"yak-peer") -> bytes:
    return struct.pack(">hhih", api_key, 0, 7, len(client_id)) + client_id


HANDSHAKE, AUTHENTICATE, API_VERSIONS = 17, 36, 18


class ProvingCore(ScriptedCore):
    """Takes every SaslAuthenticate for a proof that is right."""

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        effects = super().step(event, now_ms)
        if isinstance(event, FrameReceived) and bytes(event.frame[:2]) == b"\0\x24":
            effects.append(PeerProven(event.connection_id))
        return effects


async def test_other_brokers_get_in_when_clients_took_all_connections():
    limits = ConnectionLimits(connections_per_ip_max=2, peers_reserved=2, peers_proving_max=3, peer_proof_ms_max=300)
    async with running(limits, core=ProvingCore()) as broker:
        held = [await broker.connect() for _ in range(2)]
        for stream in held:
            await ask(stream, b"hello you")
        silent = await broker.connect()
        assert await is_closed(silent)
        peers = [await broker.connect() for _ in range(2)]
        for peer in peers:
            for key in (HANDSHAKE, AUTHENTICATE, API_VERSIONS):
                assert await ask(peer, request(key)) == request(key)
        none_left = await broker.connect()
        assert await is_closed(none_left)
        await peers.pop().aclose()
        await broker.until(lambda: len(broker.shell.connections) == 3)
        again = await broker.connect()
        assert await ask(again, request(AUTHENTICATE)) == request(AUTHENTICATE)
        await trio.sleep(0.4)
        assert await ask(again, request(API_VERSIONS)) == request(API_VERSIONS)
        await broker.ends_healthy()


@pytest.mark.parametrize("client_id", [b"yak-watch", b"yak-replica:2", b"rdkafka"])
@pytest.mark.parametrize("first", [b"", request(HANDSHAKE)])
async def test_a_request_before_the_proof_closes_a_connection_of_the_reserve(client_id, first):
    async with running(ConnectionLimits(connections_per_ip_max=0), core=ProvingCore()) as broker:
        stream = await broker.connect()
        if first:
            assert await ask(stream, first) == first
        await stream.send_all(frame(request(API_VERSIONS, client_id)))
        assert await is_closed(stream)
        assert [bytes(each) for turn in broker.core.turns for each in turn] == ([first] if first else [])


async def test_unauthenticated_connections_exclude_no_broker():
    limits = ConnectionLimits(connections_per_ip_max=0, peers_reserved=2, peers_proving_max=3)
    async with running(limits, core=ProvingCore()) as broker:
        flood = []
        for _ in range(10):
            flood.append(await broker.connect())
            await flood[-1].send_all(frame(request(HANDSHAKE)))
        peer = await broker.connect()
        assert await ask(peer, request(AUTHENTICATE)) == request(AUTHENTICATE)
        assert len(broker.shell.connections) == 3
        assert await ask(peer, request(API_VERSIONS)) == request(API_VERSIONS)
        for stream in [peer, *flood]:
            await stream.aclose()


async def test_a_client_that_does_not_read_is_not_read_and_gets_all_in_order():
    async with one_client() as (broker, stream):
        count = 25
        await stream.send_all(b"".join(frame(b"big..... %04d" % number) for number in range(count)))
        await broker.until(lambda: broker.shell.counters.pauses > 0)
        connection = next(iter(broker.shell.connections.values()))
        assert connection.unsent_bytes <= 4 * 3_000_004
        assert sum(map(len, broker.core.turns)) < count
        assert len(await receive(stream, count * 3_000_004)) == count * 3_000_004
        assert await ask(stream, b"and again") == b"and again"


async def test_large_request_without_an_answer_stops_the_reading_at_once():
    async with running(ConnectionLimits(in_flight_max=1)) as broker:
        stream, other = await broker.connect(), await broker.connect()
        held = [b"hold.... %04d" % number + bytes(LARGE_REQUEST_ELEMENTS) for number in range(4)]
        await stream.send_all(b"".join(map(frame, held)))
        for number in range(3):
            await broker.until(lambda number=number: broker.shell.counters.pauses == number + 1)  # type: ignore[misc]
            assert await ask(other, b"not held up") == b"not held up"
            (connection_id,) = broker.core.held
            assert broker.core.held.pop(connection_id) == [held[number]]
            broker.core.on_event = lambda _event, number=number, to=connection_id: [  # type: ignore[misc]
                Reply(to, [frame(held[number])])
            ]
            broker.shell.post(TimerDue())
            broker.core.on_event = None
            assert await receive(stream, len(frame(held[number]))) == frame(held[number])
        await broker.ends_healthy()


async def test_too_many_unanswered_requests_stop_the_reading_until_they_are_answered():
    async with running(ConnectionLimits(in_flight_max=64)) as broker:
        stream, other = await broker.connect(), await broker.connect()
        held = [b"hold.... %04d" % number for number in range(200)]
        await stream.send_all(b"".join(map(frame, held)))
        await broker.until(lambda: broker.shell.counters.pauses == 1)
        (connection_id,) = broker.core.held
        # the backlog is looked at after 64 frames of a turn, and between turns, which a busy machine ends sooner
        assert 64 <= broker.core.backlog(connection_id) < 64 + 64
        assert await ask(other, b"not held up") == b"not held up"
        answered = b""
        while len(answered) < 200 * 17:
            replies: list[Effect] = [
                Reply(connection_id, [frame(each)]) for each in broker.core.held.pop(connection_id, [])
            ]
            broker.core.on_event = lambda _event, replies=replies: replies  # type: ignore[misc]
            broker.shell.post(TimerDue())
            broker.core.on_event = None
            answered += await receive(stream, 17 * len(replies))
            await trio.sleep(0.001)
        assert answered == b"".join(map(frame, held))
        await broker.ends_healthy()


async def test_full_memory_lets_one_partly_received_frame_continue_at_a_time():
    async with running(ConnectionLimits(memory_bytes_max=1_000_000)) as broker:
        streams = [await broker.connect() for _ in range(5)]
        data = frame(bytes(2_000_000))

        async def talk(stream: trio.SocketStream) -> None:
            for start in range(0, len(data), 150_000):
                await stream.send_all(data[start : start + 150_000])
                await trio.sleep(0.001)

        received: list[int] = []

        async def listen(stream: trio.SocketStream) -> None:
            received.append(len(await receive(stream, len(data))))

        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(talk, stream)
                nursery.start_soon(listen, stream)
        assert received == [len(data)] * 5
        assert broker.shell.counters.pauses > 0
        await broker.ends_healthy()


async def test_length_of_the_frame_behind_a_full_slice_is_checked_before_the_frame_is_received(monkeypatch):
    monkeypatch.setattr(connections, "TURN_SLICE_NS", -1)
    monkeypatch.setattr(receive_buffer, "_OWN_FROM_BYTES", 1_000)
    async with running() as broker:
        stream = await broker.connect()
        await ask(stream, b"hello...")
        await stream.send_all(frame(b"the last") + struct.pack(">i", 2**31 - 1) + bytes(5_000))
        assert await is_closed(stream)
        assert broker.shell.counters.bad_requests == {"frame-too-large": 1}
        await broker.is_healthy()


class FillingCore(ScriptedCore):
    """The first frame fills the memory of requests."""

    shell: Shell

    def _frame(self, connection_id: int, data: bytes) -> list[Effect]:
        if data == b"fill....":
            self.shell.memory.change(self.shell.memory.bytes_max + 1)
        return super()._frame(connection_id, data)


async def test_connection_with_whole_frames_left_takes_the_turn_of_no_partial_frame_in_full_memory(monkeypatch):
    monkeypatch.setattr(connections, "TURN_SLICE_NS", -1)
    core = FillingCore()
    async with running(ConnectionLimits(memory_bytes_max=1_000_000), core) as broker:
        core.shell = broker.shell
        partial, pipelining = await broker.connect(), await broker.connect()
        await partial.send_all(frame(b"a partial frame")[:10])
        await broker.until(lambda: broker.shell.memory.held_bytes > 0)
        await pipelining.send_all(frame(b"fill....") + 3 * frame(b"the rest"))
        assert len(await receive(pipelining, 4 * 12)) == 4 * 12
        await partial.send_all(frame(b"a partial frame")[10:])
        with trio.fail_after(5):
            assert await receive(partial, 19) == frame(b"a partial frame")
        broker.shell.memory.change(-broker.shell.memory.bytes_max - 1)
        await broker.ends_healthy()


async def test_the_accept_loop_lives_on_without_file_handles(monkeypatch):
    real_accept = socket.socket.accept
    failures = [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOBUFS]

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            number = failures.pop(0)
            raise OSError(number, os.strerror(number))
        return real_accept(self)

    async with running() as broker:
        monkeypatch.setattr(socket.socket, "accept", failing)
        with trio.move_on_after(5):
            while failures:
                stream = await broker.connect()
                await stream.aclose()
                await trio.sleep(0.01)
        monkeypatch.undo()
        await broker.is_healthy()
        assert broker.shell.counters.bad_requests["accept-failed"] == 2  # the reserve's own accept took one


async def test_ten_thousand_idle_connections_would_hold_no_buffers():
    async with running() as broker:
        streams = [await broker.connect() for _ in range(30)]
        for stream in streams:
            await ask(stream, b"x" * 50_000)
        connections = list(broker.shell.connections.values())
        assert all(c.input._own is None and c.input._rest == b"" and not c.outgoing for c in connections)


async def test_lines_that_a_client_can_provoke_do_not_fill_the_log(caplog):
    caplog.set_level("INFO")
    async with running() as broker:
        for _ in range(20):
            broker.shell.carry_out([Notice("info", "provoked", {}, is_provoked=True), Notice("info", "ours", {})])
    events = [record.getMessage() for record in caplog.records]
    assert (events.count("provoked"), events.count("ours")) == (5, 20)


async def not_read(broker: Running, stream: trio.SocketStream) -> None:
    """Bring a connection with room for two requests to where it is not read: the third lies in the kernel."""
    await stream.send_all(frame(b"hold.... 1") + frame(b"hold.... 2"))
    await broker.until(lambda: sum(len(each) for each in broker.core.held.values()) == 2)
    await stream.send_all(frame(b"hold.... 3"))
    await broker.until(lambda: broker.shell.counters.pauses > 0)


async def test_client_that_closes_while_it_is_not_read_is_noticed_and_its_last_requests_are_stepped():
    async with running(ConnectionLimits(in_flight_max=2)) as broker:
        stream = await broker.connect()
        await not_read(broker, stream)
        await stream.send_all(frame(b"hold.... 4"))
        await stream.aclose()
        await broker.until(lambda: len(broker.core.of(ConnectionClosed)) == 1)
        stepped = [data for turn in broker.core.turns for data in turn]
        assert stepped == [b"hold.... 1", b"hold.... 2", b"hold.... 3", b"hold.... 4"]
        await broker.is_healthy()


async def fill(broker: Running, stream: trio.SocketStream, request: bytes = b"big.....") -> None:
    """Send a request whose reply is larger than the socket's buffers; that to `big` by more than may be unsent."""
    await ask(stream, b"hello...")
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    (connection,) = broker.shell.connections.values()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
    await stream.send_all(frame(request))
    await broker.until(lambda: connection.unsent_bytes > 0)


async def test_client_that_ends_its_side_gets_the_replies_that_it_had_not_read_yet():
    async with running() as broker:
        stream = await broker.connect()
        await fill(broker, stream)
        await stream.send_all(frame(b"one more"))
        await broker.until(lambda: broker.shell.counters.pauses > 0)
        await stream.send_eof()
        await trio.sleep(0.2)  # ten rounds of the sweeper
        assert len(await receive(stream, 4_000_000)) == 3_000_004 + len(frame(b"one more"))
        await broker.is_healthy()


async def test_client_that_ended_its_side_is_sent_replies_as_long_as_it_reads(monkeypatch):
    monkeypatch.setattr(connections, "_CLOSE_DRAIN_SECONDS", 0.5)
    async with running() as broker:
        slow = await broker.connect()
        await fill(broker, slow)
        await slow.send_eof()
        received = 0
        while more := await slow.receive_some(64 * 1024):
            received += len(more)
            await trio.sleep(0.02)
        assert received == 3_000_004
        await broker.until(lambda: not broker.shell.connections)
        silent = await broker.connect()
        await fill(broker, silent, bytes(600_000))
        await silent.send_eof()
        await broker.until(lambda: not broker.shell.connections)
        await broker.ends_healthy()


async def test_client_that_does_not_read_its_replies_is_closed_when_it_is_idle():
    async with running(ConnectionLimits(idle_ms_max=100)) as broker:
        for is_paused in (False, True):
            stream = await broker.connect()
            await fill(broker, stream)
            if is_paused:
                await stream.send_all(frame(b"not read"))
            with trio.fail_after(2):  # a closing connection waits longer for a client that may still read
                await broker.until(lambda: not broker.shell.connections)
            await stream.aclose()
        assert broker.shell.counters.pauses == 1
        assert b"not read" not in [data for turn in broker.core.turns for data in turn]
        await broker.is_healthy()


async def test_client_that_resets_while_it_is_not_read_is_noticed():
    async with running(ConnectionLimits(in_flight_max=2)) as broker:
        stream = await broker.connect()
        await not_read(broker, stream)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stream.aclose()
        await broker.until(lambda: len(broker.core.of(ConnectionClosed)) == 1)
        await broker.is_healthy()


async def test_client_that_stays_is_not_read_until_it_has_answers():
    async with running(ConnectionLimits(in_flight_max=2)) as broker:
        stream = await broker.connect()
        await not_read(broker, stream)
        await trio.sleep(0.2)  # ten rounds of the sweeper
        assert [len(each) for each in broker.core.held.values()] == [2]
        assert not broker.core.of(ConnectionClosed)


async def test_bytes_that_the_core_holds_count_as_memory():
    async with one_client() as (broker, stream):
        broker.core.held_bytes = 5_000
        assert await ask(stream, b"anything") == b"anything"
        assert broker.shell.memory.held_bytes == 5_000
        broker.core.held_bytes = 0
