"""A request whose task is cancelled while its answer begins, as when a broker stops."""

from types import SimpleNamespace
from typing import Any

import h11
import trio
from hypercorn.events import Closed, RawData

from yak.client.consumer import Inbox
from yak.ids import TopicPartition
from yak.server.http.connection import HttpConnection, _Inbox, _run
from yak.server.http.consumers.bodies import Settings
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.consumers.records import read_records


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


async def test_read_whose_connection_ends_keeps_its_records_for_the_next_read() -> None:
    inbox: Inbox[Fetched] = Inbox(lambda record: record.size_bytes)
    for offset in range(3):
        inbox.put(Fetched(TopicPartition("t", 0), offset, None, b"{}", None))
    consumer = SimpleNamespace(inbox=inbox)
    instance: Any = SimpleNamespace(consumer=consumer, settings=Settings(data_format="json"), is_gone=False)

    async def matchable(_instance: Any) -> None:
        pass

    async def move(*_work: Any) -> list[Fetched]:
        connection.cancel()
        return inbox.draw(1_000, 10)

    instances: Any = SimpleNamespace(matchable=matchable, move=move, check_topics=lambda _topics: None)
    request: Any = SimpleNamespace(receive=trio.sleep_forever)
    context: Any = None
    with trio.CancelScope() as connection:
        await read_records(context, instances, instance, request, 1.0, 1_000)
    assert connection.cancelled_caught
    assert [record.offset for record in inbox.draw(1_000, 10)] == [0, 1, 2]
    assert inbox.uncommitted() == {}
