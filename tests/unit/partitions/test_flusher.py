"""The flusher: one flush of a log at a time, also where the log was deleted and created again meanwhile."""

import datetime as dt

from yak.sim.rig import Rig, produce_fields
from yak.sim.wire import record_batch
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


def test_log_has_one_flush_at_a_time_also_when_the_end_of_a_flush_leads_to_appends(monkeypatch):
    """Of two side by side, the one that was planned first may write its older leader epochs last."""
    rig = Rig()
    rig.create_topic("orders", flush_messages="1", segment_bytes="14")
    broker = rig.node.broker
    partition = broker.partitions["orders", 0]
    flusher, running, most = broker.flusher, [], []
    run, emit = broker.context.jobs.run, flusher._emit

    def counted(kind, plan, done):
        if kind == "flush":
            running.append(plan)
            most.append(len(running))

        def ended(result, error):
            if kind == "flush":
                running.remove(plan)
            done(result, error)

        run(kind, plan, ended)

    def emit_and_append(changed, event):
        emit(changed, event)
        flusher.want(partition)  # as an append does

    monkeypatch.setattr(broker.context.jobs, "run", counted)
    monkeypatch.setattr(flusher, "_emit", emit_and_append)
    rig.node.jobs.delays_us = {"flush": 20_000}
    for _ in range(4):
        rig.begin(0, 9, **produce_fields("orders", record_batch([b"x"], rig.world.now_ms)), client=rig.new_client())
    rig.run_for(200)
    assert len(most) > 2
    assert max(most) == 1
