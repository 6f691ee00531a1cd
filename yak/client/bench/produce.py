"""A producing client: at librdkafka's full speed, or at a steady rate."""

import threading
import time
from collections.abc import Callable

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

Progress = Callable[[int], None]


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
        produce(producer, load, warm_up, Stop(None, load.warm_up_s), lambda _done: None)
    result = ClientResult(client, warm_up_records=warm_up.records)
    session.start()
    session.measuring(result.latency)
    result.started_s, cpu_s = time.monotonic(), time.process_time()
    produce(producer, load, result, Stop(load.share(client), load.duration_s), session.progress)
    result.cpu_s = time.process_time() - cpu_s
    return result


class Deliveries:
    """The delivery callback: times acknowledged records, counts failed ones."""

    def __init__(self, result: ClientResult) -> None:
        self._result = result

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Process one delivery report."""
        if error is not None:
            self._result.failed(error.str())
            return
        latency_s = message.latency()
        if latency_s is not None:
            self._result.latency.record(round(latency_s * 1e9))


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
    """Send records at the client's rate, each timed from the call to its acknowledgement.

    Another thread serves the delivery reports. So the wait for the next record delays no report, and a late report
    delays no record: a slow broker is measured as slow (no coordinated omission).
    """
    rate = load.client_rate()
    assert rate is not None
    values = payloads(load.size_bytes, 100)
    deliveries = Deliveries(result)
    done = threading.Event()
    server = threading.Thread(target=serve_reports, args=(producer, done), daemon=True)
    server.start()
    sent = 0
    started_s = time.monotonic()
    try:
        while not stop.reached(sent):
            ahead_s = started_s + sent / rate - time.monotonic()
            if ahead_s > 0:
                time.sleep(min(ahead_s, 0.1))
                continue
            burst = max(1, min(int(-ahead_s * rate), BURST_RECORDS))
            left = stop.left(sent)
            for _ in range(burst if left is None else min(burst, left)):
                sent += produce_one(producer, load.topic, values[sent % 100], deliveries)
            progress(sent)
        finish(producer, load, result, sent)
    finally:
        done.set()
        server.join()


def produce_one(producer: Producer, topic: str, value: bytes, deliveries: Deliveries) -> int:
    """1 if librdkafka queued the record, 0 if its queue is full (after a short wait)."""
    try:
        producer.produce(topic, value, on_delivery=deliveries)
    except BufferError:
        time.sleep(0.001)
        return 0
    return 1


def serve_reports(producer: Producer, done: threading.Event) -> None:
    """Serve delivery reports until `done` is set."""
    while not done.is_set():
        producer.poll(0.05)


def finish(producer: Producer, load: Load, result: ClientResult, sent: int) -> None:
    """Wait for the last acknowledgements, which end the run, and count the acknowledged records."""
    unanswered = producer.flush(FLUSH_SECONDS)
    if unanswered:
        result.failed(f"{unanswered} records had no answer after {FLUSH_SECONDS:.0f} s", unanswered)
    result.ended_s = time.monotonic()
    result.records = sent - result.errors
    result.bytes = result.records * load.size_bytes
