"""A request whose task is cancelled while its answer begins, as when a broker stops."""

from typing import Any

import h11
import trio

from yak.server.http.connection import _Inbox, _run


def test_a_second_head_that_cannot_be_sent_ends_nothing_but_the_request() -> None:
    sent: list[Any] = []

    async def app(*_arguments: Any) -> None:
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)
        raise h11.LocalProtocolError("can't handle event type Response when role=SERVER and state=SEND_BODY")

    async def main() -> None:
        with trio.move_on_after(0.01) as scope:
            await _run(app, {}, _Inbox(1), send)  # type: ignore[arg-type]
        assert scope.cancelled_caught

    trio.run(main)
    assert sent == [None]
