"""Records are decoded and rendered by one thread at a time: many would hold the GIL in turn, and the loop would wait."""

import threading
import time
from types import SimpleNamespace

import pytest
import trio
from fake_context import context_of, image_of

from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.protocol.record_writer import build_batch
from yak.server.http import record_reader
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

    def walk_from(self, *given, **more):
        with self._lock:
            self.count += 1
            self.calls += 1
            self.most = max(self.most, self.count)
        time.sleep(0.02)
        try:
            return record_reader.walk_from(*given, **more)
        finally:
            with self._lock:
                self.count -= 1


async def consumed(context):
    query = {"topic": "t", "partition": "0", "offset": "0", "max_messages": "1000"}
    params = SimpleNamespace(getlist=lambda name: [query[name]] if name in query else [])
    await consume.consume(context, SimpleNamespace(query_params=params))


async def streamed(context):
    async def write(_data):
        pass

    with trio.move_on_after(0.2):
        await stream.RecordStream(context, {PLACE: 0}, "json").run(write)


@pytest.mark.parametrize(("module", "read"), [(consume, consumed), (stream, streamed)])
def test_records_are_decoded_by_one_thread_at_a_time(module, read, monkeypatch):
    decoding = Decoding()
    monkeypatch.setattr(module, "walk_from", decoding.walk_from)

    async def main():
        context = context_of(image_of({"t": [1]}), answer)
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(read, context)

    trio.run(main)
    assert decoding.calls >= 4
    assert decoding.most == 1
