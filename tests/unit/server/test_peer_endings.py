"""`yak.server.peers` with real sockets on this host: how a connection ends, and what is reported of it."""

import errno
import subprocess
import sys
from unittest.mock import Mock

import pytest
import trio
import trio.testing

from tests.unit.server.frames import frame
from tests.unit.server.peers_rig import FakeCore, connected, port_of, reset, running
from yak.config.listeners import PLAINTEXT_LISTENER
from yak.core.events import (
    ClosePeer,
    ConnectPeer,
    Effect,
    Event,
    FrameReceived,
    PeerConnected,
    PeerLost,
    Reply,
    SendPeer,
)
from yak.server.answer_buffer import AnswerBuffer
from yak.server.listener import Acceptor
from yak.server.listening_sockets import Bound
from yak.server.sweeper import run_sweeper


async def test_orderly_end_is_reported_as_closed_after_the_last_answer():
    async with connected() as (broker, stream):
        await stream.send_all(frame(b"last words") + b"\0\0")
        await stream.aclose()
        assert await broker.lost() == PeerLost(1, "closed", "the peer closed the connection")
        assert broker.core.answers == [b"last words"]


async def test_reset_is_reported_as_reset():
    async with running() as (broker, listening):
        reset(await broker.connected_to(listening))
        assert await broker.lost() == PeerLost(1, "reset", "Connection reset by peer")


async def test_socket_that_the_kernel_does_not_watch_is_reported_as_unreachable(monkeypatch):
    async with running() as (broker, listening):
        await trio.testing.wait_all_tasks_blocked()
        fail = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        monkeypatch.setattr(broker.shell.selector._selector, "register", fail)
        await broker.connected_to(listening)
        assert await broker.lost() == PeerLost(1, "unreachable", "No space left on device")


@pytest.mark.parametrize("in_order", [True, False])
async def test_a_send_that_fails_first_hides_neither_the_last_answers_nor_how_it_ended(in_order):
    async with connected() as (broker, stream):
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


@pytest.mark.parametrize(
    ("number", "how"), [(errno.ETIMEDOUT, "unreachable"), (errno.EHOSTUNREACH, "unreachable"), (errno.EPIPE, "closed")]
)
async def test_other_ends_are_reported_by_their_error(number, how, monkeypatch):
    async with connected() as (broker, stream):

        def fail(*_: object) -> int:
            raise OSError(number, "words")

        monkeypatch.setattr(AnswerBuffer, "receive", fail)
        await stream.send_all(b"x")
        assert await broker.lost() == PeerLost(1, how, "words")


async def test_a_killed_peer_is_seen_at_once_on_an_idle_connection():
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


async def test_a_silent_connection_that_a_broker_ends_after_a_time_worries_neither_side(caplog):
    """A watch connection asks once and is silent; a probe does not even ask."""

    def answer(event: Event) -> list[Effect]:
        return [Reply(event.connection_id, [frame(b"versions")])] if isinstance(event, FrameReceived) else []

    with caplog.at_level("INFO", logger="yak"):
        async with running() as (broker, _), running(FakeCore(reaction=answer), idle_ms_max=80) as (other, listening):
            other.shell.nursery.start_soon(Acceptor(other.shell).run, [Bound(PLAINTEXT_LISTENER, [listening])])
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
    assert caplog.records == []


async def test_all_of_them_end_with_the_nursery_and_quietly():
    core = FakeCore()
    async with running(core) as (broker, listening):
        stream = await broker.connected_to(listening)
        listening.listen(0)
        broker.ask(SendPeer(1, [bytes(12_000_000)]))
        broker.ask(ConnectPeer(2, "127.0.0.1", port_of(listening)), ConnectPeer(3, "no-such-host.invalid", 1))
    assert core.events == [PeerConnected(1)]
    stream.socket.close()
