"""One read of an instance: waits for records in a thread and detects a client that disconnects.

Records count as delivered once the answer is built and the client is still connected; all others stay for the next
read.
"""

from collections.abc import Callable

import trio
from starlette.requests import Request

from yak.server.http.consumers.failures import refusal, unknown_instance
from yak.server.http.consumers.inbox import Fetched
from yak.server.http.consumers.instances import Instance, Instances
from yak.server.http.consumers.records import NotJson, render
from yak.server.http.problems import Problem


async def read(instances: Instances, instance: Instance, request: Request, wait_s: float, bytes_max: int) -> bytes:
    """The answer's body. Records that the client may not receive stay for the next read."""
    consumer = instance.consumer
    consumer.begin()
    client = _Client(request, consumer.interrupt)
    failure: Problem | None = None
    body = b""
    given: list[Fetched] = []
    kept: list[Fetched] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.watch)
        try:
            body, given, kept = await instances.move(_read_in_thread, instances, instance, wait_s, bytes_max)
        except Problem as problem:  # kept out of the nursery, which would wrap it
            failure = problem
        instance.polled_at = trio.current_time()
        nursery.cancel_scope.cancel()
    if client.is_gone or instance.is_gone:
        given, kept = [], given + kept
    consumer.put_back(kept)
    consumer.given(given)
    if instance.is_gone:
        raise unknown_instance()
    if failure is not None:
        raise failure
    return body


def _read_in_thread(
    instances: Instances, instance: Instance, wait_s: float, bytes_max: int
) -> tuple[bytes, list[Fetched], list[Fetched]]:
    instances.follow_pattern(instance)
    taken = instance.consumer.read(wait_s, bytes_max)
    try:
        body, count = render(taken, instance.settings.data_format)
    except NotJson as error:
        instance.consumer.put_back(taken)
        first = taken[0]
        raise refusal(
            422,
            42203,
            "not-json",
            f"the record at offset {first.offset} of {first.partition} is not JSON: {error}",
            "read it with an instance of format binary, or skip it with POST .../positions",
        ) from None
    return body, taken[:count], taken[count:]


class _Client:
    """The client of a read, which may disconnect."""

    def __init__(self, request: Request, on_gone: Callable[[], None]) -> None:
        self.is_gone = False
        self._request = request
        self._on_gone = on_gone

    async def watch(self) -> None:
        """Wait for a disconnect; the request's body must have been read."""
        while not self.is_gone:
            message = await self._request.receive()
            self.is_gone = message["type"] == "http.disconnect"
        self._on_gone()
