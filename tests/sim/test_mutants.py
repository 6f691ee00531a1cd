"""A simulator that cannot fail proves nothing: each rule taken out of the broker must be missed by some seed."""

import pytest

from yak.broker import appending
from yak.replication.partition import Partition
from yak.sim.run import run_seed
from yak.storage.producer_state import ProducerState

SEEDS = range(1, 60)


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
