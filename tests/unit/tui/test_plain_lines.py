"""`yak ui --plain`: lines until it is interrupted, or until nothing reads them."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from yak.commands.output import Output
from yak.tui import launch
from yak.tui.settings import UiSettings


class Silent:
    """A cluster in which nothing changes."""

    async def follow(self) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield


def test_plain_lines_of_a_silent_cluster_end_when_their_reader_closes_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "POLL_SECONDS", 0.01)
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        out = Output(stdout=pipe)
        polls: list[int] = []

        def require_reader() -> None:
            polls.append(1)
            if len(polls) == 3:
                os.close(read)
            out.require_reader()

        source: Any = Silent()
        with pytest.raises(BrokenPipeError):
            launch.run_plain(source, UiSettings(), print, require_reader)
    assert len(polls) == 3


class Growing:
    """A cluster of one broker, in which a topic is created whose partition has no leader."""

    async def ask(self, _method: str, path: str, *, params: Any = None) -> Any:
        assert (path, params) == ("/api/isr", {"topic": "orders"})
        places = {"replicas": [1], "isr": [1], "leader": None, "min_isr": 1, "high_watermark": None}
        return [{"topic": "orders", "partition": 0, "leader_epoch": 0, "partition_epoch": 0, **places}]

    async def follow(self) -> AsyncIterator[Any]:
        cluster = {
            "cluster_id": "c",
            "controller_id": 1,
            "controller_epoch": 1,
            "redis": {"state": "connected", "lost_ms": None},
        }
        yield {"kind": "snapshot", "time_ms": 1, "node_id": 1, "cluster": {**cluster, "brokers": []}, "partitions": []}
        yield {"kind": "topic-created", "time_ms": 2, "node_id": 1, "message": "", "topic": "orders", "partitions": 1}


def test_plain_health_has_the_partitions_of_a_topic_that_was_created_meanwhile() -> None:
    source: Any = Growing()
    lines: list[str] = []
    asyncio.run(launch.watch(source, UiSettings(is_ascii=True), lines.append))
    assert [line.partition("leaders ")[2] for line in lines if " leaders " in line] == ["0 of 0", "1 offline: orders-0"]
