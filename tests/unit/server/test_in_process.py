"""Questions of this process to its own core: answered, refused, given up, and what a bug costs."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from tests.unit.server.shell_rig import IdleCore, ProcessHalted, halted
from yak.core.events import (
    CloseConnection,
    ConnectionClosed,
    ConnectionOpened,
    Effect,
    Event,
    FrameReceived,
    Reply,
    TurnEnd,
)
from yak.server.in_process import ClosedByBroker
from yak.server.shell import Shell
from yak.sim.disk import SimDisk


class Core(IdleCore):
    """Echoes frames; a first word asks for something else. What is held is answered at `release`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.held: list[tuple[int, bytes]] = []

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, TurnEnd):
            return []
        self.events.append(event)
        if not isinstance(event, FrameReceived):
            return []
        data = bytes(event.frame)
        word = data.split(b" ")[0]
        if word == b"bug":
            raise ZeroDivisionError("a bug")
        if word == b"close":
            return [CloseConnection(event.connection_id, "it is no request")]
        if word == b"hold":
            self.held.append((event.connection_id, data))
            return []
        if word == b"silent":
            return []
        return [reply(event.connection_id, data)]

    def opened(self) -> list[int]:
        return [event.connection_id for event in self.events if isinstance(event, ConnectionOpened)]

    def closed(self) -> list[int]:
        return [event.connection_id for event in self.events if isinstance(event, ConnectionClosed)]


def reply(connection_id: int, data: bytes) -> Reply:
    return Reply(connection_id, [struct.pack(">i", len(data)), data])


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Shell, Core]]:
    core = Core()
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, disk=SimDisk())  # type: ignore[arg-type]
        yield shell, core
        nursery.cancel_scope.cancel()
    assert len(shell.in_process._questions) == 0
    assert sorted(core.opened()) == sorted(core.closed())


async def test_an_answer_comes_back_without_its_length() -> None:
    async with running() as (shell, core):
        assert await shell.in_process.ask(b"hello") == b"hello"
        assert core.events[0] == ConnectionOpened(-1, "in-process", is_in_process=True)
        assert await shell.in_process.ask(b"again", "somebody") == b"again"
        assert core.opened() == [-1, -2]
        assert ConnectionOpened(-2, "somebody", is_in_process=True) in core.events


async def test_a_late_answer_holds_up_no_other_question() -> None:
    async with running() as (shell, core):
        answers: dict[bytes, bytes] = {}

        async def ask(frame: bytes) -> None:
            answers[frame] = await shell.in_process.ask(frame)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(ask, b"hold %d" % number)
            await trio.testing.wait_all_tasks_blocked()
            assert await shell.in_process.ask(b"quick") == b"quick"
            assert len(shell.in_process._questions) == 3
            shell.carry_out([reply(connection_id, data + b"!") for connection_id, data in reversed(core.held)])
        assert answers == {b"hold %d" % number: b"hold %d!" % number for number in range(3)}


async def test_frame_that_the_core_refuses_raises_closed() -> None:
    async with running() as (shell, _):
        with pytest.raises(ClosedByBroker, match="it is no request"):
            await shell.in_process.ask(b"close me")
        with pytest.raises(ClosedByBroker, match="it is no request"):
            shell.in_process.send(b"close me")
        assert await shell.in_process.ask(b"hello") == b"hello"


def test_exception_out_of_core_in_a_question_halts_process() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await Shell(Core(), nursery, disk=SimDisk(), end_process=halted).in_process.ask(b"bug")  # type: ignore[arg-type]

    with pytest.raises(BaseExceptionGroup) as raised:
        trio.run(main)
    assert raised.value.subgroup(ProcessHalted)


async def test_cancelled_in_process_request_is_dropped_and_so_is_its_late_response() -> None:
    async with running() as (shell, core):
        with trio.move_on_after(0.01) as scope:
            await shell.in_process.ask(b"hold on")
        assert scope.cancelled_caught
        assert core.closed() == core.opened()
        shell.carry_out([reply(*core.held[0])])
        shell.carry_out([CloseConnection(core.held[0][0], "too late")])
        assert await shell.in_process.ask(b"hello") == b"hello"


async def test_request_without_response_waits_for_nothing() -> None:
    async with running() as (shell, core):
        shell.in_process.send(b"silent")
        assert [type(event) for event in core.events] == [ConnectionOpened, FrameReceived, ConnectionClosed]
        shell.in_process.send(b"echoed")  # an answer that nobody waits for
        assert await shell.in_process.ask(b"hello") == b"hello"


async def test_an_answer_is_a_copy() -> None:
    async with running() as (shell, core):
        lent = bytearray(b"answer")

        def step(event: Event, now_ms: int) -> list[Effect]:
            core.events.append(event)
            if isinstance(event, FrameReceived):
                return [Reply(event.connection_id, [struct.pack(">i", len(lent)), memoryview(lent)])]
            if isinstance(event, TurnEnd):
                lent[:] = b"reused"
            return []

        core.step = step  # type: ignore[method-assign]
        assert await shell.in_process.ask(b"hello") == b"answer"
        core.events = [event for event in core.events if not isinstance(event, TurnEnd)]
