"""The producers of a chaos run, without a broker."""

import time
from typing import Any

import confluent_kafka

from yak.ids import TopicPartition
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.writers import Writer
from yak.local.ports import find_free
from yak.sim.history_checker.history import Outcome

PARTITIONS = [TopicPartition("t", 0)]


def writer_to_nobody(recorder: Recorder) -> Writer:
    return Writer(1, f"127.0.0.1:{find_free('127.0.0.1')}", PARTITIONS, recorder, every_s=0.01)


def test_no_message_times_out_since_its_writer_would_send_twice_what_is_in_doubt_elsewhere(monkeypatch):
    given: dict[str, Any] = {}
    monkeypatch.setattr(confluent_kafka, "Producer", given.update)
    writer_to_nobody(Recorder())
    assert given["enable.idempotence"] is True
    assert given["delivery.timeout.ms"] == 0


def test_sends_without_an_answer_are_in_doubt_and_not_sent_again():
    recorder = Recorder()
    writer = writer_to_nobody(recorder)
    writer.start()
    while not recorder.under_way:
        time.sleep(0.01)
    unanswered = writer.finish(0.05)
    assert unanswered >= 1
    assert len(writer._producer) == 0
    sends = recorder.history().sends
    assert len(sends) == unanswered
    assert {send.outcome for send in sends} == {Outcome.INFO}
