"""Connections whose sockets are readable in one pass of the event loop."""

import errno
import select
import socket
from unittest.mock import Mock

import pytest
import trio
import trio.testing

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import Running, ScriptedCore, ask, is_closed, running
from yak.core.events import CloseConnection, Effect
from yak.server import connection, connection_selector
from yak.server.connection_selector import Weight


@pytest.fixture(autouse=True)
def no_slice_is_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that loses its processor during a turn would fill a slice, and its next turn be one alone."""
    for module in (connection, connection_selector):
        monkeypatch.setattr(module, "TURN_SLICE_NS", 10**10)


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
                while len(broker.shell.selector._readers) < count:  # the first turns of a connection are its own task's
                    served = sum(map(len, core.turns))
                    client.sendall(frame(b"        "))
                    await broker.until(lambda served=served: sum(map(len, core.turns)) > served)  # type: ignore[misc]
            # one more pass: epoll puts sockets that were readable in the last one first
            await trio.testing.wait_all_tasks_blocked()
            core.turns = [[]]
            for client, data in zip(clients, frames, strict=True):
                client.sendall(frame(data))
            for each in broker.shell.connections.values():
                assert select.select([each.sock], [], [], 5)[0]  # the kernel may take a moment to pass it on
            await broker.until(lambda: bool(core.turns[0]))
            for client in clients:
                client.close()
            await broker.until(lambda: not broker.shell.connections)
            assert len(broker.shell.selector._readers) == 0
        return [turn for turn in core.turns if turn]

    return trio.run(main)


def test_connections_readable_in_one_pass_are_all_served_in_one_turn():
    assert serve(b"        ", b"         ") == [[b"        ", b"         "]]


def test_connection_closed_earlier_in_the_pass_is_not_served():
    assert serve(b"2       ", b"        ") == [[b"2       "]]


def test_connection_that_closes_itself_leaves_the_selector():
    assert serve(b"1       ") == [[b"1       "]]


class Fake:
    """A connection that notes whether it is served in the turn of others, and wants to end then."""

    has_more = False

    def __init__(self, name: str, weight: Weight, broker: Running, served: list[tuple[str, bool]]) -> None:
        self.name, self.weight, self._broker, self._served = name, weight, broker, served
        self.sock, self._other = socket.socketpair()
        self._other.sendall(b"x")

    def serve_readable(self) -> bool:
        self._served.append((self.name, self._broker.shell.in_turn))
        return False

    def send_more(self) -> bool:
        raise AssertionError("nothing is sent")

    def close(self) -> None:
        self.sock.close()
        self._other.close()


async def test_brokers_are_served_behind_the_turn_of_the_clients_and_one_heavy_connection_in_a_pass():
    served: list[tuple[str, bool]] = []
    weights = {"heavy": Weight.HEAVY, "broker": Weight.OWN, "other": Weight.HEAVY, "client": Weight.LIGHT}
    async with running() as broker:
        fakes = [Fake(name, weight, broker, served) for name, weight in weights.items()]
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                for each in fakes:
                    nursery.start_soon(broker.shell.selector.wait, each)
        for each in fakes:
            each.close()
    first, *others = served
    assert first == ("client", True)
    assert others[0] == ("broker", False)
    assert sorted(others[1:]) == [("heavy", False), ("other", False)]


@pytest.mark.parametrize(
    "frames", [b"", frame(b"the 1st.") + frame(b"the 2nd."), frame(b"the 1st.") + frame(b"big.....")]
)
async def test_connection_that_the_kernel_does_not_watch_ends_and_others_are_served(frames, monkeypatch):
    """epoll_ctl(2) fails with ENOSPC when the processes of a user watch too many files."""
    for module in (connection, connection_selector):  # a second frame waits for the next turn, and is not watched then
        monkeypatch.setattr(module, "TURN_SLICE_NS", -1)
    async with running() as broker:
        other, failing = await broker.connect(), await broker.connect()
        for each in (other, failing):
            assert await ask(each, b"before it") == b"before it"
        fail = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        with monkeypatch.context() as patched:
            patched.setattr(broker.shell.selector._selector, "register", fail)
            if frames:
                await failing.send_all(frames)
            else:
                failing = await broker.connect()
            assert await is_closed(failing)
        assert fail.called
        assert await ask(other, b"behind it") == b"behind it"
        await broker.ends_healthy()
