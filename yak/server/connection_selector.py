"""Serves connections whose sockets are readable, all that are in one pass of the event loop.

A task that waits for its own socket costs a wake-up, and two changes of Trio's registrations, for each request. Here
those that are readable in one pass are served in one turn, without a task (`io_wait`). So their replies leave together, and
the clients wake up once for several.

A connection that fills its slices takes its turns alone, and so does one that receives a large frame
(`Weight`): one of each kind has a turn in a pass, in order of arrival, so that others run in between. The first request of
a new connection does not wait for those. A connection goes back to its own task
when it must pause, or ends.
"""

import selectors
import time
from enum import Enum
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING, Protocol

import trio

from yak.limits import TURN_SLICE_NS
from yak.server.io_wait import Ready, SelectorWait

if TYPE_CHECKING:
    import socket

    from yak.server.shell import Shell


class Weight(Enum):
    """How a connection takes its turns."""

    LIGHT = 0
    """Together with others of the same pass."""
    OWN = 1
    """Alone, in each pass: a connection to another broker. Its responses may be large, and replies to clients leave first."""
    FURTHER = 2
    """Alone, one in a pass: its last turn filled a slice, or left frames that were received."""
    HEAVY = 3
    """Alone, one in a pass beside that: it filled many slices, or receives a large frame."""
    NEW = 4
    """Alone, as many in a pass as a slice has time for: its first request is cheap, and so does not wait for heavy ones."""


class ServedConnection(Protocol):
    """A connection, of a client or to another broker."""

    sock: "socket.socket"

    @property
    def weight(self) -> Weight:
        """How its next turn is taken."""

    @property
    def has_more(self) -> bool:
        """Whether it goes on without waiting for its socket."""

    def serve_readable(self) -> bool:
        """Step what one read brings; False if the connection's task must go on. Raises nothing."""

    def send_more(self) -> bool:
        """Send what the socket takes; True while there is more. Raises nothing."""


class ConnectionSelector:
    """The connections that wait for their sockets (the selector of Kafka's SocketServer.Processor)."""

    def __init__(self, shell: "Shell") -> None:
        self._shell = shell
        self._selector = selectors.DefaultSelector()
        self._events: dict[ServedConnection, int] = {}
        """What each connection waits for, as it is registered."""
        self._readers: dict[ServedConnection, trio.lowlevel.Task] = {}
        """The task of each connection that is served when it is readable."""
        self._further: dict[ServedConnection, None] = {}
        self._heavy: dict[ServedConnection, None] = {}
        self._new: dict[ServedConnection, None] = {}
        """Connections that wait for a turn alone, in order; their sockets are not watched meanwhile."""
        self._wait = SelectorWait(self._selector, self._serve, self._is_due)

    async def wait(self, connection: ServedConnection) -> None:
        """Serve a connection from here until its own task has to go on. Raises OSError if its socket cannot be watched."""
        self._watch_or_queue(connection)
        self._readers[connection] = trio.lowlevel.current_task()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._end_reading(connection)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def drain(self, connection: ServedConnection) -> None:
        """Let a connection send when its socket takes more, until it has sent all."""
        self._watch(connection, self._events.get(connection, 0) | EVENT_WRITE)

    def forget(self, connection: ServedConnection) -> None:
        """Stop watching a connection, whose socket is closed next."""
        if connection in self._events:
            self._watch(connection, 0)

    def has_queued(self, connection: ServedConnection) -> bool:
        """Whether a connection waits for its turn: it has sent bytes that were not read yet."""
        return connection in self._further or connection in self._heavy or connection in self._new

    def _end_reading(self, connection: ServedConnection) -> trio.lowlevel.Task:
        self._unwatch(connection)
        self._further.pop(connection, None)
        self._heavy.pop(connection, None)
        self._new.pop(connection, None)
        return self._readers.pop(connection)

    def _unwatch(self, connection: ServedConnection) -> None:
        """Stop watching for bytes."""
        self._watch(connection, self._events.get(connection, 0) & ~EVENT_READ)

    def _watch(self, connection: ServedConnection, events: int) -> None:
        before = self._events.get(connection, 0)
        if events == before:
            return
        if not events:
            del self._events[connection]
            self._selector.unregister(connection.sock)
            return
        if before:
            self._selector.modify(connection.sock, events, connection)
        else:
            self._selector.register(connection.sock, events, connection)
        self._events[connection] = events

    # ------------------------------------------------------------------------------------------------- the passes

    async def run(self) -> None:
        """The task that serves them."""
        await self._wait.run()

    def _is_due(self) -> bool:
        """Whether a connection waits for its turn, and for nothing else."""
        return bool(self._further or self._heavy or self._new)

    def _serve(self, ready: Ready) -> None:
        """One pass."""
        began_ns = time.perf_counter_ns()
        others = self._serve_light(ready)
        for connection in others:
            if connection not in self._readers:
                continue
            if connection.weight is Weight.OWN:
                self._serve_one(connection)
            else:
                self._enqueue(connection)
        if self._new:
            self._serve_new()
        for queue in (self._further, self._heavy):
            if queue:
                self._serve_first(queue)
        for connection in others:
            if self.has_queued(connection):
                self._unwatch(connection)
        self._shell.counters.served_ns += time.perf_counter_ns() - began_ns

    def _serve_light(self, ready: Ready) -> list[ServedConnection]:
        """Serve the light connections of one pass, in one turn, or several if it takes long. Returns the other readable ones."""
        shell, readers = self._shell, self._readers
        steady_ns = shell.clock.steady_ns
        others: list[ServedConnection] = []
        slice_end_ns = 0
        for key, events in ready:
            connection = key.data
            if events & EVENT_WRITE and not connection.send_more():
                self._watch(connection, self._events.get(connection, 0) & ~EVENT_WRITE)
            # not in `readers`: cancelled at the end of a turn, or while it was served
            if not events & EVENT_READ or connection not in readers:
                continue
            if connection.weight is not Weight.LIGHT:
                others.append(connection)
                continue
            now_ns = steady_ns()
            if now_ns > slice_end_ns:
                if slice_end_ns:
                    shell.end_turn()
                shell.begin_turn()
                slice_end_ns = now_ns + TURN_SLICE_NS
            if connection in readers:
                self._serve_one(connection)
        if slice_end_ns:
            shell.end_turn()
        return others

    def _serve_new(self) -> None:
        steady_ns = self._shell.clock.steady_ns
        slice_end_ns = steady_ns() + TURN_SLICE_NS
        while self._new and steady_ns() <= slice_end_ns:
            self._serve_first(self._new)

    def _serve_first(self, queue: dict[ServedConnection, None]) -> None:
        connection = next(iter(queue))
        del queue[connection]
        self._serve_one(connection)

    def _serve_one(self, connection: ServedConnection) -> None:
        readers = self._readers
        goes_on = connection.serve_readable()
        if connection not in readers:
            return
        try:
            if goes_on:
                self._watch_or_queue(connection)
                return
        except OSError:  # its task tries again, and ends
            pass
        trio.lowlevel.reschedule(self._end_reading(connection))

    def _watch_or_queue(self, connection: ServedConnection) -> None:
        if connection.has_more:
            self._unwatch(connection)
            self._enqueue(connection)
        else:
            self._watch(connection, self._events.get(connection, 0) | EVENT_READ)

    def _enqueue(self, connection: ServedConnection) -> None:
        weight = connection.weight
        queue = self._heavy if weight is Weight.HEAVY else self._new if weight is Weight.NEW else self._further
        queue[connection] = None
        self._wait.wake()
