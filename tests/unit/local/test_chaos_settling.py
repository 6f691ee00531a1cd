"""The checks after the faults of a chaos run: none passes without having looked at everything."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from yak.ids import TopicPartition
from yak.local.chaos import liveness
from yak.local.chaos.liveness import LivenessReport, Violation, all_in_sync, all_take_writes, different_replicas
from yak.local.chaos.recorder import Recorder
from yak.sim.history_checker.history import Outcome

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    """Three stopped brokers with a replica each of `t-0`, as far as the comparison knows."""
    nodes = {number: SimpleNamespace(name=f"node-{number}", disk=SimpleNamespace(readable=tmp_path / f"{number}"))
             for number in (1, 2, 3)}  # fmt: skip
    for node in nodes.values():
        log = node.disk.readable / "t-0"
        log.mkdir(parents=True)
        (log / f"{0:020}.log").write_bytes(b"records")
    return SimpleNamespace(nodes=nodes, replicas=3)


def test_equal_replicas_are_no_violation(cluster: Any) -> None:
    assert different_replicas(cluster, [PARTITION]) == ([], 21)


def test_replica_with_other_bytes_is_a_violation(cluster: Any) -> None:
    (cluster.nodes[2].disk.readable / "t-0" / f"{0:020}.log").write_bytes(b"recordS")
    (found,), _ = different_replicas(cluster, [PARTITION])
    assert found.invariant == "I16"
    assert "node-2" in found.text


def test_replica_whose_log_is_missing_is_a_violation(cluster: Any) -> None:
    log = cluster.nodes[3].disk.readable / "t-0"
    next(log.iterdir()).unlink()
    log.rmdir()
    assert different_replicas(cluster, [PARTITION])[0] == [Violation("I16", "t-0 has 2 of 3 replicas: node-1, node-2")]


def test_partition_without_any_log_is_a_violation(cluster: Any) -> None:
    (found,), compared = different_replicas(cluster, [TopicPartition("other", 1)])
    assert (found.text, compared) == ("other-1 has 0 of 3 replicas: none", 0)


def test_late_acknowledgement_of_an_earlier_send_is_no_new_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that held connections passes the answers from before the fault once it is healed."""
    monkeypatch.setattr(liveness, "WRITES_SECONDS", 0.0)
    recorder = Recorder()
    recorder.sending("w", "t-0", 1)
    settled = LivenessReport(lambda: recorder.sent(1, Outcome.OK, 0))
    assert not all_take_writes(settled, [PARTITION], recorder)
    assert settled.violations == [Violation("L1", "writes: after 0 s still no write to t-0")]


def test_acknowledgement_of_a_new_send_ends_the_wait() -> None:
    recorder = Recorder()

    def meanwhile() -> None:
        recorder.sending("w", "t-0", 2)
        recorder.sent(2, Outcome.OK, 1)

    assert all_take_writes(LivenessReport(meanwhile), [PARTITION], recorder)


def test_topic_that_the_metadata_lack_is_not_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "IN_SYNC_SECONDS", 0.0)
    monkeypatch.setattr(liveness, "read_metadata", lambda *_args, **_more: SimpleNamespace(topics={}))
    settled = LivenessReport(lambda: None)
    assert not all_in_sync(settled, "127.0.0.1:1", ["t"])
    assert settled.violations == [Violation("L2", "in sync: after 0 s still no broker knows t")]
