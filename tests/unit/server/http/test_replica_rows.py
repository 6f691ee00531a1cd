"""Rows of partitions that other brokers lead: what the leader alone knows comes from the leader."""

from types import SimpleNamespace
from typing import Any

import pytest

from yak.server.http import replica_rows
from yak.views.replicas import PartitionFilter

LED = {"topic": "orders", "partition": 0, "leader_epoch": 3, "topic_id": "x", "leader": 2, "state": "ok"}
OFFSETS = {"high_watermark": None, "log_end_offsets": {"2": None}}


async def test_leader_whose_log_is_offline_is_none_on_the_other_brokers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def own_rows(*_: Any) -> list[Any]:
        return [{**LED, **OFFSETS}, {**LED, **OFFSETS, "partition": 1}]

    async def ask(_context: Any, node_id: int, _wanted: Any, reported: dict[Any, Any]) -> None:
        assert node_id == 2
        reported["orders", 0, 3] = {**LED, **OFFSETS, "leader": None, "state": "offline"}
        reported["orders", 1, 3] = {**LED, "high_watermark": 5, "log_end_offsets": {"2": 6}}

    monkeypatch.setattr(replica_rows, "own_rows", own_rows)
    monkeypatch.setattr(replica_rows, "_ask", ask)
    context: Any = SimpleNamespace(broker=SimpleNamespace(node_id=1))
    found = await replica_rows.all_rows(context, PartitionFilter())
    assert [(row["leader"], row["state"], row["high_watermark"]) for row in found] == [
        (None, "offline", None),
        (2, "ok", 5),
    ]
