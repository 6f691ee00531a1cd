"""Serves idle connections when their sockets are readable, all that are in one pass of the event loop.

A task that waits for its own socket costs a wake-up, and two changes of Trio's registrations, for each request. Here one
task waits for all sockets, and serves those that are readable in one turn. So their replies leave together, and the clients
wake up once for several. A connection goes back to its own task when it left frames in its buffer, must pause, or ends.
"""

import selectors
from typing import TYPE_CHECKING

import trio

from yak.limits import TURN_SLICE_NS

if TYPE_CHECKING:
    from yak.server.connection import Connection
    from yak.server.shell import Shell


class ConnectionSelector:
    """The connections that wait for their sockets (the selector of Kafka's SocketServer.Processor)."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._selector = selectors.DefaultSelector()
        self._tasks: dict[Connection, trio.lowlevel.Task] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    async def wait(self, connection: "Connection") -> None:
        """Serve a connection from here until its own task has to go on."""
        self._tasks[connection] = trio.lowlevel.current_task()
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._remove(connection)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _remove(self, connection: "Connection") -> trio.lowlevel.Task:
        self._selector.unregister(connection.sock)
        return self._tasks.pop(connection)

    async def run(self) -> None:
        """The task that serves them."""
        shell, tasks, selector = self._shell, self._tasks, self._selector
        steady_ns = shell.clock.steady_ns
        while True:
            await trio.lowlevel.wait_readable(selector.fileno())
            shell.begin_turn()
            slice_end_ns = steady_ns() + TURN_SLICE_NS
            for key, _events in selector.select(0):
                if steady_ns() > slice_end_ns:
                    shell.end_turn()
                    shell.begin_turn()
                    slice_end_ns = steady_ns() + TURN_SLICE_NS
                connection = key.data
                # not in `tasks`: cancelled at the end of a turn, or while it was served
                if connection in tasks and not connection.serve_readable() and connection in tasks:
                    trio.lowlevel.reschedule(self._remove(connection))
            shell.end_turn()
