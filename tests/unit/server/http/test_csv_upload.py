"""An upload whose topic is deleted between two batches: its counts, and the lines that its error names."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.server.http.fake_context import context_of, image_of
from tests.unit.server.http.test_record_producer import Leader
from yak.errors import ErrorCode
from yak.server.http.authentication import CALLER, Caller
from yak.server.http.problems import Problem
from yak.server.http.routes.csv_upload import CsvRows, CsvUpload
from yak.server.http.topic_partitions import METADATA


async def test_upload_whose_topic_is_deleted_names_the_lines_that_are_not_written(autojump_clock: Any) -> None:
    CALLER.set(Caller())
    leader = Leader()

    def answer(key: int, fields: Any, node: int) -> Any:
        if key == METADATA:
            return SimpleNamespace(topics=[SimpleNamespace(error_code=ErrorCode.unknown_topic_or_partition)])
        return leader(key, fields, node)

    context: Any = context_of(image_of({"t": [1]}), answer, csv_rows_per_batch=2)
    context.broker.config.auto_create_topics_enable = False

    async def pieces() -> AsyncIterator[bytes]:
        yield b"id\n1\n2\n"
        context.broker.image = image_of({})
        yield b"3\n4,one too many\n5\n6\n"

    upload = CsvUpload(context, "t", pieces(), CsvRows("utf-8", ",", 1000), None)
    await upload.begin()
    with pytest.raises(Problem) as stopped:
        async for _ in upload.upload_rest():
            pass
    assert (stopped.value.status, stopped.value.error) == (404, "unknown-topic-or-partition")
    assert (
        stopped.value.hint == "all lines to 3 are done; some of lines 4 to 4 are not written; no later line is written"
    )
    found = upload.progress
    assert (found.rows, found.written, found.failed) == (4, 2, 2)
    assert found.failures == [
        {"line": 5, "why": "it has 2 cells, the header has 1"},
        {"line": 4, "why": stopped.value.message},
    ]
