"""The flusher: one flush of a log at a time, also where the log was deleted and created again meanwhile."""

import errno

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig, produce_fields
from tests.unit.broker.requests import TOPIC, alter, delete_topic
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
    delete_topic(rig, "orders")
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


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOENT])
def test_late_flush_of_a_deleted_log_that_fails_takes_its_directory_offline(error_number):
    """Its folder may be that of another log by then, whose name the sync lost; but a folder that is gone fails nothing."""
    rig = Rig(directories=("/data", "/more"))
    rig.create_topic("orders", flush_ms="50")
    rig.node.jobs.delays_us = {"flush": 3_000_000, "delete": 60_000_000}
    rig.produce("orders", [b"a"])
    rig.run_for(100)
    delete_topic(rig, "orders")
    rig.node.disk.fail_next("sync", error_number, path_contains=".log")
    rig.run_for(5_000)
    offline = [notice.fields["directory"] for notice in rig.node.notices if notice.event == "log-directory-offline"]
    assert offline == (["/data"] if error_number == errno.EIO else [])


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


def test_records_from_before_flush_messages_was_set_are_flushed_and_committed_without_an_append():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("orders", min_insync_replicas="2")
    leader, followers = rig.leader("orders"), rig.followers("orders")
    for node in followers:
        rig.nodes[node - 1].kill()
    rig.run_until(lambda: rig.replica(leader, "orders").isr == (leader,))
    assert rig.produce("orders", [b"a", b"b"], acks=1).error_code == 0
    assert alter(rig, TOPIC, "orders", {"flush.messages": "1"}).error_code == 0
    for node in followers:
        rig.nodes[node - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    rig.run_for(1_000)
    assert rig.fetch("orders", 0).high_watermark == 2


def test_records_from_before_flush_ms_was_set_are_flushed_without_an_append():
    rig = ClusterRig(size=1)
    rig.create_topic("orders", replication_factor=1)
    rig.produce("orders", [b"a"])
    log = rig.replica(1, "orders").log
    assert log.recovery_point == 0
    assert alter(rig, TOPIC, "orders", {"flush.ms": "50"}).error_code == 0
    rig.run_for(1_000)
    assert log.recovery_point == 1
