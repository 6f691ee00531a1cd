"""An end-to-end client: produces timestamped records at a steady rate and reads them back itself.

Producer and consumer share a process, so that send and receive times come from one clock. Each client writes to one
partition (its number modulo the partitions) and recognizes its own records by the name in their first 16 bytes.
"""

import struct
import threading
import time
import uuid
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from yak.client.bench.consume import connected
from yak.client.bench.load import (
    STAMP_BYTES,
    ClientResult,
    Load,
    Session,
    Slice,
    Stop,
    payloads,
    producer_properties,
)
from yak.client.bench.produce import lateness_s

STAMP = struct.Struct(">16sq")
LAST_RECORDS_SECONDS = 10.0
"""How long the last records may take after the last send."""


def run_client(load: Load, client: int, slices: tuple[Slice, ...], session: Session) -> ClientResult:
    """Connect, warm up, wait for the others, then send and receive this client's share.

    `slices` gives the partition and its present end. Raises YakError when the brokers do not answer or refuse.
    """
    assert load.rate is not None
    producer, (partition,) = Producer(producer_properties(load)), slices
    with connected(load) as consumer:
        consumer.assign([TopicPartition(load.topic, partition.partition, partition.end)])
        if load.warm_up_s > 0:
            warm_up = RoundTrips(load, partition.partition, ClientResult(client))
            warm_up.run(producer, consumer, Stop(None, load.warm_up_s), session)
        result = ClientResult(client)
        session.start()
        session.measuring(result.latency)
        result.begin()
        stop = Stop(load.share(client), load.duration_s)
        RoundTrips(load, partition.partition, result).run(producer, consumer, stop, session)
        result.end()
    return result


class RoundTrips:
    """One run of timestamped records, sent and received."""

    def __init__(self, load: Load, partition: int, result: ClientResult) -> None:
        self._load = load
        self._partition = partition
        self._result = result
        self._name = uuid.uuid4().bytes
        self._filler = payloads(load.size_bytes - STAMP_BYTES, 1)[0]
        self._sent = 0
        self._under_way: set[int] = set()
        """The stamps of records that were neither received nor failed."""
        self._all_sent = threading.Event()

    def run(self, producer: Producer, consumer: Consumer, stop: Stop, session: Session) -> None:
        """Send until the stop, and receive; records that do not come back are errors."""
        receiver = threading.Thread(target=self._receive, args=(consumer, session), daemon=True)
        receiver.start()
        try:
            self._send(producer, stop)
        finally:
            self._all_sent.set()
            receiver.join()
        if lost := len(self._under_way):
            self._result.failed(f"{lost} records did not come back in {LAST_RECORDS_SECONDS:.0f} s", lost)

    def _send(self, producer: Producer, stop: Stop) -> None:
        rate = self._load.client_rate()
        assert rate is not None
        started_s = time.monotonic()
        while not stop.reached(self._sent):
            due_s = started_s + self._sent / rate
            ahead_s = due_s - time.monotonic()
            if ahead_s > 0:
                time.sleep(min(ahead_s, 0.1))
                continue
            sent_s = time.monotonic()
            stamp_ns = int((sent_s - lateness_s(due_s, sent_s)) * 1e9)  # see `send_at_rate`
            value, delivered = STAMP.pack(self._name, stamp_ns) + self._filler, partial(self._delivered, stamp_ns)
            self._under_way.add(stamp_ns)
            try:
                producer.produce(self._load.topic, value, None, self._partition, delivered)
                self._sent += 1
            except BufferError:
                self._under_way.discard(stamp_ns)
                producer.poll(0.001)
            producer.poll(0)
        producer.flush(LAST_RECORDS_SECONDS)

    def _delivered(self, stamp_ns: int, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._is_first(stamp_ns):
            self._result.failed(error.str())

    def _is_first(self, stamp_ns: int) -> bool:
        """Whether this is the first outcome of a record: a producer that is not idempotent may store one twice."""
        try:
            self._under_way.remove(stamp_ns)
        except KeyError:
            return False
        return True

    def _receive(self, consumer: Consumer, session: Session) -> None:
        result = self._result
        deadline_s = float("inf")
        while time.monotonic() < deadline_s:
            message = consumer.poll(0.05)
            if self._all_sent.is_set():
                if not self._under_way:
                    return
                deadline_s = min(deadline_s, time.monotonic() + LAST_RECORDS_SECONDS)
            value = None if message is None or message.error() else message.value()
            if value is None or value[:16] != self._name:
                continue
            _name, stamp_ns = STAMP.unpack_from(value)
            if not self._is_first(stamp_ns):
                continue
            result.latency.record(time.monotonic_ns() - stamp_ns)
            result.records += 1
            result.bytes += len(value)
            session.progress(result.records)
