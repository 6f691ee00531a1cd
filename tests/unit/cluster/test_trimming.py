"""The controller's snapshot for the store is written in a job, in pieces, and says what the image says."""

import datetime as dt
import json

import pytest

from tests.cluster_rig import ClusterRig
from yak.cluster import snapshot
from yak.cluster.snapshot import json_pieces, write_snapshot

TIMEOUT = dt.timedelta(seconds=5)


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


def create(rig, name, node_id):
    """A topic with one replica, on this broker."""
    placed = [{"partition_index": 0, "broker_ids": [node_id]}]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": placed, "configs": ()}
    assert rig.ask(1, 19, 5, topics=[topic], timeout=TIMEOUT, validate_only=False).topics[0].error_code == 0


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_broker_stopped_while_its_position_was_trimmed_leads_what_only_it_has_in_sync(metadata):
    rig = ClusterRig(size=4, metadata=metadata, trim_every=5, trim_keeps=0)
    create(rig, "gone", 4)
    create(rig, "kept", 4)
    rig.run_for(200)
    assert rig.produce("kept", [b"a"]).base_offset == 0
    stopped = rig.nodes[3]
    stopped.stop()
    rig.run_until(lambda: stopped.broker is None)
    assert rig.ask(1, 20, 5, topic_names=["gone"], timeout=TIMEOUT).responses[0].error_code == 0
    for number in range(10):
        create(rig, f"more-{number}", 1)
        rig.run_for(1_000)
    stopped.start()
    rig.run_until(lambda: stopped.is_ready)
    assert rig.events(4).count("metadata-snapshot-requested") == 1
    assert "metadata-frozen" not in rig.events(4)
    assert not rig.cluster.store.state.brokers[4]["lossy"]
    rig.run_until(lambda: rig.leader("kept") == 4)
    rig.run_for(1_000)
    assert rig.produce("kept", [b"b"]).base_offset == 1
    assert not [name for name in stopped.disk.names("/data") if name.startswith("gone-")]


@pytest.mark.parametrize("value", [{}, {"a": []}, {"a": [1, "b"], "c": {"d": None}, "e": [{"f": [{}]}, {}]}, [], 7])
def test_json_in_pieces_is_the_json_of_the_value(value):
    assert "".join(json_pieces(value)) == json.dumps(value, separators=(",", ":"))
