"""Connections whose sockets are readable in one pass of the event loop."""

import select
import socket

import trio

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import ScriptedCore, running
from yak.core.events import CloseConnection, Effect


class ClosingCore(ScriptedCore):
    """A frame names the connections that it closes."""

    def _frame(self, connection_id: int, data: bytes) -> list[Effect]:
        self.turns[-1].append(data)
        return [CloseConnection(int(word), "asked to") for word in data.split()]


def serve(*frames: bytes) -> list[list[bytes]]:
    """The turns with frames when connection 1, 2, ... sent one each before one pass; all connections end."""

    async def main() -> list[list[bytes]]:
        core = ClosingCore()
        async with running(core=core) as broker:
            clients = []
            for count in range(1, len(frames) + 1):
                client = socket.create_connection(("127.0.0.1", broker.port))
                clients.append(client)
                while len(broker.shell.selector) < count:  # the first turns of a connection are its own task's
                    seen = len(core.turns)
                    client.sendall(frame(b"        "))
                    await broker.until(lambda seen=seen: len(core.turns) > seen)  # type: ignore[misc]
            core.turns = [[]]
            for client, data in zip(clients, frames, strict=True):
                client.sendall(frame(data))
            for connection in broker.shell.connections.values():
                assert select.select([connection.sock], [], [], 5)[0]  # the kernel may take a moment to pass it on
            await broker.until(lambda: bool(core.turns[0]))
            for client in clients:
                client.close()
            await broker.until(lambda: not broker.shell.connections)
            assert len(broker.shell.selector) == 0
        return [turn for turn in core.turns if turn]

    return trio.run(main)


def test_connections_readable_in_one_pass_are_all_served_in_one_turn() -> None:
    assert serve(b"        ", b"         ") == [[b"        ", b"         "]]


def test_connection_closed_earlier_in_the_pass_is_not_served() -> None:
    assert serve(b"2       ", b"        ") == [[b"2       "]]


def test_connection_that_closes_itself_leaves_the_selector() -> None:
    assert serve(b"1       ") == [[b"1       "]]
