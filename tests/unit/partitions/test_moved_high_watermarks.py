"""Reports of moved high watermarks to the store: what one turn collects is bounded, and nothing is left out."""

from __future__ import annotations

import pytest

from tests.rig import Rig
from tests.unit.noted_calls import note_calls_by_step
from yak.cluster.high_watermark_sender import HighWatermarkSender
from yak.partitions import moved_high_watermarks

BOUND = 4
PARTITIONS = 3 * BOUND + 1


def test_report_of_many_moved_high_watermarks_takes_several_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moved_high_watermarks, "PARTITIONS_A_REPORT", BOUND)
    rig = Rig()
    rig.create_topic("many", partitions=PARTITIONS)
    rig.run_for(2_000)
    noted = note_calls_by_step(monkeypatch, rig.node.broker, HighWatermarkSender, "note")
    for partition in range(PARTITIONS):
        rig.produce("many", [b"a"], partition=partition)
    rig.run_for(2_000)
    assert max(map(len, noted)) == BOUND
    assert sorted(partition for turn in noted for _sender, _topic_id, partition, *_ in turn) == list(range(PARTITIONS))
