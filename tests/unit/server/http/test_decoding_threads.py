"""Large answers are decoded and rendered by one thread at a time: many would hold the GIL in turn, and the loop would wait."""

import json
import threading
import time
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
import trio

from tests.unit.server.http.fake_context import context_of, image_of
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.protocol.record_writer import build_batch
from yak.server.http import answers
from yak.server.http.consumers import records
from yak.server.http.consumers.bodies import Settings
from yak.server.http.consumers.kafka_consumer import Fetched
from yak.server.http.events import stream as event_stream
from yak.server.http.other_brokers import BrokerAnswer
from yak.server.http.routes import consume, stream

PLACE = TopicPartition("t", 0)
LARGE = build_batch([(None, b"x" * 100)] * 1_000, 1)


def answer(_key, fields, _node):
    found = SimpleNamespace(
        partition_index=0,
        error_code=ErrorCode.none,
        records=LARGE,
        aborted_transactions=None,
        high_watermark=1_000,
        log_start_offset=0,
    )
    return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(topic="t", partitions=[found])])


class Decoding:
    """Counts the threads that decode at the same time."""

    def __init__(self):
        self.count = self.most = self.calls = 0
        self._lock = threading.Lock()

    def of(self, function):
        """The function, with its calls counted."""

        def counted(*given, **more):
            with self._lock:
                self.count += 1
                self.calls += 1
                self.most = max(self.most, self.count)
            time.sleep(0.02)
            try:
                return function(*given, **more)
            finally:
                with self._lock:
                    self.count -= 1

        return counted


async def consumed(context):
    query = {"topic": "t", "partition": "0", "offset": "0", "max_messages": "1000"}
    params = SimpleNamespace(getlist=lambda name: [query[name]] if name in query else [])
    await consume.consume(context, SimpleNamespace(query_params=params))


async def streamed(context):
    with trio.CancelScope() as until_written:

        async def write(data):
            if len(data) > 1_000:
                until_written.cancel()

        await stream.RecordStream(context, {PLACE: 0}, "json", stream.ids_of(context, ["t"])).run(write)


class Consumer:
    """Has many records for a read."""

    def __init__(self):
        self.back = []
        self.inbox = self

    def read(self, _wait_s, _bytes_max):
        return [Fetched(PLACE, offset, None, b"{}", None) for offset in range(2_000)]

    def put_back(self, records):
        self.back += records

    def begin(self):
        pass

    interrupt = begin

    def given(self, records):
        self.received = records


async def consumed_by_instance(context):
    instances = SimpleNamespace(
        follow_pattern=lambda *_: None,
        matchable=AsyncMock(return_value=None),
        move=trio.to_thread.run_sync,
        check_topics=lambda _topics: None,
    )
    made = SimpleNamespace(consumer=Consumer(), settings=Settings(data_format="json"), is_gone=False)
    request = SimpleNamespace(receive=trio.sleep_forever)
    await records.read_records(context, instances, made, request, 1.0, 1 << 20)
    assert len(made.consumer.received) == 2_000
    assert made.consumer.back == []


async def answered_by_another_broker(context):
    answer = BrokerAnswer(200, b"[%b]" % (b" " * 200_000))
    assert await answer.json(context) == []


async def listed(context):
    assert len((await answers.large_answer(context, lambda: [0] * 1_000, 1_000)).body) == 2_002


async def snapshot(context):
    async def rows(*_):
        return []

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(event_stream, "all_rows", rows)
    context.parts[event_stream.cluster_view] = SimpleNamespace(present=dict)
    events = event_stream.EventStream.__new__(event_stream.EventStream)
    events._context, events._request = (
        context,
        SimpleNamespace(subscription=SimpleNamespace(wish=SimpleNamespace(topic=None))),
    )
    ring = SimpleNamespace(event_id=str, next=1)
    assert (await events._snapshot(ring)).startswith(b"id: 0\nevent: snapshot\ndata: {")


@pytest.mark.parametrize(
    ("module", "name", "read"),
    [
        (consume, "walk_from", consumed),
        (stream, "walk_from", streamed),
        (records, "render", consumed_by_instance),
        (event_stream, "large_json_bytes", snapshot),
        (answers, "large_json_bytes", listed),
        (json, "loads", answered_by_another_broker),
    ],
)
async def test_large_answers_are_made_by_one_thread_at_a_time(module, name, read, monkeypatch):
    decoding = Decoding()
    monkeypatch.setattr(module, name, decoding.of(getattr(module, name)))
    context = context_of(image_of({"t": [1]}), answer)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(read, context)
    assert decoding.calls >= 4
    assert decoding.most == 1
