"""`yak.server.peers` with real sockets on this host: how each connection begins, what it brings, and how it ends."""

import errno
import random
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from yak.broker.events import (
    ClosePeer,
    ConnectPeer,
    Effect,
    Event,
    FrameReceived,
    PeerAnswered,
    PeerConnected,
    PeerLost,
    Reply,
    SendPeer,
    TurnEnd,
)
from yak.server.answer_buffer import SMALLEST_BYTES, AnswerBuffer
from yak.server.listener import Listener
from yak.server.peer_connect import _handshake
from yak.server.shell import ConnectionLimits, Shell
from yak.server.sweeper import run_sweeper

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@dataclass
class FakeCore:
    """Keeps what comes, answers copied; `reaction` may ask for effects."""

    events: list[Event] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    turns: list[list[bytes]] = field(default_factory=lambda: [[]])
    reaction: Callable[[Event], list[Effect]] | None = None

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, TurnEnd):
            if self.turns[-1]:
                self.turns.append([])
            return []
        if isinstance(event, PeerAnswered):
            assert event.frame.readonly
            self.answers.append(bytes(event.frame))
            self.turns[-1].append(self.answers[-1])
        else:
            self.events.append(event)
        return self.reaction(event) if self.reaction is not None else []

    def next_due(self) -> int | None:
        return None

    def backlog(self, connection_id: int) -> int:
        return 0


@dataclass
class Running:
    core: FakeCore
    shell: Shell

    def ask(self, *effects: Effect) -> None:
        """Let the core's next turn want these."""
        self.shell.begin_turn()
        self.shell.carry_out(list(effects))
        self.shell.end_turn()

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(5):
            while not condition():  # noqa: ASYNC110 - what it looks at sets no event
                await trio.sleep(0.001)

    async def lost(self, peer_id: int = 1) -> PeerLost:
        await self.until(lambda: any(isinstance(event, PeerLost) for event in self.core.events))
        (event,) = (event for event in self.core.events if isinstance(event, PeerLost))
        assert event.peer_id == peer_id
        assert len(self.shell.peers) == 0
        return event

    async def connected_to(self, listening: socket.socket, peer_id: int = 1) -> trio.SocketStream:
        """Our connection, from the other side."""
        self.ask(ConnectPeer(peer_id, "127.0.0.1", port_of(listening)))
        await self.until(lambda: PeerConnected(peer_id) in self.core.events)
        sock, _ = await trio.socket.from_stdlib_socket(listening).accept()
        return trio.SocketStream(sock)


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


@asynccontextmanager
async def running(core: FakeCore | None = None, **limits: int) -> AsyncIterator[tuple[Running, socket.socket]]:
    """A shell, and a socket that listens; at the end nothing may be left of any connection."""
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        nursery = await stack.enter_async_context(trio.open_nursery())
        core = core or FakeCore()
        shell = Shell(core, nursery, limits=ConnectionLimits(**limits))
        yield Running(core, shell), listening
        assert shell.counters.bugs == 0
        nursery.cancel_scope.cancel()


def reset(stream: trio.SocketStream) -> None:
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    stream.socket.close()


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    data = bytearray()
    with trio.fail_after(5):
        while len(data) < size:
            more = await stream.receive_some(size - len(data))
            assert more
            data += more
    return bytes(data)


# ------------------------------------------------------------------------------------------------------ beginning


def test_a_peer_is_asked_and_answers() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            broker.ask(SendPeer(1, [frame(b"request")]))
            assert await receive(stream, 11) == frame(b"request")
            await stream.send_all(frame(b"answer"))
            await broker.until(lambda: broker.core.answers == [b"answer"])
            broker.ask(ClosePeer(1))
            assert await stream.receive_some() == b""
            assert len(broker.shell.peers) == 0
            await trio.testing.wait_all_tasks_blocked()
            assert broker.core.events == [PeerConnected(1)]

    trio.run(main)


def test_what_is_sent_before_the_connection_is_there_leaves_with_it() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)), SendPeer(1, [b"ear", b"ly"]))
            sock, _ = await trio.socket.from_stdlib_socket(listening).accept()
            assert await receive(trio.SocketStream(sock), 5) == b"early"

    trio.run(main)


def test_a_name_is_looked_up_and_every_address_of_it_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))  # bound and not listening: refuses

                async def look_up(host: str, port: int, **_: object) -> list[object]:
                    assert host == "two.example"
                    return [
                        (socket.AF_INET, socket.SOCK_STREAM, 0, "", address)
                        for address in [other.getsockname(), ("127.0.0.1", port)]
                    ]

                monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
                broker.ask(ConnectPeer(1, "two.example", port_of(listening)))
                await broker.until(lambda: broker.core.events == [PeerConnected(1)])

    trio.run(main)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_where_nobody_listens_refuses(host: str) -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            port = port_of(listening)
            listening.close()
            broker.ask(ConnectPeer(1, host, port))
            assert await broker.lost() == PeerLost(1, "refused", "Connection refused")

    trio.run(main)


def test_a_listener_that_takes_no_more_is_a_timeout_and_no_refusal() -> None:
    async def main() -> None:
        async with running(peer_connect_ms_max=150) as (broker, listening):
            listening.listen(0)
            with socket.socket() as first, socket.socket() as second:
                for sock in (first, second):
                    sock.setblocking(False)
                    assert sock.connect_ex(listening.getsockname()) in (0, errno.EINPROGRESS)
                await trio.sleep(0.02)
                broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)))
                assert await broker.lost() == PeerLost(1, "timeout", "no answer in 0.15 s")

    trio.run(main)


def test_refused_is_said_only_when_no_address_of_a_name_might_be_the_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running(peer_connect_ms_max=200) as (broker, listening):
            listening.listen(0)
            with socket.socket() as refusing, socket.socket() as first, socket.socket() as second:
                refusing.bind(("127.0.0.1", 0))
                for sock in (first, second):
                    sock.setblocking(False)
                    sock.connect_ex(listening.getsockname())
                await trio.sleep(0.02)
                unknown = (9999, ("::1", 1, 0, 0))  # a family that this host has not
                addresses = {
                    "half": [(socket.AF_INET, refusing.getsockname()), (socket.AF_INET, listening.getsockname())],
                    "turned": [(socket.AF_INET, listening.getsockname()), (socket.AF_INET, refusing.getsockname())],
                    "one-family": [unknown, (socket.AF_INET, refusing.getsockname())],
                    "no-family": [unknown],
                }

                async def look_up(host: str, *_: object, **__: object) -> list[object]:
                    return [(family, socket.SOCK_STREAM, 0, "", address) for family, address in addresses[host]]

                monkeypatch.setattr(trio.socket, "getaddrinfo", look_up)
                for peer_id, host in enumerate(addresses):
                    broker.ask(ConnectPeer(peer_id, host, 1))
                await broker.until(lambda: len(broker.core.events) == len(addresses))
                told = {event.peer_id: event.how for event in broker.core.events if isinstance(event, PeerLost)}
                assert told == {0: "timeout", 1: "timeout", 2: "refused", 3: "unreachable"}

    trio.run(main)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("no-such-host.invalid", 9092),
        ("127.0.0.1", 70_000),
        ("127.0.0.1", 0),
        ("127.0.0.1", -1),
        ("a..b", 1),
        ("x" * 300, 1),
        ("\0", 1),
    ],
)
def test_an_address_that_is_none_is_unreachable(host: str, port: int) -> None:
    async def main() -> None:
        async with running() as (broker, _):
            broker.ask(ConnectPeer(1, host, port))
            lost = await broker.lost()
            assert lost.how == "unreachable"
            assert lost.reason

    trio.run(main)


def test_no_handle_for_a_socket_is_no_suspicion(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running() as (broker, listening):

            def none_left(*_: object) -> socket.socket:
                raise OSError(errno.EMFILE, "Too many open files")

            with monkeypatch.context() as patched:
                patched.setattr("yak.server.peer_connect.socket.socket", none_left)
                broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)))
                assert await broker.lost() == PeerLost(1, "unreachable", "Too many open files")

    trio.run(main)


def test_a_connection_that_met_itself_counts_as_refused() -> None:
    """The kernel may lend the very port that is called; it happens once in some 28,000 attempts, so the port is chosen."""

    async def main() -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
            with pytest.raises(ConnectionRefusedError):
                await _handshake(sock, sock.getsockname())

    trio.run(main)


def test_it_may_be_closed_while_it_connects() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            listening.listen(0)
            with socket.socket() as first, socket.socket() as second:
                for sock in (first, second):
                    sock.setblocking(False)
                    sock.connect_ex(listening.getsockname())
                await trio.sleep(0.02)
                broker.ask(ConnectPeer(1, "127.0.0.1", port_of(listening)), SendPeer(1, [b"x"]))
                await trio.sleep(0.01)
                broker.ask(ClosePeer(1), ClosePeer(1), SendPeer(1, [b"x"]))
                assert len(broker.shell.peers) == 0
                broker.ask(ConnectPeer(2, "127.0.0.1", 1), ClosePeer(2))
                await trio.testing.wait_all_tasks_blocked()
                assert not broker.shell.nursery.child_tasks
                assert broker.core.events == []

    trio.run(main)


# ------------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("piece", [1, 3_000, 100_000, 1 << 30])
@pytest.mark.parametrize("sizes", [[4], [10, 20, 30], [SMALLEST_BYTES - 4, SMALLEST_BYTES, 5], [70_000, 4, 1_000_000]])
def test_answers_of_any_size_come_whole_and_in_order_however_they_are_cut(piece: int, sizes: list[int]) -> None:
    if sum(sizes) > 20_000 * piece:
        pytest.skip("too many pieces to be quick")

    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            rng = random.Random(piece)
            answers = [rng.randbytes(size) for size in sizes for _ in range(3)]
            data = b"".join(map(frame, answers))
            for start in range(0, len(data), piece):
                await stream.send_all(data[start : start + piece])
            await broker.until(lambda: len(broker.core.answers) == len(answers))
            assert broker.core.answers == answers

    trio.run(main)


def test_an_answer_of_ten_megabytes_comes_whole() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            answer = random.Random(1).randbytes(10_000_000)
            for _ in range(3):
                await stream.send_all(frame(answer))
                await broker.until(lambda: bool(broker.core.answers))
                assert broker.core.answers.pop() == answer

    trio.run(main)


def test_all_answers_of_one_read_are_one_turn_and_what_they_ask_for_leaves_in_one_send() -> None:
    async def main() -> None:
        core = FakeCore(reaction=lambda event: [SendPeer(1, [b"next"])] if isinstance(event, PeerAnswered) else [])
        async with running(core) as (broker, listening):
            stream = await broker.connected_to(listening)
            answers = [b"answer %d" % number for number in range(20)]
            await stream.send_all(b"".join(map(frame, answers)) + b"\0\0")
            assert await receive(stream, 80) == b"next" * 20
            assert core.turns[0] == answers
            assert broker.shell.counters.sends == 1
            await stream.send_all(b"\0\x05small")
            await broker.until(lambda: len(core.answers) == 21)
            assert core.answers[-1] == b"small"

    trio.run(main)


def test_half_an_answer_is_no_turn() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            turns = broker.shell.counters.turns
            await stream.send_all(frame(bytes(20_000))[:10_000])
            await broker.until(lambda: broker.shell.counters.received_bytes == 10_000)
            assert broker.shell.counters.turns == turns
            await stream.send_all(bytes(10_004))
            await broker.until(lambda: bool(broker.core.answers))

    trio.run(main)


def test_after_a_close_the_rest_of_a_read_is_not_stepped() -> None:
    async def main() -> None:
        core = FakeCore(reaction=lambda event: [ClosePeer(1)] if isinstance(event, PeerAnswered) else [])
        async with running(core) as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(b"first") + frame(b"second"))
            await broker.until(lambda: bool(core.answers))
            await trio.testing.wait_all_tasks_blocked()
            assert core.answers == [b"first"]
            assert core.events == [PeerConnected(1)]
            assert not broker.shell.nursery.child_tasks

    trio.run(main)


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, 1001, 2**31 - 1])
def test_a_length_that_no_answer_has_ends_the_connection(length: int) -> None:
    async def main() -> None:
        async with running(peer_answer_bytes_max=1000) as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(b"a good one") + struct.pack(">i", length))
            assert await broker.lost() == PeerLost(1, "unreachable", f"an answer of {length} bytes")
            assert broker.core.answers == [b"a good one"]
            stream.socket.close()

    trio.run(main)


def test_the_largest_answer_allowed_is_taken() -> None:
    async def main() -> None:
        async with running(peer_answer_bytes_max=100_000) as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(bytes(100_000)))
            await broker.until(lambda: bool(broker.core.answers))

    trio.run(main)


def test_a_bug_in_handling_an_answer_ends_the_connection_and_nothing_else() -> None:
    async def main() -> None:
        def fail(event: Event) -> list[Effect]:
            if isinstance(event, PeerAnswered):
                raise ZeroDivisionError("a bug")
            return []

        async with running(FakeCore(reaction=fail)) as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(b"hello"))
            assert await broker.lost() == PeerLost(1, "unreachable", "internal error")
            assert broker.shell.counters.bugs == 1
            broker.shell.counters.bugs = 0

    trio.run(main)


# ------------------------------------------------------------------------------------------------------ sending


def test_a_peer_that_does_not_read_gets_everything_once_it_does_and_is_read_all_the_while() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            data = random.Random(2).randbytes(12_000_000)
            broker.ask(SendPeer(1, [data[:5], data[5:8_000_000]]))
            broker.ask(SendPeer(1, [data[8_000_000:]]))
            await stream.send_all(frame(b"meanwhile"))
            await broker.until(lambda: broker.core.answers == [b"meanwhile"])
            assert await receive(stream, len(data)) == data
            broker.ask(SendPeer(1, [b"more"]))
            assert await receive(stream, 4) == b"more"

    trio.run(main)


def test_a_peer_that_is_lost_with_much_unsent_is_lost_once() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            broker.ask(SendPeer(1, [bytes(12_000_000)]))
            reset(stream)
            assert (await broker.lost()).how == "reset"
            broker.ask(SendPeer(1, [b"too late"]), ClosePeer(1))
            await trio.testing.wait_all_tasks_blocked()
            assert not broker.shell.nursery.child_tasks
            assert len(broker.core.events) == 2

    trio.run(main)


def test_it_may_be_closed_with_much_unsent() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            broker.ask(SendPeer(1, [bytes(12_000_000)]))
            await trio.testing.wait_all_tasks_blocked()
            broker.ask(ClosePeer(1))
            await trio.testing.wait_all_tasks_blocked()
            assert not broker.shell.nursery.child_tasks
            assert broker.core.events == [PeerConnected(1)]
            stream.socket.close()

    trio.run(main)


# ------------------------------------------------------------------------------------------------------ the end


def test_an_orderly_end_is_told_as_closed_after_the_last_answer() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(b"last words") + b"\0\0")
            await stream.aclose()
            assert await broker.lost() == PeerLost(1, "closed", "the peer closed the connection")
            assert broker.core.answers == [b"last words"]

    trio.run(main)


def test_a_reset_is_told_as_reset() -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            reset(await broker.connected_to(listening))
            assert await broker.lost() == PeerLost(1, "reset", "Connection reset by peer")

    trio.run(main)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_send_that_fails_first_hides_neither_the_last_answers_nor_how_it_ended(in_order: bool) -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)
            await stream.send_all(frame(b"last words"))
            if in_order:
                stream.socket.close()
            else:
                reset(stream)
            broker.ask(SendPeer(1, [b"one"]))
            broker.ask(SendPeer(1, [b"two"]))
            lost = await broker.lost()
            assert lost.how == ("closed" if in_order else "reset")
            assert broker.core.answers == [b"last words"]

    trio.run(main)


@pytest.mark.parametrize(
    ("number", "how"), [(errno.ETIMEDOUT, "unreachable"), (errno.EHOSTUNREACH, "unreachable"), (errno.EPIPE, "closed")]
)
def test_other_ends_are_told_for_what_they_are(number: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running() as (broker, listening):
            stream = await broker.connected_to(listening)

            def fail(*_: object) -> int:
                raise OSError(number, "words")

            monkeypatch.setattr(AnswerBuffer, "receive", fail)
            await stream.send_all(b"x")
            assert await broker.lost() == PeerLost(1, how, "words")

    trio.run(main)


def test_a_killed_peer_is_seen_at_once_on_an_idle_connection() -> None:
    async def main() -> None:
        async with running() as (broker, _):
            script = "import socket, sys, time; s = socket.create_server(('127.0.0.1', 0)); "
            script += "print(s.getsockname()[1], flush=True); c = s.accept(); time.sleep(60)"
            process = await trio.lowlevel.open_process([sys.executable, "-c", script], stdout=subprocess.PIPE)
            assert process.stdout is not None
            broker.ask(ConnectPeer(1, "127.0.0.1", int(await process.stdout.receive_some())))
            await broker.until(lambda: PeerConnected(1) in broker.core.events)
            process.kill()
            await process.wait()
            with trio.fail_after(0.5):
                assert (await broker.lost()).how in ("closed", "reset")

    trio.run(main)


def test_a_silent_connection_that_a_broker_ends_after_a_time_worries_neither_side(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A watch connection asks once and is silent; a probe does not even ask."""

    async def main() -> None:
        def answer(event: Event) -> list[Effect]:
            return [Reply(event.connection_id, [frame(b"versions")])] if isinstance(event, FrameReceived) else []

        async with running() as (broker, _), running(FakeCore(reaction=answer), idle_ms_max=80) as (other, listening):
            other.shell.nursery.start_soon(Listener(other.shell, [listening]).run)
            other.shell.nursery.start_soon(run_sweeper, other.shell, 0.01)
            watch = ConnectPeer(1, "127.0.0.1", port_of(listening))
            probe = ConnectPeer(2, "127.0.0.1", port_of(listening))
            broker.core.reaction = lambda event: [ClosePeer(2)] if event == PeerConnected(2) else []
            broker.ask(watch, SendPeer(1, [frame(b"versions?")]), probe)
            assert await broker.lost() == PeerLost(1, "closed", "the peer closed the connection")
            assert broker.core.answers == [b"versions"]
            await other.until(lambda: not other.shell.connections)
            for shell in (broker.shell, other.shell):
                assert shell.counters.bad_requests == {}

    with caplog.at_level("INFO", logger="yak"):
        trio.run(main)
    assert caplog.records == []


def test_all_of_them_end_with_the_nursery_and_quietly() -> None:
    async def main() -> None:
        core = FakeCore()
        async with running(core) as (broker, listening):
            stream = await broker.connected_to(listening)
            listening.listen(0)
            broker.ask(SendPeer(1, [bytes(12_000_000)]))
            broker.ask(ConnectPeer(2, "127.0.0.1", port_of(listening)), ConnectPeer(3, "no-such-host.invalid", 1))
        assert core.events == [PeerConnected(1)]
        stream.socket.close()

    trio.run(main)
