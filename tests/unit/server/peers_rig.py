"""A shell whose core asks for connections to peers, and a socket of the test's to be the peer."""

import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import trio

from tests.unit.server.shell_rig import IdleCore, halted
from yak.core.events import ConnectPeer, Effect, Event, PeerAnswered, PeerConnected, PeerLost, TurnEnd
from yak.server.shell import ConnectionLimits, Shell
from yak.sim.disk import SimDisk

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class FakeCore(IdleCore):
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
        assert len(self.shell.peers._connections) == 0
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
        selecting = await stack.enter_async_context(trio.open_nursery())
        nursery = await stack.enter_async_context(trio.open_nursery())
        core = core or FakeCore()
        shell = Shell(core, nursery, disk=SimDisk(), limits=ConnectionLimits(**limits), end_process=halted)
        selecting.start_soon(shell.selector.run)
        yield Running(core, shell), listening
        assert shell.counters.bugs == 0
        nursery.cancel_scope.cancel()
        selecting.cancel_scope.cancel()


@asynccontextmanager
async def connected(core: FakeCore | None = None, **limits: int) -> AsyncIterator[tuple[Running, trio.SocketStream]]:
    """A shell with a connection to a peer, and its other side."""
    async with running(core, **limits) as (broker, listening):
        yield broker, await broker.connected_to(listening)


def reset(stream: trio.SocketStream) -> None:
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    stream.socket.close()


@asynccontextmanager
async def full(listening: socket.socket) -> AsyncIterator[None]:
    """The socket takes no more connections meanwhile."""
    listening.listen(0)
    with socket.socket() as first, socket.socket() as second:
        for sock in (first, second):
            sock.setblocking(False)
            assert sock.connect_ex(listening.getsockname()) in (0, errno.EINPROGRESS)
        await trio.sleep(0.02)
        yield
