"""The pace of accepting: a flood of connections leaves most of the event loop to the clients that are connected."""

import contextlib
import itertools
import socket

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.unit.server.shell_rig import running
from yak.server import listener


def accepted_of(flood: int) -> list[int]:
    """How many connections of a flood are accepted at first and after each of two pauses.

    The clock stands, so that the acceptor pauses until this moves it.
    """

    async def main() -> list[int]:
        accepted = []
        async with running() as broker:
            with contextlib.ExitStack() as stack:
                for _ in range(flood):
                    stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
                for _ in range(3):
                    await wait_all_tasks_blocked()
                    accepted.append(len(broker.shell.connections))
                    clock.jump(0.01)
        return accepted

    clock = MockClock()
    return trio.run(main, clock=clock)


def test_a_flood_is_accepted_a_few_at_a_time():
    assert accepted_of(20) == [4, 8, 12]


@pytest.mark.parametrize(("worked_ms", "accepted"), [(3, [4, 8, 12]), (10, [4, 14, 24]), (1000, [4, 68, 80])])
def test_more_of_a_flood_are_accepted_after_the_event_loop_was_busy(monkeypatch, worked_ms, accepted):
    times_ns = itertools.count(0, worked_ms * 1_000_000)
    monkeypatch.setattr(listener.time, "thread_time_ns", lambda: next(times_ns))
    assert accepted_of(80) == accepted
