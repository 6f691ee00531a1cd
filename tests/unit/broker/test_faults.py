"""A broker whose disk fails, whose jobs are slow, whose topics come and go: nothing acknowledged is lost, nobody hangs."""

import datetime as dt
import errno
import struct
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig, fetch_fields, produce_fields
from tests.unit.broker.requests import begin_fetch, begin_produce, delete_topic, fetched, produced, values_of
from yak.cluster.topic_changes import plan_delete_topic
from yak.core import events
from yak.ids import TopicPartition
from yak.partitions import leader_appends
from yak.protocol.record_batch import compute_crc
from yak.sim.wire import record_batch

TWO_DIRECTORIES = ("/data", "/more")


def log_of(rig: Rig, topic: str, partition: int = 0):
    return rig.node.broker.partitions[TopicPartition(topic, partition)].log


def one_batch(rig: Rig, *values: bytes, **batch: int) -> bytes:
    return record_batch(list(values), rig.world.now_ms, **batch)


def produce_to(parts: list[tuple[str, int, bytes]], *, acks: int = -1, timeout_ms: int = 1_000) -> dict:
    return {
        "acks": acks,
        "timeout": dt.timedelta(milliseconds=timeout_ms),
        "topic_data": [
            {"name": topic, "partition_data": [{"index": partition, "records": records}]}
            for topic, partition, records in parts
        ],
    }


def notices(rig: Rig, event: str) -> list[events.Notice]:
    return [notice for notice in rig.node.notices if notice.event == event]


# ------------------------------------------------------------------------------------------------ one request, two batches


def test_a_request_whose_second_batch_fails_on_the_disk_is_answered_whole_and_at_once():
    rig = Rig()
    rig.create_topic("durable", partitions=2, flush_messages="1")
    rig.node.disk.fail_next("append", path_contains="durable-1")
    parts = [("durable", 0, one_batch(rig, b"a")), ("durable", 1, one_batch(rig, b"b"))]
    pending = rig.begin(0, 9, **produce_to(parts))
    rig.run_for(200)
    assert pending.is_done, "the answer must not wait for anything"
    codes = [topic.partition_responses[0].error_code for topic in pending.answer.responses]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.kafka_storage_error]


def test_a_batch_that_fails_after_recompression_does_not_count_for_another_one():
    rig = Rig(directories=TWO_DIRECTORIES)
    rig.create_topic("packed", compression_type="gzip")
    rig.create_topic("durable", flush_messages="1")
    assert log_of(rig, "packed").directory != log_of(rig, "durable").directory
    rig.node.jobs.delays_us = {"flush": 1_000_000, "recompress": 1_000}
    rig.node.disk.fail_next("append", path_contains="packed-0")
    parts = [("packed", 0, one_batch(rig, b"a")), ("durable", 0, one_batch(rig, b"b"))]
    pending = rig.begin(0, 9, **produce_to(parts, timeout_ms=10_000))
    rig.run_for(100)
    assert not pending.is_done, "the second batch is not on the device"
    rig.run_for(1_500)
    codes = [topic.partition_responses[0].error_code for topic in pending.answer.responses]
    assert codes == [ErrorCode.kafka_storage_error, ErrorCode.none]


def test_a_repeated_batch_is_not_acknowledged_before_its_first_copy_is_on_the_device():
    rig = Rig()
    rig.create_topic("durable", flush_messages="1")
    rig.create_topic("sometimes", flush_messages="2")
    rig.node.jobs.delays_us = {"flush": 1_000_000}
    for topic, acks in (("durable", 1), ("durable", -1), ("sometimes", 1), ("sometimes", -1)):
        identity = {"producer_id": 1 + acks, "epoch": 0, "sequence": 0}
        fields = produce_to([(topic, 0, one_batch(rig, b"a", b"b", **identity))], acks=acks, timeout_ms=10_000)
        first = rig.begin(0, 9, **fields)
        rig.run_for(20)
        again = rig.begin(0, 9, client=rig.new_client(), **fields)
        rig.run_for(200)
        assert not first.is_done
        assert not again.is_done, f"{topic}, acks={acks}"
        rig.run_for(5_000)
        assert produced(first).error_code == ErrorCode.none
        answer = produced(again)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.none, produced(first).base_offset)


def test_failed_flush_is_reported_to_all_producers_that_wait_for_it():
    rig = Rig()
    rig.create_topic("durable", flush_messages="1")
    rig.node.jobs.delays_us = {"flush": 300_000}
    rig.node.disk.fail_next("sync", path_contains="durable-0")
    waiting = []
    for number in range(4):
        waiting.append(begin_produce(rig, "durable", b"%d" % number, client=rig.new_client()))
        rig.run_for(20)
    rig.run_for(500)
    codes = [produced(pending).error_code for pending in waiting]
    assert codes == [ErrorCode.kafka_storage_error] * 4


# ------------------------------------------------------------------------------------------------ metadata and its disk


@pytest.mark.parametrize(
    ("operation", "error_number"), [("append", errno.EIO), ("sync", errno.ENOSPC), ("open", errno.EIO)]
)
def test_failing_metadata_copy_is_logged_and_the_data_path_continues(operation, error_number):
    rig = Rig()
    rig.create_topic("orders")
    rig.node.disk.fail_next(operation, error_number, path_contains="__yak_metadata")
    if operation == "open":
        rig.node.broker.metadata_loader._image_log._file = None
    topic = {"name": "more", "num_partitions": 1, "replication_factor": 1}
    fields = {"topics": [topic], "timeout": dt.timedelta(seconds=1)}
    answer = rig.ask(19, 5, **fields)
    assert answer.topics[0].error_code == ErrorCode.request_timed_out
    assert notices(rig, "metadata-log-failed")
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none
    assert values_of(rig.fetch("orders", 0)) == [b"a"]
    again = rig.ask(19, 5, **fields)
    assert again.topics[0].error_code == ErrorCode.kafka_storage_error
    rig.restart()
    assert rig.produce("more", [b"b"]).error_code == ErrorCode.none


def test_image_observer_that_raises_is_logged_and_the_broker_continues():
    rig = Rig()
    bug = RuntimeError("a bug of a view")

    def observe(*_seen: object) -> None:
        raise bug

    failed: list[events.Notice] = []
    rig.node.on_request_failed = failed.append  # the simulated node raises the bugs that a notice carries
    rig.node.broker.metadata_loader.on_image = observe
    rig.create_topic("orders")
    assert {(notice.event, notice.error) for notice in failed} == {("observer-failed", bug)}
    assert not notices(rig, "metadata-log-failed")
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none
    rig.create_topic("more")
    assert rig.produce("more", [b"b"]).error_code == ErrorCode.none


def test_a_topic_deleted_and_made_again_in_one_go_keeps_its_new_data_only():
    rig = Rig()
    rig.create_topic("orders")
    old_id = rig.node.broker.image.topics["orders"].topic_id
    rig.produce("orders", [b"old"] * 3)
    waiting = begin_fetch(rig, "orders", 3, client=rig.new_client(), max_wait_ms=5_000)
    rig.run_for(50)
    replace_topic(rig, "orders", old_id)
    rig.run_for(300)
    assert waiting.is_done
    assert rig.node.broker.image.topics["orders"].topic_id != old_id
    assert rig.produce("orders", [b"new"]).base_offset == 0
    rig.run_for(5_000)
    rig.restart()
    assert values_of(rig.fetch("orders", 0)) == [b"new"]
    assert rig.node.disk.names("/data").count("orders-0") == 1


def replace_topic(rig: Rig, name: str, old_id) -> None:
    """Delete and create a topic while the broker hears nothing of the metadata log, then let it hear both at once."""
    broker, node = rig.node.broker, rig.node
    node.store_line.is_deaf = True
    old = broker.image.topics[name]
    broker.metadata.begin_own(plan_delete_topic(broker.image, old), lambda _error, _values: None)
    node.post(events.TurnEnd())
    rig.run_for(20)  # or the simulated network may bring the second change first
    topics = {key: topic for key, topic in broker.image.topics.items() if topic.topic_id != old_id}
    seen, broker.context.image = broker.context.image, replace(broker.image, topics=topics)
    requests = broker.topic_creation.plan_automatic(name)
    broker.context.image = seen
    broker.metadata.begin_own(requests, lambda _error, _values: None)
    node.post(events.TurnEnd())
    rig.run_for(20)
    node.store_line.is_deaf = False
    node.store_line.store_moved()


# ------------------------------------------------------------------------------------------------- what clients could pile up


def test_batches_that_wait_for_recompression_count_as_unanswered_with_acks_0_too():
    rig = Rig()
    rig.create_topic("packed", compression_type="gzip")
    rig.node.jobs.delays_us = {"recompress": 100_000}
    for number in range(5):
        begin_produce(rig, "packed", b"%d" % number, acks=0)
    rig.run_for(20)
    assert rig.node.broker.backlog(rig.client.connection_id) == 5
    rig.run_for(1_000)
    assert rig.node.broker.backlog(rig.client.connection_id) == 0
    assert values_of(rig.fetch("packed", 0))
    assert log_of(rig, "packed").log_end_offset == 5


def test_a_batch_that_cannot_be_recompressed_closes_its_connection_with_acks_0():
    rig = Rig()
    rig.create_topic("packed", compression_type="gzip")
    batch = bytearray(one_batch(rig, b"x" * 50))
    batch[22] = 4
    struct.pack_into(">I", batch, 17, compute_crc(batch))
    pending = rig.begin(0, 9, **produce_fields("packed", bytes(batch), acks=0))
    rig.run_for(200)
    assert pending.is_lost


def test_a_batch_whose_recompression_fails_by_our_fault_is_not_called_corrupt(monkeypatch):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(leader_appends, "recompress", fail)
    rig = Rig()
    rig.create_topic("packed", compression_type="gzip")
    answer = rig.produce_raw("packed", one_batch(rig, b"a"))
    assert answer.error_code == ErrorCode.unknown_server_error
    assert "MemoryError" in answer.error_message
    monkeypatch.undo()
    assert rig.produce_raw("packed", one_batch(rig, b"b")).base_offset == 0


def test_a_fetch_session_that_was_closed_while_its_fetch_waited_is_forgotten():
    rig = Rig()
    rig.create_topic("orders")
    waiting = begin_fetch(rig, "orders", 0, client=rig.new_client(), max_wait_ms=2_000, session_epoch=0)
    rig.run_for(20)
    (session_id,) = rig.node.broker.sessions._sessions
    closing = fetch_fields("orders", 0) | {"session_id": session_id, "session_epoch": -1}
    rig.ask(1, 12, **closing)
    rig.produce("orders", [b"a"])
    rig.run_for(50)
    assert waiting.is_done
    assert len(rig.node.broker.sessions) == 0
    assert not rig.node.broker.partitions[TopicPartition("orders", 0)].sessions


@pytest.mark.parametrize("fetches_before", [0, 1, 2])
def test_a_fetch_session_follows_a_topic_that_is_deleted_and_made_again(fetches_before):
    rig = Rig()
    rig.create_topic("orders")
    reader = rig.new_client()
    opened = rig.ask(1, 12, client=reader, **(fetch_fields("orders", 0) | {"session_epoch": 0}))
    nothing_new = fetch_fields("orders", 0) | {"session_id": opened.session_id, "topics": []}
    delete_topic(rig, "orders")
    gone = rig.ask(1, 12, client=reader, **(nothing_new | {"session_epoch": 1}))
    assert gone.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_or_partition
    rig.create_topic("orders")
    for epoch in range(2, 2 + fetches_before):
        rig.ask(1, 12, client=reader, **(nothing_new | {"session_epoch": epoch}))
    waits = {"session_epoch": 2 + fetches_before, "max_wait": dt.timedelta(seconds=2)}
    waiting = rig.begin(1, 12, client=reader, **(nothing_new | waits))
    rig.run_for(100)
    rig.produce("orders", [b"new"])
    rig.run_for(100)
    assert values_of(fetched(waiting)) == [b"new"]


# ------------------------------------------------------------------------------------------------------------ the stop


def test_the_logs_are_closed_only_after_the_checkpoint_under_way():
    rig = Rig(settings={"log.flush.offset.checkpoint.interval.ms": "1000"})
    rig.create_topic("orders")
    rig.produce("orders", [b"a"])
    rig.restart(orderly=True)
    rig.node.jobs.delays_us = {"checkpoint": 5_000_000}
    rig.run_for(1_100)
    rig.produce("orders", [b"b"] * 5)
    rig.node.jobs.delays_us = {"checkpoint": 1_000}
    rig.node.stop()
    rig.run_for(2_000)
    assert not rig.node.disk.exists("/data/.kafka_cleanshutdown"), "closed beside a checkpoint"
    rig.world.run(lambda: rig.node.broker is None, events_max=50_000)
    rig.node.start()
    rig.run_until_ready()
    assert log_of(rig, "orders").log_end_offset == 6
    assert len(values_of(rig.fetch("orders", 0))) == 6


def test_a_stop_waits_for_the_flushes_under_way_and_starts_no_other():
    rig = Rig()
    rig.create_topic("durable", flush_messages="1")
    rig.node.jobs.delays_us = {"flush": 400_000, "checkpoint": 400_000}
    pending = begin_produce(rig, "durable", b"a")
    rig.run_for(20)
    rig.node.stop()
    rig.world.run(lambda: rig.node.broker is None, events_max=50_000)
    assert not notices(rig, "stop-not-clean")
    rig.run_for(10)
    assert produced(pending).error_code == ErrorCode.none
    rig.node.start()
    rig.run_until_ready()
    assert rig.node.broker.log_store.report.was_clean
    assert values_of(rig.fetch("durable", 0)) == [b"a"]


def test_a_stop_closes_the_connections_of_clients_before_the_logs():
    rig = Rig()
    rig.create_topic("orders")
    rig.node.jobs.delays_us = {"checkpoint": 3_000_000}
    clients = list(rig.node.broker.connections.values())
    assert [each.is_open for each in clients] == [True]
    rig.node.stop()
    rig.run_for(1_000)
    assert rig.node.broker is not None
    assert [each.is_open for each in clients] == [False]
    rig.world.run(lambda: rig.node.broker is None, events_max=50_000)
    assert rig.node.disk.exists("/data/.kafka_cleanshutdown")


def test_a_stop_ends_in_bounded_time_while_the_store_is_away_and_deletions_are_due():
    rig = Rig(settings={"log.retention.check.interval.ms": "1000"})
    rig.create_topic("short", retention_bytes="0", segment_bytes="1048576", file_delete_delay_ms="60000")
    rig.produce("short", [b"a"])
    rig.run_for(31_000)
    rig.node.store_line.block()
    rig.run_for(29_500)
    rig.node.jobs.delays_us = {"checkpoint": 3_000_000}
    rig.node.stop()
    rig.world.run(lambda: rig.node.broker is None, events_max=2_000)
    assert rig.node.disk.exists("/data/.kafka_cleanshutdown")


def test_the_first_retention_check_comes_after_the_initial_task_delay():
    rig = Rig(settings={"log.initial.task.delay.ms": "2000"})
    rig.create_topic("short", retention_ms="1")
    rig.produce("short", [b"a"], timestamp_ms=rig.world.now_ms)
    rig.run_for(500)
    assert log_of(rig, "short").log_start_offset == 0
    rig.run_for(2_000)
    assert log_of(rig, "short").log_start_offset == 1
