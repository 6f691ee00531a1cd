"""Serves idle connections when their sockets are readable, all that are in one pass of the event loop.

A task that waits for its own socket costs a wake-up, and two changes of Trio's registrations, for each request. Here one
task waits for all sockets and runs the turns. A connection goes back to its own task when it left frames in its buffer,
must pause, or ends.
"""

import selectors
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from yak.server.connection import Connection


class ConnectionSelector:
    """The connections that wait for their sockets (the selector of Kafka's SocketServer.Processor)."""

    def __init__(self) -> None:
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
        tasks, selector = self._tasks, self._selector
        while True:
            await trio.lowlevel.wait_readable(selector.fileno())
            for key, _events in selector.select(0):
                connection = key.data
                # not in `tasks`: cancelled by a turn, perhaps its own
                if connection in tasks and not connection.serve_readable() and connection in tasks:
                    trio.lowlevel.reschedule(self._remove(connection))
