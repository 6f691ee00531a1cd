"""A request whose task is cancelled while its answer begins, as when a broker stops."""

from typing import Any

import h11
import trio
from hypercorn.events import Closed, RawData

from yak.server.http.connection import HttpConnection, _Inbox, _run


async def test_a_second_head_that_cannot_be_sent_ends_nothing_but_the_request() -> None:
    sent: list[Any] = []

    async def app(*_arguments: Any) -> None:
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)
        raise h11.LocalProtocolError("can't handle event type Response when role=SERVER and state=SEND_BODY")

    with trio.move_on_after(0.01) as scope:
        await _run(app, {}, _Inbox(1), send)  # type: ignore[arg-type]
    assert scope.cancelled_caught
    assert sent == [None]


class BusyStream:
    """A stream that another task is closing."""

    async def send_all(self, _data: bytes) -> None:
        raise trio.BusyResourceError("another task is using this stream for send")


class Protocol:
    """Takes events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def handle(self, event: Any) -> None:
        self.events.append(event)


async def test_answer_on_a_connection_that_another_answer_is_closing_counts_as_closed() -> None:
    connection: Any = object.__new__(HttpConnection)
    connection.stream, connection.protocol = BusyStream(), Protocol()
    connection.send_lock = trio.Lock()
    await connection.protocol_send(RawData(b"HTTP/1.1 400 \r\n"))
    assert [type(event) for event in connection.protocol.events] == [Closed]
