"""The controller's snapshot for the store is written in a job, in pieces, and says what the image says."""

import json

import pytest

from yak.cluster import snapshot
from yak.cluster.snapshot import json_pieces, write_snapshot
from yak.sim.cluster_rig import ClusterRig


def test_snapshot_for_the_store_is_written_in_a_job_and_trims_the_log(monkeypatch):
    rig = ClusterRig(size=1, trim_every=20)
    rig.create_topic("orders", partitions=20, replication_factor=1)
    in_step, written = [False], []
    broker = rig.nodes[0].broker
    step = broker.step

    def marked(event, now_ms):
        in_step[0] = True
        try:
            return step(event, now_ms)
        finally:
            in_step[0] = False

    def write(image):
        written.append(in_step[0])
        return write_snapshot(image)

    broker.step = marked
    monkeypatch.setattr(snapshot, "write_snapshot", write)
    before = rig.events(1).count("metadata-log-trimmed")
    for number in range(20):
        rig.create_topic(f"more-{number}", partitions=1, replication_factor=1)
    rig.run_until(lambda: rig.events(1).count("metadata-log-trimmed") > before)
    assert written
    assert not any(written)


@pytest.mark.parametrize("value", [{}, {"a": []}, {"a": [1, "b"], "c": {"d": None}, "e": [{"f": [{}]}, {}]}, [], 7])
def test_json_in_pieces_is_the_json_of_the_value(value):
    assert "".join(json_pieces(value)) == json.dumps(value, separators=(",", ":"))
