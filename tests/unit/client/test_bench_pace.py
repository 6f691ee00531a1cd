"""A paced producer counts a latency from when a record was due, so that a stall of the broker shows in the tail."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.client.bench.load import ClientResult, Load, Stop
from yak.client.bench.produce import DUE, TIMER_S, Clock, Deliveries, lateness_s, send_at_rate

RATE = 1000.0
QUEUE_RECORDS = 20


class Message:
    """What librdkafka reports of a record: its latency from the produce call."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    def latency(self) -> float:
        return self._latency_s


class StallingProducer:
    """A producer with a short queue, whose broker answers after a millisecond and not at all during the stall."""

    def __init__(self, stall_from_s: float, stall_until_s: float) -> None:
        self.now_s = 0.0
        self.values: list[bytes] = []
        self.sent_to_acked_ms: list[float] = []
        self._stall_s = (stall_from_s, stall_until_s)
        self._queue: list[tuple[float, float, Callable[[Any, Any], None]]] = []

    def produce(self, _topic: str, value: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        if len(self._queue) >= QUEUE_RECORDS:
            raise BufferError
        answered_s = self.now_s + 0.001
        if self._stall_s[0] <= answered_s < self._stall_s[1]:
            answered_s = self._stall_s[1]
        self.values.append(value)
        self._queue.append((answered_s, self.now_s, on_delivery))

    def sleep(self, seconds: float) -> None:
        """Time passes; what is answered by then is reported."""
        until_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= until_s:
            answered_s, sent_s, report = self._queue.pop(0)
            self.now_s = answered_s
            self.sent_to_acked_ms.append((answered_s - sent_s) * 1000)
            report(None, Message(answered_s - sent_s))
        self.now_s = until_s


def run(producer: StallingProducer, records: int, **load: Any) -> ClientResult:
    result = ClientResult(0)
    settings = Load(**({"kind": "latency", "bootstrap_servers": "x:1", "topic": "t", "rate": RATE} | load))
    clock = Clock(lambda: producer.now_s, producer.sleep)
    stop = Stop(records, None)
    assert send_at_rate(producer, settings, Deliveries(result), stop, lambda _sent: None, clock) == records  # type: ignore[arg-type]
    producer.sleep(10.0)
    return result


def test_a_stall_shows_in_the_tail_and_the_clock_of_the_send_hides_it() -> None:
    producer = StallingProducer(0.2, 0.7)
    result = run(producer, 2000)
    assert result.latency.count == 2000
    # half a second of the two seconds: a quarter of the records was due in the stall
    assert 400e6 < result.latency.percentile(99) < 520e6
    assert result.latency.percentile(90) > 100e6
    from_the_send = sorted(producer.sent_to_acked_ms)
    assert from_the_send[int(len(from_the_send) * 0.98)] < 5


def test_without_a_stall_both_clocks_agree() -> None:
    producer = StallingProducer(9.0, 9.0)
    result = run(producer, 500)
    assert result.latency.percentile(99.9) < 2.1e6
    assert max(producer.sent_to_acked_ms) < 1.1


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_every_record_due_in_a_stall_waits_for_its_end(begin_s: float, length_s: float) -> None:
    producer = StallingProducer(begin_s, begin_s + length_s)
    result = run(producer, 1500)
    assert result.latency.count == 1500
    longest_s = length_s if begin_s < 1.49 else 0.0
    assert longest_s - 0.002 <= result.latency.max / 1e9 <= longest_s + 0.2


@given(st.floats(0.0, 1e6), st.floats(0.0, 10.0))
def test_only_the_clients_timer_is_not_counted(due_s: float, late_s: float) -> None:
    counted = lateness_s(due_s, due_s + late_s)
    assert counted == pytest.approx(late_s, abs=1e-9) if late_s > TIMER_S * 1.01 else counted <= TIMER_S * 1.02
    assert counted == 0.0 or counted >= TIMER_S


def test_a_workloads_records_begin_with_the_time_at_which_they_were_due() -> None:
    producer = StallingProducer(0.05, 0.2)
    run(producer, 100, kind="workload", size_bytes=100)
    assert {len(value) for value in producer.values} == {100}
    due_ms = [round(DUE.unpack_from(value)[0] / 1e6) for value in producer.values]
    assert due_ms == list(range(100))
