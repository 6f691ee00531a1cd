"""One read of an instance: waits for records in a thread, detects a client that disconnects, and renders the records.

Records count as delivered once the answer is built and the client is still connected; all others stay for the next
read. They are embedded JSON, or base64 (JsonConsumerRecord.java, BinaryConsumerRecord.java). JSON is embedded byte by
byte, so that large numbers, the order of keys and spaces are unchanged. It is parsed first, since a topic may contain
any bytes.
"""

import json
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Final, NoReturn

import trio
from starlette.requests import Request

from yak.server.http.bodies import PARSED_AT_ONCE_BYTES_MAX, in_thread
from yak.server.http.consumers.bodies import DataFormat
from yak.server.http.consumers.failures import refusal, unknown_instance
from yak.server.http.consumers.instances import Instance, Instances, Matchable
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.context import Context
from yak.server.http.problems import Problem

_NULL: Final = b"null"
RENDERED_AT_ONCE_MAX: Final = 200
"""More records are rendered in a thread."""


async def read_records(
    context: Context, instances: Instances, instance: Instance, request: Request, wait_s: float, bytes_max: int
) -> bytes:
    """The answer's body. Records that the client may not receive stay for the next read.

    The body of the request must have been read.
    """
    consumer = instance.consumer
    consumer.is_interrupted = False
    failure: Problem | None = None
    body = b""
    delivered: list[Fetched] = []
    undelivered: list[Fetched] = []

    async def watch_client() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        consumer.is_interrupted = True

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_client)
            try:
                how = (await instances.matchable(instance), wait_s, bytes_max)
                taken = await instances.move(_read_in_thread, instances, instance, *how)
                _check_rights(instances, instance, taken)
                body, delivered, undelivered = await _rendered(context, instance, taken)
            except Problem as problem:  # raised outside the nursery, which would wrap it
                failure = problem
            instance.polled_at = trio.current_time()
            nursery.cancel_scope.cancel()
    except BaseException:  # cancelled with the connection: the client gets no answer
        consumer.inbox.put_back(delivered + undelivered)
        raise
    if consumer.is_interrupted or instance.is_gone:
        delivered, undelivered = [], delivered + undelivered
    consumer.inbox.put_back(undelivered)
    consumer.inbox.given(delivered)
    if instance.is_gone:
        raise unknown_instance()
    if failure is not None:
        raise failure
    return body


def _read_in_thread(
    instances: Instances, instance: Instance, found: Matchable | None, wait_s: float, bytes_max: int
) -> list[Fetched]:
    instances.follow_pattern(instance, found)
    return instance.consumer.read(wait_s, bytes_max)


def _check_rights(instances: Instances, instance: Instance, taken: list[Fetched]) -> None:
    """Raises Problem 40301 for a topic that the caller may no longer read. Its records stay for a later read."""
    try:
        instances.check_topics({each.topic_partition.topic: None for each in taken})
    except Problem:
        instance.consumer.inbox.put_back(taken)
        raise


async def _rendered(
    context: Context, instance: Instance, taken: list[Fetched]
) -> tuple[bytes, list[Fetched], list[Fetched]]:
    """The answer's body, the records in it, and the others. Rendering holds the GIL, so reads take turns."""
    data_format = instance.settings.data_format
    try:
        if len(taken) <= RENDERED_AT_ONCE_MAX and sum(each.size_bytes for each in taken) <= PARSED_AT_ONCE_BYTES_MAX:
            body, count = render(taken, data_format)
        else:
            body, count = await in_thread(context, render, taken, data_format)
    except BaseException as error:
        instance.consumer.inbox.put_back(taken)
        if not isinstance(error, NotJson):
            raise
        first = taken[0]
        raise refusal(
            422,
            42203,
            "not-json",
            f"the record at offset {first.offset} of {first.topic_partition} is not JSON: {error}",
            "read it with an instance of format binary, or skip it with POST .../positions",
        ) from None
    return body, taken[:count], taken[count:]


class NotJson(Exception):
    """A record that a JSON answer cannot contain; the message gives the reason."""


def render(records: Sequence[Fetched], data_format: DataFormat) -> tuple[bytes, int]:
    """The answer's body, and how many of the records it contains: those before the first one that is not JSON.

    Raises NotJson if that is the very first.
    """
    lines: list[bytes] = []
    as_value = _embedded if data_format == "json" else _base64
    for record in records:
        try:
            key, value = as_value(record.key), as_value(record.value)
        except NotJson:
            if not lines:
                raise
            break
        topic, partition = record.topic_partition
        lines.append(
            b'{"topic":"%b","key":%b,"value":%b,"partition":%d,"offset":%d}'
            % (topic.encode(), key, value, partition, record.offset)
        )
    return b"[%b]\n" % b",".join(lines), len(lines)


def _base64(raw: bytes | None) -> bytes:
    return _NULL if raw is None else b'"%b"' % b2a_base64(raw, newline=False)


def _embedded(raw: bytes | None) -> bytes:
    if raw is None:
        return _NULL
    try:
        # Numbers are not converted: one with a million digits takes Python minutes.
        json.loads(raw.decode(), parse_int=len, parse_float=len, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise NotJson(f"invalid UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise NotJson("nested too deep") from None
    except ValueError as error:
        raise NotJson(str(error)) from None
    return raw


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
