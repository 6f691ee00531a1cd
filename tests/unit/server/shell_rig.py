"""A shell that listens on this host, with a core whose frames say what it does."""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import trio
import trio.abc

from tests.unit.plans import Calls
from tests.unit.server.frames import frame
from yak.config.listeners import PLAINTEXT_LISTENER, Listener, SecurityProtocol
from yak.core.events import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    Effect,
    Event,
    FrameReceived,
    MuteConnection,
    Reply,
    RunJob,
    TimerDue,
    TurnEnd,
)
from yak.server.listener import Acceptor
from yak.server.listening_sockets import Bound, bind, bound_port, start_listening
from yak.server.shell import ConnectionLimits, Shell
from yak.server.sweeper import run_sweeper
from yak.server.tls_listener import ListenerTls
from yak.sim.disk import SimDisk


class IdleCore:
    """A core that is never due, and holds nothing."""

    held_bytes = 0

    def next_due(self) -> int | None:
        return None

    def backlog(self, connection_id: int) -> int:
        return 0


@dataclass
class ScriptedCore(IdleCore):
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
        if word == b"mute....":
            return [Reply(connection_id, [frame(data)]), MuteConnection(connection_id)]
        if word == b"bug.....":
            raise ZeroDivisionError("a bug")
        if word == b"assert..":
            raise AssertionError("a broken invariant")
        if word == b"effect..":
            return [Reply(connection_id, [frame(data)]), RunJob(1, "no such kind", Calls(lambda: None))]  # type: ignore[arg-type]
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
    clients: list[trio.SocketStream] = field(default_factory=list)

    async def connect(self) -> trio.SocketStream:
        self.clients.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return self.clients[-1]

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(5):
            while not condition():  # noqa: ASYNC110 - what it looks at sets no event
                await trio.sleep(0.002)

    async def ends_healthy(self) -> None:
        """All clients close their connections, and the shell is healthy then."""
        for client in self.clients:
            await client.aclose()
        await self.is_healthy()

    async def is_healthy(self) -> None:
        """A new client is served, and all others are gone."""
        stream = await self.connect()
        assert await ask(stream, b"healthy?") == b"healthy?"
        await stream.aclose()
        await self.until(lambda: not self.shell.connections)
        assert self.shell.memory.held_bytes == 0
        assert len(self.core.of(ConnectionOpened)) == len(self.core.of(ConnectionClosed))


async def receive(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    """So many bytes, or those before the end."""
    data = bytearray()
    with trio.fail_after(10):
        while len(data) < size:
            more = await stream.receive_some(1 << 20)
            if not more:
                break
            data += more
    return bytes(data)


async def ask(stream: trio.abc.Stream, data: bytes) -> bytes:
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


class ProcessHalted(BaseException):
    """What `Shell.halt` does here instead of ending the process; its argument is the exit code."""


def halted(exit_code: int) -> NoReturn:
    raise ProcessHalted(exit_code)


@asynccontextmanager
async def running(
    limits: ConnectionLimits | None = None, core: Any = None, tls: ListenerTls | None = None
) -> AsyncIterator[Running]:
    core = core or ScriptedCore()
    own = PLAINTEXT_LISTENER if tls is None else Listener(tls.listener, SecurityProtocol(tls.listener), "127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, disk=SimDisk(), limits=limits, end_process=halted)
        sockets = bind("127.0.0.1", 0)
        start_listening(sockets, "127.0.0.1")
        acceptor = Acceptor(shell, {} if tls is None else {own.name: tls})
        nursery.start_soon(acceptor.run, [Bound(own, sockets)])
        nursery.start_soon(shell.run_timer)
        nursery.start_soon(shell.selector.run)
        nursery.start_soon(run_sweeper, shell, 0.02)
        try:
            yield Running(core, shell, bound_port(sockets))
        finally:
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def one_client(
    limits: ConnectionLimits | None = None, core: Any = None
) -> AsyncIterator[tuple[Running, trio.SocketStream]]:
    """A shell and a client, which closes its connection at the end: the shell is healthy then."""
    async with running(limits, core) as broker:
        stream = await broker.connect()
        yield broker, stream
        await broker.ends_healthy()
