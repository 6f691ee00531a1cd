import errno
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from yak.broker.events import (
    CallStore,
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    Effect,
    Event,
    FrameReceived,
    JobDone,
    Notice,
    Ready,
    Reply,
    RunJob,
    StoreReplied,
    TimerDue,
    TurnEnd,
)
from yak.seams.metadata_store import StoreOutcome, StoreRequest
from yak.server.latencies import Histogram
from yak.server.listener import Listener, bind, bound_port, start_listening
from yak.server.low_water import UP_TO_BYTES
from yak.server.shell import ConnectionLimits, Shell, keep_store_running
from yak.server.sweeper import run_sweeper


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@dataclass
class ScriptedCore:
    """Echoes frames; a frame's first word may ask for something else."""

    events: list[Event] = field(default_factory=list)
    turns: list[list[bytes]] = field(default_factory=lambda: [[]])
    due_ms: int | None = None
    held: dict[int, list[bytes]] = field(default_factory=dict)
    on_event: Callable[[Event], list[Effect]] | None = None

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, FrameReceived):
            return self._frame(event.connection_id, bytes(event.frame))
        if isinstance(event, TurnEnd):
            if self.turns[-1]:
                self.turns.append([])
            return []
        self.events.append(event)
        if isinstance(event, TimerDue):
            self.due_ms = None
        return self.on_event(event) if self.on_event is not None else []

    def _frame(self, connection_id: int, data: bytes) -> list[Effect]:
        self.turns[-1].append(data)
        word = data.split(b" ")[0]
        if word == b"hold....":
            self.held.setdefault(connection_id, []).append(data)
            return []
        if word == b"release.":
            replies: list[Effect] = [Reply(connection_id, [frame(each)]) for each in self.held.pop(connection_id, [])]
            return [*replies, Reply(connection_id, [frame(data)])]
        if word == b"close...":
            return [Reply(connection_id, [frame(b"bye")]), CloseConnection(connection_id, "asked to")]
        if word == b"bug.....":
            raise ZeroDivisionError("a bug")
        if word == b"assert..":
            raise AssertionError("a broken invariant")
        if word == b"big.....":
            return [Reply(connection_id, [struct.pack(">i", 3_000_000), bytes(3_000_000)])]
        return [Reply(connection_id, [struct.pack(">i", len(data)), data])]

    def next_due(self) -> int | None:
        return self.due_ms

    def backlog(self, connection_id: int) -> int:
        return len(self.held.get(connection_id, []))

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Running:
    core: ScriptedCore
    shell: Shell
    port: int

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(5):
            while not condition():  # noqa: ASYNC110 - what it looks at sets no event
                await trio.sleep(0.002)

    async def is_healthy(self) -> None:
        """A new client is served, and all others are gone."""
        stream = await self.connect()
        assert await ask(stream, b"healthy?") == b"healthy?"
        await stream.aclose()
        await self.until(lambda: not self.shell.connections)
        assert self.shell.memory.held_bytes == 0
        assert len(self.core.of(ConnectionOpened)) == len(self.core.of(ConnectionClosed))


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    with trio.fail_after(10):
        while len(data) < size:
            more = await stream.receive_some(1 << 20)
            if not more:
                break
            data += more
    return bytes(data)


async def ask(stream: trio.SocketStream, data: bytes) -> bytes:
    await stream.send_all(frame(data))
    return (await receive(stream, len(data) + 4))[4:]


async def is_closed(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(5):
        try:
            while await stream.receive_some(1 << 16):
                pass
        except trio.BrokenResourceError:
            pass
        return True
    return False


@asynccontextmanager
async def running(
    limits: ConnectionLimits | None = None, sweep_seconds: float = 0.02, core: ScriptedCore | None = None
) -> AsyncIterator[Running]:
    core = core or ScriptedCore()
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, limits=limits)
        sockets = bind("127.0.0.1", 0)
        start_listening(sockets, "127.0.0.1")
        nursery.start_soon(Listener(shell, sockets).run)
        nursery.start_soon(shell.run_timer)
        nursery.start_soon(run_sweeper, shell, sweep_seconds)
        try:
            yield Running(core, shell, bound_port(sockets))
        finally:
            nursery.cancel_scope.cancel()


def test_a_frame_is_answered() -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            assert await ask(stream, b"hello there") == b"hello there"
            await stream.aclose()
            await broker.is_healthy()

    trio.run(main)


def test_all_frames_of_one_read_are_one_turn_and_one_send() -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            frames = [b"frame %03d" % number for number in range(100)]
            data = b"".join(map(frame, frames))
            await stream.send_all(data)
            assert await receive(stream, len(data)) == data
            assert broker.core.turns[0] == frames
            assert broker.shell.counters.sends == 1

    trio.run(main)


@pytest.mark.parametrize("size", [8, 1000, 200_000, 300_000, 3_000_000])
@pytest.mark.parametrize("piece", [7, 5_000, 100_000, 10_000_000])
def test_frames_of_any_size_arrive_whole_however_they_are_cut(size: int, piece: int) -> None:
    if size > 20_000 * piece:
        pytest.skip("too many pieces to be quick")
    if piece == 7:
        size = min(size, 1000)

    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            frames = [os.urandom(size), b"a small one", os.urandom(size), os.urandom(size // 2 + 8)]
            data = b"".join(map(frame, frames))
            received: list[bytes] = []
            async with trio.open_nursery() as nursery:

                async def collect() -> None:
                    received.append(await receive(stream, len(data)))

                nursery.start_soon(collect)
                for start in range(0, len(data), piece):
                    await stream.send_all(data[start : start + piece])
                    await trio.lowlevel.checkpoint()
            assert received == [data]
            await stream.aclose()
            await broker.is_healthy()

    trio.run(main)


def refused(data: bytes, kind: str) -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            await stream.send_all(data)
            assert await is_closed(stream)
            assert broker.shell.counters.bad_requests == {kind: 1}
            assert not broker.core.turns[0]
            await broker.is_healthy()

    trio.run(main)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "http"),
        (b"POST /topics HTTP/1.1\r\n", "http"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "ssh"),
        (struct.pack(">i", -1), "bad-length"),
        (struct.pack(">i", -(2**31)), "bad-length"),
        (struct.pack(">i", 0), "bad-length"),
        (struct.pack(">i", 7), "bad-length"),
        (struct.pack(">i", 100 * 1024 * 1024 + 1), "frame-too-large"),
        (struct.pack(">i", 2**31 - 1), "frame-too-large"),
    ],
)
def test_a_length_that_cannot_be_closes_the_connection(data: bytes, kind: str) -> None:
    refused(data, kind)


def test_frames_before_a_bad_one_are_answered() -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            await stream.send_all(frame(b"a good one") + struct.pack(">i", -5))
            assert await receive(stream, 1000) == frame(b"a good one")
            await broker.is_healthy()

    trio.run(main)


@pytest.mark.parametrize("reset", [False, True])
def test_half_a_frame_and_then_the_end_is_dropped_in_silence(reset: bool) -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            await stream.send_all(struct.pack(">i", 1000) + b"half")
            if reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            await broker.is_healthy()
            assert broker.core.turns[0] == [b"healthy?"]
            assert broker.shell.counters.bugs == 0

    trio.run(main)


def test_memory_grows_with_bytes_received_and_not_with_the_length_announced() -> None:
    async def main() -> None:
        async with running() as broker:
            streams = [await broker.connect() for _ in range(20)]
            for stream in streams:
                await stream.send_all(struct.pack(">i", 50 * 1024 * 1024) + b"slow")
            await broker.until(lambda: broker.shell.counters.received_bytes == 160)
            assert broker.shell.memory.held_bytes == 0
            await streams[0].send_all(bytes(UP_TO_BYTES))
            await broker.until(lambda: broker.shell.counters.received_bytes >= 200_160)
            assert 0 < broker.shell.memory.held_bytes <= 4 * broker.shell.counters.received_bytes
            for stream in streams:
                await stream.aclose()
            await broker.is_healthy()

    trio.run(main)


def test_who_sends_a_large_frame_slowly_is_not_idle() -> None:
    async def main() -> None:
        async with running(ConnectionLimits(idle_ms_max=100)) as broker:
            stream = await broker.connect()
            data = frame(b"long" * 50_000)
            for start in range(0, len(data), 10_000):
                await stream.send_all(data[start : start + 10_000])
                await trio.sleep(0.02)
            assert await receive(stream, len(data)) == data
            assert await is_closed(stream)

    trio.run(main)


def test_deadlines_close_the_silent_the_slow_and_the_idle() -> None:
    limits = ConnectionLimits(first_byte_ms_max=80, frame_ms_max=lambda _size: 150, idle_ms_max=300)

    async def main() -> None:
        async with running(limits) as broker:
            silent, slow, idle = [await broker.connect() for _ in range(3)]
            assert await ask(idle, b"once only") == b"once only"
            await slow.send_all(struct.pack(">i", 100) + b"x")

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

    trio.run(main)


def test_one_address_gets_only_so_many_connections() -> None:
    async def main() -> None:
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
            for stream in [again, *streams]:
                await stream.aclose()
            await broker.until(lambda: not broker.shell.connections)
            await broker.is_healthy()

    trio.run(main)


def request(client_id: bytes) -> bytes:
    return struct.pack(">hhih", 18, 0, 7, len(client_id)) + client_id


@pytest.mark.parametrize("client_id", [b"yak-watch", b"yak-replica:boot-2"])
def test_other_brokers_get_in_when_clients_took_all_connections(client_id: bytes) -> None:
    async def main() -> None:
        limits = ConnectionLimits(connections_per_ip_max=2, peers_reserved=2, peer_proof_ms_max=300)
        async with running(limits) as broker:
            held = [await broker.connect() for _ in range(2)]
            for stream in held:
                await ask(stream, b"hello you")
            client = await broker.connect()
            await client.send_all(frame(request(b"rdkafka")))
            assert await is_closed(client)
            silent = await broker.connect()
            assert await is_closed(silent)
            peers = [await broker.connect() for _ in range(2)]
            for peer in peers:
                assert await ask(peer, request(client_id)) == request(client_id)
            none_left = await broker.connect()
            assert await is_closed(none_left)
            await peers.pop().aclose()
            await broker.until(lambda: len(broker.shell.connections) == 3)
            pushed_out, again = await broker.connect(), await broker.connect()
            assert await is_closed(pushed_out)
            assert await ask(again, request(client_id)) == request(client_id)
            assert broker.shell.counters.bad_requests == {"too-many-connections-of-one-address": 4}
            for stream in [again, *peers, *held]:
                await stream.aclose()
            await broker.until(lambda: not broker.shell.connections)

    trio.run(main)


def test_a_client_that_does_not_read_is_not_read_and_gets_all_in_order() -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            count = 25
            await stream.send_all(b"".join(frame(b"big..... %04d" % number) for number in range(count)))
            await broker.until(lambda: broker.shell.counters.pauses > 0)
            connection = next(iter(broker.shell.connections.values()))
            assert connection.unsent_bytes <= 4 * 3_000_004
            assert sum(map(len, broker.core.turns)) < count
            assert len(await receive(stream, count * 3_000_004)) == count * 3_000_004
            assert await ask(stream, b"and again") == b"and again"
            await stream.aclose()
            await broker.is_healthy()

    trio.run(main)


def test_too_many_unanswered_requests_stop_the_reading_until_they_are_answered() -> None:
    async def main() -> None:
        async with running(ConnectionLimits(in_flight_max=64)) as broker:
            stream, other = await broker.connect(), await broker.connect()
            held = [b"hold.... %04d" % number for number in range(200)]
            await stream.send_all(b"".join(map(frame, held)))
            await broker.until(lambda: broker.shell.counters.pauses == 1)
            (connection_id,) = broker.core.held
            assert broker.core.backlog(connection_id) == 64
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
            await stream.aclose()
            await other.aclose()
            await broker.is_healthy()

    trio.run(main)


def test_full_memory_lets_one_partly_received_frame_go_on_at_a_time() -> None:
    async def main() -> None:
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
            for stream in streams:
                await stream.aclose()
            await broker.is_healthy()

    trio.run(main)


@pytest.mark.parametrize("word", [b"bug.....", b"assert.."])
def test_a_bug_in_one_request_ends_its_connection_only(word: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running() as broker:
            stream, other = await broker.connect(), await broker.connect()
            await stream.send_all(frame(b"first one") + frame(word) + frame(b"never stepped"))
            assert await receive(stream, 1000) == frame(b"first one")
            assert await ask(other, b"still here") == b"still here"
            assert broker.shell.counters.bugs == 1
            assert "bug" in caplog.text
            await other.aclose()
            await broker.is_healthy()

    trio.run(main)


def test_close_sends_what_is_queued_first() -> None:
    async def main() -> None:
        async with running() as broker:
            stream = await broker.connect()
            await stream.send_all(frame(b"big..... 1") + frame(b"close... now") + frame(b"not stepped"))
            assert len(await receive(stream, 10_000_000)) == 3_000_004 + 7
            await broker.is_healthy()
            assert broker.core.turns[0] == [b"big..... 1"] or broker.core.turns[0][-1] == b"close... now"

    trio.run(main)


def test_the_timer_comes_when_it_is_due_and_earlier_when_that_changes() -> None:
    async def main() -> None:
        async with running() as broker:
            now_ms = broker.shell.clock.now_ms()
            broker.core.due_ms = now_ms + 60_000
            stream = await broker.connect()
            await ask(stream, b"rearm me")
            assert not broker.core.of(TimerDue)
            broker.core.due_ms = broker.shell.clock.now_ms() + 30
            await ask(stream, b"rearm me")
            await broker.until(lambda: len(broker.core.of(TimerDue)) == 1)
            await trio.sleep(0.05)
            assert len(broker.core.of(TimerDue)) == 1

    trio.run(main)


def test_jobs_run_in_threads_and_a_stuck_one_does_not_stop_others() -> None:
    release = threading.Event()
    main_thread = threading.current_thread().name

    def fail() -> object:
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        async with running() as broker:

            def on_ready(event: Event) -> list[Effect]:
                if isinstance(event, JobDone):
                    return []
                stuck: list[Effect] = [RunJob(number, "flush", release.wait) for number in range(8)]
                return [
                    *stuck,
                    RunJob(100, "read", lambda: threading.current_thread().name),
                    RunJob(101, "read", fail),
                ]

            broker.core.on_event = on_ready
            broker.shell.post(TimerDue())
            await broker.until(lambda: len(broker.core.of(JobDone)) == 2)
            done = {event.job_id: event for event in broker.core.of(JobDone) if isinstance(event, JobDone)}
            assert done[100].result != main_thread
            assert isinstance(done[101].error, OSError)
            release.set()
            await broker.until(lambda: len(broker.core.of(JobDone)) == 10)
            assert broker.shell.jobs.running_count == 0

    trio.run(main)


def test_jobs_past_their_deadline_are_named_and_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(__import__("yak.server.jobs", fromlist=["DEADLINE_MS"]).DEADLINE_MS, "delete", 30)
    release = threading.Event()

    async def main() -> None:
        async with running() as broker:
            jobs: list[Effect] = [RunJob(1, "delete", release.wait), RunJob(2, "delete", lambda: 2)]
            broker.core.on_event = lambda event: jobs if isinstance(event, TimerDue) else []
            broker.shell.post(TimerDue())
            await broker.until(lambda: [e.job_id for e in broker.core.of(JobDone) if isinstance(e, JobDone)] == [2])
            assert "job-stuck" in caplog.text
            release.set()
            await broker.until(lambda: len(broker.core.of(JobDone)) == 2)

    trio.run(main)


def test_store_calls_and_ready_reach_who_carries_them_out() -> None:
    class Echo:
        def __init__(self) -> None:
            self.round_trips = Histogram()
            self.calls: list[tuple[int, StoreRequest]] = []
            self.tails: list[int] = []

        def submit(self, nonce: int, request: StoreRequest) -> None:
            self.calls.append((nonce, request))

        def tail(self, after: int) -> None:
            self.tails.append(after)

        async def run(self, post: Callable[[Event], None]) -> None:
            post(StoreReplied(7, StoreOutcome("OK")))
            await trio.sleep_forever()

    async def main() -> None:
        core = ScriptedCore()
        store = Echo()
        ready = trio.Event()

        async def on_ready() -> None:
            ready.set()

        def react(event: Event) -> list[Effect]:
            return [CallStore(1, StoreRequest("heartbeat")), Ready()] if isinstance(event, StoreReplied) else []

        core.on_event = react
        async with trio.open_nursery() as nursery:
            shell = Shell(core, nursery, store=store, on_ready=on_ready)
            nursery.start_soon(keep_store_running, store, shell.post)
            with trio.fail_after(5):
                await ready.wait()
            assert store.calls == [(1, StoreRequest("heartbeat"))]
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_the_accept_loop_lives_on_without_file_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    real_accept = socket.socket.accept
    failures = [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOBUFS]

    def failing(self: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            number = failures.pop(0)
            raise OSError(number, os.strerror(number))
        return real_accept(self)

    async def main() -> None:
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

    trio.run(main)


def test_ten_thousand_idle_connections_would_hold_no_buffers() -> None:
    async def main() -> None:
        async with running() as broker:
            streams = [await broker.connect() for _ in range(30)]
            for stream in streams:
                await ask(stream, b"x" * 50_000)
            connections = list(broker.shell.connections.values())
            assert all(c.input._own is None and c.input._rest == b"" and not c.outgoing for c in connections)

    trio.run(main)


def test_lines_that_a_client_can_provoke_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running() as broker:
            for _ in range(20):
                broker.shell.carry_out([Notice("info", "provoked", {}, is_provoked=True), Notice("info", "ours", {})])

    caplog.set_level("INFO")
    trio.run(main)
    events = [record.getMessage() for record in caplog.records]
    assert (events.count("provoked"), events.count("ours")) == (5, 20)
