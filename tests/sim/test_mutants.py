"""A simulator that cannot fail proves nothing: each rule taken out of the broker must be missed by some seed."""

import pytest

from yak.broker import appending
from yak.broker.broker import Broker
from yak.errors import ErrorCode, LogDirectoryFailure
from yak.replication.partition import Partition
from yak.sim.run import run_seed
from yak.storage import producers_restore, retention
from yak.storage.flush import FlushPlan
from yak.storage.log_store import LogStore
from yak.storage.producer_state import ProducerState
from yak.storage.reader import PendingRead

SEEDS = range(1, 800)


def is_caught() -> bool:
    return any(run_seed(seed).error is not None for seed in SEEDS)


def test_an_ack_before_the_flush_is_caught(monkeypatch):
    real = appending.place

    def place_without_waiting(*arguments, **named):
        appended = real(*arguments, **named)
        appended.must_wait = False
        return appended

    monkeypatch.setattr(appending, "place", place_without_waiting)
    assert is_caught()


def test_a_high_watermark_past_what_is_on_the_device_is_caught(monkeypatch):
    def advance(self: Partition) -> bool:
        if self.log.log_end_offset > self.high_watermark:
            self.high_watermark = self.log.log_end_offset
            return True
        return False

    monkeypatch.setattr(Partition, "advance_high_watermark", advance)
    assert is_caught()


def test_forgotten_producer_sequences_are_caught(monkeypatch):
    monkeypatch.setattr(ProducerState, "check", lambda self, header: None)
    assert is_caught()


@pytest.mark.parametrize("end_of_what_is_visible", [1])
def test_reading_past_the_high_watermark_is_caught(monkeypatch, end_of_what_is_visible):
    from yak.storage.log import Log

    real = Log.read

    def read_to_the_end(self, offset, max_bytes, up_to, *, at_least_one):
        return real(self, offset, max_bytes, max(up_to, self.log_end_offset), at_least_one=at_least_one)

    monkeypatch.setattr(Log, "read", read_to_the_end)
    assert is_caught()


def test_a_sync_that_is_tried_again_is_caught(monkeypatch):
    real = FlushPlan.run

    def run_twice(self):
        try:
            real(self)
        except LogDirectoryFailure:
            real(self)

    monkeypatch.setattr(FlushPlan, "run", run_twice)
    assert is_caught()


def test_an_ack_to_those_who_waited_for_a_failed_flush_is_caught(monkeypatch):
    real = Broker.fail_waiting
    monkeypatch.setattr(Broker, "fail_waiting", lambda self, partition, _code: real(self, partition, ErrorCode.none))
    assert is_caught()


def test_a_repeated_batch_that_does_not_wait_for_the_first_copy_is_caught(monkeypatch):
    real = appending.place

    def place(broker, partition, *arguments):
        end = partition.log.log_end_offset
        appended = real(broker, partition, *arguments)
        if partition.log is not None and partition.log.log_end_offset == end:
            appended.must_wait = False
        return appended

    monkeypatch.setattr(appending, "place", place)
    assert is_caught()


def test_a_producers_earlier_batches_that_are_forgotten_at_a_start_are_caught(monkeypatch):
    monkeypatch.setattr(producers_restore, "_look_back", lambda *_arguments: None)
    assert is_caught()


def test_records_of_a_deleted_topic_that_come_back_are_caught(monkeypatch):
    real = LogStore.create

    def create(self, topic_partition, topic_id, *arguments, **named):
        held = self.logs.get(topic_partition)
        if held is None:
            return real(self, topic_partition, topic_id, *arguments, **named)
        held.topic_id = topic_id
        return held

    monkeypatch.setattr(LogStore, "create", create)
    monkeypatch.setattr(LogStore, "delete", lambda _self, _log: lambda: None)
    assert is_caught()


def test_retention_that_takes_what_is_not_due_is_caught(monkeypatch):
    monkeypatch.setattr(
        retention, "expired_segments", lambda log, _now_ms, _mark: log.segments[:1] if len(log.segments) > 1 else []
    )
    assert is_caught()


def test_a_cold_read_that_gives_nothing_is_caught(monkeypatch):
    monkeypatch.setattr(PendingRead, "run", lambda _self: b"")
    assert is_caught()


def test_a_session_that_is_not_told_of_new_records_is_caught(monkeypatch):
    from yak.broker.sessions import FetchSession

    monkeypatch.setattr(FetchSession, "mark_dirty", lambda _self, _item: None)
    assert is_caught()
