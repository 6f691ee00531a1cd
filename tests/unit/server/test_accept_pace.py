"""The pace of accepting: a flood of connections leaves most of the event loop to the clients that are connected."""

import contextlib
import socket

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.unit.server.shell_rig import running


def test_a_flood_is_accepted_a_few_at_a_time() -> None:
    """The clock stands, so that the acceptor pauses until the test moves it."""

    async def main() -> list[int]:
        accepted = []
        async with running() as broker:
            with contextlib.ExitStack() as stack:
                for _ in range(20):
                    stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
                for _ in range(3):
                    await wait_all_tasks_blocked()
                    accepted.append(len(broker.shell.connections))
                    clock.jump(0.01)
        return accepted

    clock = MockClock()
    assert trio.run(main, clock=clock) == [4, 8, 12]
