"""A muted connection is answered and not read until it is unmuted; others are served meanwhile."""

import pytest
import trio

from tests.unit.server.frames import frame
from tests.unit.server.shell_rig import ask, receive, running
from yak.core.events import CloseConnection, ConnectionClosed, MuteConnection, UnmuteConnection

MUTE, LATER = b"mute.... now", b"a later request"


async def muted(broker):
    """A connection that was muted by the first of three requests in one packet."""
    stream = await broker.connect()
    await stream.send_all(frame(MUTE) + frame(LATER) + frame(LATER))
    assert await receive(stream, len(frame(MUTE))) == frame(MUTE)
    (connection,) = broker.shell.connections.values()
    await broker.until(lambda: connection.relief is not None)
    return stream, connection


async def test_requests_behind_the_one_that_mutes_wait_for_the_end_of_it() -> None:
    async with running() as broker:
        stream, connection = await muted(broker)
        await stream.send_all(frame(LATER))
        other = await broker.connect()
        assert await ask(other, b"another client") == b"another client"
        await other.aclose()
        with trio.move_on_after(0.1):
            assert await stream.receive_some() == b"nothing"
        assert [each for turn in broker.core.turns for each in turn if each == LATER] == []
        assert broker.shell.counters.pauses == 0
        broker.shell.carry_out([UnmuteConnection(connection.connection_id)])
        assert await receive(stream, 3 * len(frame(LATER))) == 3 * frame(LATER)
        await broker.ends_healthy()


async def test_connection_muted_for_two_reasons_is_read_after_the_end_of_both() -> None:
    async with running() as broker:
        stream, connection = await muted(broker)
        broker.shell.carry_out([MuteConnection(connection.connection_id)])
        broker.shell.carry_out([UnmuteConnection(connection.connection_id)])
        with trio.move_on_after(0.1):
            assert await stream.receive_some() == b"nothing"
        broker.shell.carry_out([UnmuteConnection(connection.connection_id)])
        assert await receive(stream, 2 * len(frame(LATER))) == 2 * frame(LATER)
        await broker.ends_healthy()


async def test_muted_client_that_closes_is_disconnected() -> None:
    async with running() as broker:
        stream = await broker.connect()
        assert await ask(stream, MUTE) == MUTE
        await stream.aclose()
        await broker.until(lambda: bool(broker.core.of(ConnectionClosed)))
        await broker.is_healthy()


@pytest.mark.parametrize("later", [0, 3])
async def test_muted_client_that_closed_its_side_is_served_after_the_end_of_the_mute(later: int) -> None:
    """A client without acknowledgements closes right after its last records; its quota holds for these too."""
    async with running() as broker:
        stream, connection = await muted(broker)
        await stream.send_all(later * frame(LATER))
        await stream.send_eof()
        with trio.move_on_after(0.2):
            assert await stream.receive_some() == b"nothing"
        assert [each for turn in broker.core.turns for each in turn if each == LATER] == []
        broker.shell.carry_out([UnmuteConnection(connection.connection_id)])
        assert await receive(stream, (2 + later) * len(frame(LATER))) == (2 + later) * frame(LATER)
        await broker.until(lambda: bool(broker.core.of(ConnectionClosed)))
        await broker.is_healthy()


async def test_a_muted_connection_is_closed_by_the_broker() -> None:
    async with running() as broker:
        stream, connection = await muted(broker)
        broker.shell.begin_turn()
        broker.shell.carry_out([CloseConnection(connection.connection_id, "too many connections")])
        broker.shell.end_turn()
        assert await receive(stream, 1) == b""
        await broker.ends_healthy()


async def test_unmuting_a_connection_that_no_longer_exists_does_nothing() -> None:
    async with running() as broker:
        broker.shell.carry_out([UnmuteConnection(99)])
        await broker.is_healthy()
