"""Retention removes many expired segments, and a checkpoint reads many logs, without a long step."""

from tests.rig import Rig
from tests.unit.broker.requests import delete_topic
from tests.unit.noted_calls import note_calls_by_step
from yak.errors import LogDirectoryFailure
from yak.ids import TopicPartition
from yak.storage.log import Log
from yak.storage.names import NEW_LOG_MARK
from yak.storage.producer_state import ProducerState
from yak.storage.segment import Segment

PARTITIONS = 3


def filled(**configs):
    rig = Rig(settings={"log.retention.check.interval.ms": "500"})
    rig.create_topic("orders", partitions=PARTITIONS, segment_bytes="1024", **configs)
    for partition in range(PARTITIONS):
        for _ in range(10):
            rig.produce("orders", [b"x" * 700], partition=partition)
    return rig


def segments(rig):
    logs = [rig.node.broker.partitions[TopicPartition("orders", partition)].log for partition in range(PARTITIONS)]
    return [len(log.segments) for log in logs]


def removed(steps):
    """How many segments each of these steps removed."""
    return [sum(len(segments) for _log, segments, *_ in calls) for calls in steps]


def test_retention_of_many_segments_removes_one_in_a_step(monkeypatch):
    rig = filled(retention_bytes="1600")
    steps = note_calls_by_step(monkeypatch, rig.node.broker, Log, "remove_segments")
    rig.run_for(2_000)
    assert segments(rig) == [3, 3, 3]
    assert sum(removed(steps)) == 7 * PARTITIONS
    assert max(removed(steps)) == 1


def test_retention_of_many_segments_examines_few_in_a_step(monkeypatch):
    examined = []
    real = Segment.largest_timestamp
    monkeypatch.setattr(Segment, "largest_timestamp", lambda self: examined.append(self) or real(self))
    rig = filled(retention_bytes="1600")
    rig.run_for(2_000)
    assert segments(rig) == [3, 3, 3]
    assert len(examined) <= 3 * 7 * PARTITIONS


def test_producers_of_many_partitions_expire_in_slices(monkeypatch):
    visited = []
    monkeypatch.setattr("yak.partitions.maintenance.PRODUCERS_A_PARTITION", 1)
    monkeypatch.setattr("yak.partitions.maintenance.SLICE_PARTITIONS", 4)
    rig = Rig(settings={"producer.id.expiration.check.interval.ms": "1000"})
    rig.create_topic("orders", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        for producer_id in range(3):
            rig.produce("orders", [b"x"], partition=partition, producer_id=producer_id, epoch=0, sequence=0)
    real = ProducerState.expire
    monkeypatch.setattr(
        ProducerState, "expire", lambda self, now_ms, ms: visited.append(now_ms) or real(self, now_ms, ms)
    )
    rig.world.run(lambda: len(visited) == PARTITIONS, events_max=50_000)
    assert [at_ms - visited[0] for at_ms in visited] == [0, 10, 20]


def test_delete_records_of_many_partitions_removes_one_segment_in_a_step(monkeypatch):
    rig = filled()
    steps = note_calls_by_step(monkeypatch, rig.node.broker, Log, "remove_segments")
    asked = [{"partition_index": partition, "offset": 9} for partition in range(PARTITIONS)]
    topics = [{"name": "orders", "partitions": asked}]
    answer = rig.ask(21, 1, topics=topics)
    assert [each.low_watermark for each in answer.topics[0].partitions] == [9, 9, 9]
    rig.run_for(100)
    assert segments(rig) == [1, 1, 1]
    assert sum(removed(steps)) == 9 * PARTITIONS
    assert max(removed(steps)) == 1


def test_delete_records_leaves_to_retention_what_is_past_it():
    """Kafka removes nothing before the next round of retention."""
    rig = Rig()
    rig.create_topic("orders", partitions=1)
    rig.produce("orders", [b"x"] * 4, timestamp_ms=1_337)
    assert rig.ask(21, 1, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}])
    rig.run_for(100)
    assert rig.node.broker.partitions["orders", 0].log.log_start_offset == 2


def checkpointed(rig):
    """Partition -> the high watermark in the checkpoint."""
    store = rig.node.broker.log_store
    data = store.disk.read_file(store.directories[0].file("replication-offset-checkpoint")).decode()
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in data.splitlines()[2:]}


def test_a_checkpoint_is_gathered_in_slices(monkeypatch):
    added = []
    rig = Rig(settings={"log.flush.offset.checkpoint.interval.ms": "2000"})
    maintenance, store = rig.node.broker.maintenance, rig.node.broker.log_store
    maintenance.logs_a_slice = 2
    real = store.add_to_checkpoint
    monkeypatch.setattr(store, "add_to_checkpoint", lambda *args: added.append(rig.world.now_ms) or real(*args))
    rig.create_topic("orders", partitions=5)
    for partition in range(5):
        rig.produce("orders", [b"x"] * (partition + 1), partition=partition)
    added.clear()
    rig.world.run(lambda: len(added) == 5, events_max=50_000)
    assert [added.count(at_ms) for at_ms in sorted(set(added))] == [2, 2, 1]
    rig.run_for(100)
    assert checkpointed(rig) == {f"orders {partition}": partition + 1 for partition in range(5)}


def test_checkpoint_requested_while_another_is_gathered_is_written_next(monkeypatch):
    monkeypatch.setattr("yak.partitions.maintenance.SLICE_GAP_MS", 900)
    rig = Rig(settings={"log.flush.offset.checkpoint.interval.ms": "60000"})
    rig.create_topic("orders", partitions=3)
    rig.run_for(70_000)
    maintenance = rig.node.broker.maintenance
    maintenance.logs_a_slice = 1
    maintenance.checkpoint_soon()
    rig.world.run(lambda: maintenance._checkpoint_running, events_max=50_000)
    rig.produce("orders", [b"x"] * 7)
    maintenance.checkpoint_soon()
    rig.run_for(6_000)
    assert checkpointed(rig)["orders 0"] == 7


def test_a_checkpoint_that_cannot_remove_a_file_takes_its_directory_offline_and_not_the_broker():
    rig = Rig(settings={"log.flush.offset.checkpoint.interval.ms": "60000"})
    rig.create_topic("orders")
    rig.run_for(70_000)
    broker = rig.node.broker
    directory = broker.log_store.directories[0]

    def fail():
        raise LogDirectoryFailure(directory.path, OSError(5, "Input/output error"))

    directory.begin_checkpoint = fail
    broker.maintenance.checkpoint_soon()
    rig.world.run(lambda: directory.failure is not None, events_max=50_000)
    assert rig.produce("orders", [b"x"]).error_code == 56, "KAFKA_STORAGE_ERROR"


def test_marks_of_new_logs_are_removed_in_slices_and_for_good(monkeypatch):
    """Those of logs whose names are in an earlier checkpoint."""
    removed = []
    rig = Rig(settings={"log.flush.offset.checkpoint.interval.ms": "60000"})
    rig.create_topic("orders", partitions=5)
    rig.run_for(70_000)
    delete_topic(rig, "orders")
    rig.create_topic("orders", partitions=5)
    broker, disk = rig.node.broker, rig.node.disk
    marks = [f"{log.path}/{NEW_LOG_MARK}" for log in broker.log_store.logs.values()]
    assert all(map(disk.exists, marks))
    remove = disk.remove
    monkeypatch.setattr("yak.partitions.maintenance.MARKS_A_SLICE", 2)
    monkeypatch.setattr(disk, "remove", lambda path: removed.append((rig.world.now_ms, path)) or remove(path))
    broker.maintenance.checkpoint_soon()
    rig.run_for(2_000)
    times = [at_ms for at_ms, path in removed if path in marks]
    assert [times.count(at_ms) for at_ms in sorted(set(times))] == [2, 2, 1]
    rig.restart(power_loss=True)
    assert not any(map(rig.node.disk.exists, marks))
