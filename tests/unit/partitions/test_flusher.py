"""The flusher: what it does about a flush that ends after its log was deleted."""

import datetime as dt

from yak.sim.rig import Rig
from yak.storage import flush
from yak.storage.names import LEADER_EPOCH_CHECKPOINT


def test_late_flush_of_a_deleted_log_makes_the_next_log_write_its_epochs_again(monkeypatch):
    # the topic is recreated after the flush has looked at the folder, and before it writes
    monkeypatch.setattr(flush, "topic_of_folder", lambda _disk, _folder: None)
    rig = Rig()
    rig.create_topic("orders", flush_ms="50")
    rig.node.jobs.delays_us = {"flush": 3_000_000}
    old = rig.node.broker.partitions["orders", 0].log
    rig.produce("orders", [b"a"])
    old.assign_epoch(5)
    rig.run_for(100)
    rig.node.jobs.delays_us = {}
    rig.ask(20, 6, topics=[{"name": "orders", "topic_id": None}], timeout=dt.timedelta(seconds=30))
    rig.create_topic("orders", flush_ms="50")
    rig.produce("orders", [b"b"])
    rig.run_for(1_000)
    heir = rig.node.broker.partitions["orders", 0].log
    assert heir is not old
    assert not heir.epochs.dirty
    path, own = f"{heir.path}/{LEADER_EPOCH_CHECKPOINT}", heir.epochs.to_bytes()
    assert rig.node.disk.read_file(path) == own
    late = []
    real = rig.node.disk.write_file
    rig.node.disk.write_file = lambda name, data: (late.append(data) if name == path else None, real(name, data))
    rig.run_for(5_000)
    assert late[0] != own, "the late flush wrote"
    assert rig.node.disk.read_file(path) == own
