"""Random traffic of many connections: every request is answered exactly once, in order, within a bound.

The clients cut their frames anywhere, pipeline more requests than are stepped at once, read slowly, or leave in the
middle. The core answers at once, later, without bytes (acks=0), with large answers, and mutes connections. Memory is
short, so every reason for which the shell stops reading a connection occurs.
"""

import heapq
import random
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import pytest
import trio
import trio.abc

from tests.unit.server.shell_rig import Running, running
from tests.unit.server.tls_rig import running_tls, secured, trusting
from yak.core.events import (
    ConnectionClosed,
    Effect,
    Event,
    FrameReceived,
    MuteConnection,
    Reply,
    TimerDue,
    UnmuteConnection,
)
from yak.server.shell import ConnectionLimits

NOW, LATER, SILENT, SILENT_LATER, MUTE = range(5)
Connect: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
HEAD = struct.Struct(">iBBI")
"""Number, kind, delay in ms, bytes of the answer."""


class Call:
    def __init__(self, answer: bytes | None) -> None:
        self.answer, self.is_done = answer, False


class DelayingCore:
    """Answers a connection's requests in order, each when its delay has passed, as `yak.broker.connections` does."""

    def __init__(self) -> None:
        self.calls: dict[int, deque[Call]] = {}
        self.due: list[tuple[int, int, int, Call | None]] = []
        self.count = 0
        self.effects: list[Effect] = []
        self.held_bytes = 0

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, FrameReceived):
            self._frame(event.connection_id, event.frame, now_ms)
        elif isinstance(event, ConnectionClosed):
            for call in self.calls.pop(event.connection_id, ()):
                self.held_bytes -= len(call.answer or b"")
        elif isinstance(event, TimerDue):
            while self.due and self.due[0][0] <= now_ms:
                _, _, connection_id, call = heapq.heappop(self.due)
                if call is None:
                    self.effects.append(UnmuteConnection(connection_id))
                else:
                    call.is_done = True
                    self._release(connection_id)
        effects, self.effects = self.effects, []
        return effects

    def _frame(self, connection_id: int, data: memoryview, now_ms: int) -> None:
        number, kind, delay_ms, answer_bytes = HEAD.unpack_from(data)
        answer = struct.pack(">ii", answer_bytes + 4, number) + bytes(answer_bytes)
        call = Call(None if kind in (SILENT, SILENT_LATER) else answer)
        calls = self.calls.setdefault(connection_id, deque())
        if kind == MUTE:
            self.effects.append(MuteConnection(connection_id))
            self._later(now_ms + delay_ms, connection_id, None)
        if kind in (LATER, SILENT_LATER):
            self._later(now_ms + delay_ms, connection_id, call)
        elif not calls:
            if call.answer is not None:
                self.effects.append(Reply(connection_id, [call.answer]))
            return
        elif call.answer is None:
            return
        else:
            call.is_done = True
        calls.append(call)
        self.held_bytes += len(call.answer or b"")

    def _later(self, due_ms: int, connection_id: int, call: Call | None) -> None:
        self.count += 1
        heapq.heappush(self.due, (due_ms, self.count, connection_id, call))

    def _release(self, connection_id: int) -> None:
        calls = self.calls.get(connection_id, deque())
        while calls and calls[0].is_done:
            call = calls.popleft()
            self.held_bytes -= len(call.answer or b"")
            self.effects.append(Reply(connection_id, [] if call.answer is None else [call.answer]))

    def next_due(self) -> int | None:
        return self.due[0][0] if self.due else None

    def backlog(self, connection_id: int) -> int:
        return len(self.calls.get(connection_id, ()))


class Client:
    """One connection with a script that its seed gives."""

    def __init__(self, connect: Connect, seed: str) -> None:
        self.connect, self.rng = connect, random.Random(seed)
        rng = self.rng
        self.leaves = rng.random() < 0.2
        """Closes its connection in the middle; no answer is expected then."""
        self.reads_slowly = rng.random() < 0.3
        sizes = rng.choice(([0], [0, 100, 3_000], [0, 20_000, 150_000], [0, 0, 0, 400_000]))
        answers = rng.choice(([0], [0, 100], [0, 100, 200_000]))
        kinds = rng.choice(
            (
                [NOW],
                [NOW, LATER],
                [LATER, SILENT, SILENT_LATER],
                [NOW, LATER, MUTE],
                [NOW, LATER, SILENT_LATER, MUTE],
            )
        )
        self.requests = [
            (number, rng.choice(kinds), rng.choice((0, 1, 5, 20)), rng.choice(sizes), rng.choice(answers))
            for number in range(rng.choice((3, 20, 60)))
        ]
        self.expected = [each for each in self.requests if each[1] not in (SILENT, SILENT_LATER)]
        self.answered = self.received_bytes = 0

    async def run(self) -> None:
        stream = await self.connect()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                if self.leaves:
                    nursery.start_soon(self._leave, scope)
                nursery.start_soon(self._send, stream)
                await self._receive(stream)
        await trio.aclose_forcefully(stream)

    async def _leave(self, scope: trio.CancelScope) -> None:
        await trio.sleep(self.rng.random() * 0.05)
        scope.cancel()

    async def _send(self, stream: trio.abc.Stream) -> None:
        rng = self.rng
        data = b"".join(
            struct.pack(">i", HEAD.size + size) + HEAD.pack(number, kind, delay_ms, answer_bytes) + bytes(size)
            for number, kind, delay_ms, size, answer_bytes in self.requests
        )
        start = 0
        while start < len(data):
            end = start + rng.choice((1, 7, 1_000, 30_000, 1 << 20))
            await stream.send_all(data[start:end])
            start = end
            if rng.random() < 0.3:
                await trio.sleep(rng.random() * 0.003)

    async def _receive(self, stream: trio.abc.Stream) -> None:
        data = bytearray()
        for number, _kind, _delay_ms, _size, answer_bytes in self.expected:
            while len(data) < 8 + answer_bytes:
                if self.reads_slowly:
                    await trio.sleep(self.rng.random() * 0.003)
                more = await stream.receive_some(self.rng.choice((100, 5_000, 1 << 18)))
                assert more, f"closed before answer {number}"
                data += more
                self.received_bytes += len(more)
            assert struct.unpack_from(">ii", data) == (answer_bytes + 4, number)
            del data[: 8 + answer_bytes]
            self.answered += 1
        assert not data


async def fail_without_progress(clients: list[Client]) -> None:
    """A busy machine may be slow, but an exchange in which no byte arrives for this long has a lost wake-up."""
    before = -1
    while (received := sum(each.received_bytes for each in clients)) != before:
        before = received
        await trio.sleep(5)
    waiting = [f"{each.answered} of {len(each.expected)}" for each in clients if each.answered < len(each.expected)]
    pytest.fail(f"not all is answered: {waiting}")


async def exchange(broker: Running, seed: int, connect: Connect) -> None:
    clients = [Client(connect, f"{seed} {index}") for index in range(16)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_without_progress, clients)
        async with trio.open_nursery() as exchanges:
            for client in clients:
                exchanges.start_soon(client.run)
        nursery.cancel_scope.cancel()
    await broker.until(lambda: not broker.shell.connections)
    assert broker.shell.memory.held_bytes == 0
    assert broker.shell.counters.bugs == 0


def limits_of(seed: int) -> ConnectionLimits:
    rng = random.Random(seed)
    return ConnectionLimits(
        first_byte_ms_max=60_000,  # a busy machine may leave a client without a turn for seconds
        frame_ms_max=lambda _bytes: 60_000,
        in_flight_max=rng.choice((1, 2, 5)),
        unsent_reply_bytes_max=rng.choice((1_000, 100_000)),
        memory_bytes_max=rng.choice((50_000, 300_000, 1 << 30)),
    )


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_of_any_traffic_is_answered_once_and_in_order(seed):
    limits = limits_of(seed)
    async with running(limits, core=DelayingCore()) as broker:  # type: ignore[arg-type]
        await exchange(broker, seed, broker.connect)


@pytest.mark.parametrize("seed", range(2))
async def test_every_request_of_any_traffic_under_tls_is_answered_once_and_in_order(known, seed):
    limits = limits_of(seed)
    core = DelayingCore()
    async with running_tls(known.configs, limits, core) as (broker, _tls):  # type: ignore[arg-type]
        await exchange(broker, seed, partial(secured, broker, trusting(known)))
