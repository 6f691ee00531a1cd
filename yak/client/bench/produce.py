"""A producing client: at librdkafka's full speed, or at a steady rate."""

import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from yak.client.bench.load import (
    CONNECT_SECONDS,
    ClientResult,
    Load,
    Session,
    Slice,
    Stop,
    in_flight_records,
    payloads,
    producer_properties,
)
from yak.client.errors import from_exception

BATCH_RECORDS = 500
"""Records passed to librdkafka in one call."""
SAMPLE_EVERY = 100
"""At full speed only one record in so many is timed: a Python call for each would halve the speed."""
FLUSH_SECONDS = 60.0
BURST_RECORDS = 100
"""The largest burst of a paced client that catches up."""
TIMER_S = 0.001
"""A record that is sent by less than this after it was due is on time: that is how late the client's own timer wakes it."""
DUE = struct.Struct(">q")
"""The first bytes of a workload's record: the time at which it was due, in nanoseconds of CLOCK_MONOTONIC."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a paced client gets the time, in seconds, and how it waits."""

    now_s: Callable[[], float]
    sleep: Callable[[float], None]


MONOTONIC = Clock(time.monotonic, time.sleep)


def run_client(load: Load, client: int, _slices: tuple[Slice, ...], session: Session) -> ClientResult:
    """Connect, warm up, wait for the others, then produce this client's share.

    Raises YakError when the brokers do not answer or refuse.
    """
    producer = Producer(producer_properties(load))
    try:
        producer.list_topics(load.topic, timeout=CONNECT_SECONDS)
    except KafkaException as error:
        raise from_exception(error, f"topic {load.topic} cannot be used") from None
    produce = produce_paced if load.rate is not None else produce_bulk
    warm_up = ClientResult(client)
    if load.warm_up_s > 0:
        produce(producer, replace(load, kind="produce"), warm_up, Stop(None, load.warm_up_s), lambda _done: None)
    result = ClientResult(client, warm_up_records=warm_up.records)
    session.start()
    session.measuring(result.latency)
    result.begin()
    produce(producer, load, result, Stop(load.share(client), load.duration_s), session.progress)
    return result


class Deliveries:
    """The delivery callback: times acknowledged records, counts failed ones."""

    def __init__(self, result: ClientResult) -> None:
        self._result = result

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.late(0.0, error, message)

    def late(self, late_s: float, error: KafkaError | None, message: Message) -> None:
        """Process the report of a record that was sent `late_s` after it was due."""
        if error is not None:
            self._result.failed(error.str())
            return
        latency_s = message.latency()
        if latency_s is not None:
            self._result.latency.record(round((late_s + latency_s) * 1e9))


def produce_bulk(producer: Producer, load: Load, result: ClientResult, stop: Stop, progress: Progress) -> None:
    """Keep librdkafka's queue full until the stop, then wait for the last acknowledgement."""
    deliveries = Deliveries(result)
    limit = in_flight_records(load, BATCH_RECORDS)
    batch: list[dict[str, object]] = [{"value": value} for value in payloads(load.size_bytes, BATCH_RECORDS)]
    for entry in batch[::SAMPLE_EVERY]:
        entry["callback"] = deliveries
    sent = 0
    while not stop.reached(sent):
        if len(producer) > limit:
            producer.poll(0.001)
            continue
        left = stop.left(sent)
        some = batch if left is None or left >= BATCH_RECORDS else batch[:left]
        sent += producer.produce_batch(load.topic, some)
        producer.poll(0)
        progress(sent)
    finish(producer, load, result, sent)


def produce_paced(producer: Producer, load: Load, result: ClientResult, stop: Stop, progress: Progress) -> None:
    """Send records at the client's rate, each timed from when it was due to its acknowledgement.

    Another thread serves the delivery reports, so that the wait for the next record delays no report.
    """
    done = threading.Event()
    server = threading.Thread(target=serve_reports, args=(producer, done), daemon=True)
    server.start()
    try:
        sent = send_at_rate(producer, load, Deliveries(result), stop, progress)
        finish(producer, load, result, sent)
    finally:
        done.set()
        server.join()


def send_at_rate(
    producer: Producer, load: Load, deliveries: Deliveries, stop: Stop, progress: Progress, clock: Clock = MONOTONIC
) -> int:
    """Send records until the stop; return their number. Record n is due n / rate seconds after the first.

    A latency counts from the due time: a stall delays the records behind it too, and a clock that starts at their late
    send would leave that out (coordinated omission).
    """
    rate, now_s, produce = load.client_rate(), clock.now_s, producer.produce
    assert rate is not None
    is_stamped = load.kind == "workload"
    values = payloads(load.size_bytes - DUE.size * is_stamped, 100)
    sent = 0
    started_s = now_s()
    while not stop.reached(sent):
        ahead_s = started_s + sent / rate - now_s()
        if ahead_s > 0:
            clock.sleep(min(ahead_s, 0.1))
            continue
        burst = max(1, min(int(-ahead_s * rate), BURST_RECORDS))
        left = stop.left(sent)
        for _ in range(burst if left is None else min(burst, left)):
            late_s = lateness_s(started_s + sent / rate, sent_s := now_s())
            value = values[sent % 100]
            if is_stamped:
                value = DUE.pack(int((sent_s - late_s) * 1e9)) + value
            try:
                produce(load.topic, value, on_delivery=partial(deliveries.late, late_s) if late_s else deliveries)
            except BufferError:  # librdkafka's queue is full
                clock.sleep(0.001)
                break
            sent += 1
        progress(sent)
    return sent


def lateness_s(due_s: float, sent_s: float) -> float:
    """How late a record is sent, in seconds; 0.0 for one that is on time."""
    return sent_s - due_s if sent_s - due_s >= TIMER_S else 0.0


def serve_reports(producer: Producer, done: threading.Event) -> None:
    """Serve delivery reports until `done` is set."""
    while not done.is_set():
        producer.poll(0.05)


def finish(producer: Producer, load: Load, result: ClientResult, sent: int) -> None:
    """Wait for the last acknowledgements, which end the run, and count the acknowledged records."""
    unanswered = producer.flush(FLUSH_SECONDS)
    if unanswered:
        result.failed(f"{unanswered} records had no answer after {FLUSH_SECONDS:.0f} s", unanswered)
    result.end()
    result.records = sent - result.errors
    result.bytes = result.records * load.size_bytes
