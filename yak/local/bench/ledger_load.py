"""The load of a failover benchmark: a writer and a reader that record every response and its time.

Each is its own process, so that neither waits for the other's GIL. The writer sends to every partition separately, at a
steady rate, and goes on with the others while one does not answer. All times are CLOCK_MONOTONIC, which the processes
of a machine share.
"""

import gc
import signal
import struct
import time
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from yak.client.bench.clients import interrupts_deferred, process_context
from yak.client.connection import IMPATIENT, base_config
from yak.client.consume import PartitionReader, Window
from yak.client.consumer import ConsumerHandle
from yak.errors import YakError
from yak.ids import TopicPartition as Place

STAMP = struct.Struct(">iq")
"""A record's value begins with its partition and its number in the partition."""
IN_FLIGHT_MAX = 2000
"""A partition with this many unacknowledged records gets no more until some are acknowledged."""
FLUSH_SECONDS = 90.0
READY_SECONDS = 30.0
IDLE_SECONDS = 20.0

WRITER: Mapping[str, str | int | float | bool] = {
    **IMPATIENT,
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 300_000,
}
HANGING: Mapping[str, str | int | float | bool] = {"socket.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 50}
"""Extra settings when a broker may be paused: its connections are not reset, so requests must time out."""
READER: Mapping[str, str | int | float | bool] = {
    **IMPATIENT,
    # A consumer refreshes the leader only once a second, unless it refreshes its metadata all the time.
    "topic.metadata.refresh.interval.ms": 50,
    "fetch.error.backoff.ms": 5,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 5,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "check.crcs": True,
}
CLIENT_ID = "yak-bench-reader"


@dataclass(frozen=True, slots=True)
class LedgerLoad:
    """The load: `rate` records per second over all partitions of a topic."""

    bootstrap: str
    topic: str
    partitions: int
    rate: float
    size_bytes: int
    properties: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Extra librdkafka properties of both clients."""


@dataclass(slots=True)
class PartitionNotes:
    """The records that one process saw of one partition, in order of arrival. Offsets are -1 where unknown."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    times_s: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, number: int, offset: int, time_s: float) -> None:
        self.numbers.append(number)
        self.offsets.append(offset)
        self.times_s.append(time_s)


@dataclass(slots=True)
class Notes:
    """The notes of one process."""

    partitions: list[PartitionNotes]
    failed: int = 0
    first_error: str = ""
    unanswered: int = 0


def empty_notes(partitions: int) -> Notes:
    """Notes without records."""
    return Notes([PartitionNotes() for _ in range(partitions)])


class Writer:
    """Sends numbered records to every partition and notes the acknowledgements."""

    def __init__(self, load: LedgerLoad, last_ack_s: Any) -> None:
        self._load = load
        self._last_ack_s = last_ack_s
        self._producer = Producer(
            base_config(load.bootstrap) | dict(WRITER) | {"client.id": "yak-bench-writer", **load.properties}
        )
        self.notes = empty_notes(load.partitions)
        self._next = [0] * load.partitions
        self._in_flight = [0] * load.partitions
        self._filler = bytes(max(0, load.size_bytes - STAMP.size))

    def run(self, stop: Any) -> Notes:
        """Send until the event is set; then wait for records in flight."""
        interval_s = self._load.partitions / self._load.rate
        began_s = time.monotonic()
        due_s = [began_s + interval_s * at / self._load.partitions for at in range(self._load.partitions)]
        while not stop.is_set():
            now_s = time.monotonic()
            for partition, due in enumerate(due_s):
                if now_s < due:
                    continue
                # Missed records are not caught up: the rate after a pause is the rate before it.
                due_s[partition] = max(due + interval_s, now_s)
                self._send(partition)
            self._producer.poll(min(max(min(due_s) - time.monotonic(), 0.0), 0.05))
        self.notes.unanswered = self._producer.flush(FLUSH_SECONDS)
        return self.notes

    def _send(self, partition: int) -> None:
        if self._in_flight[partition] >= IN_FLIGHT_MAX:
            return
        number = self._next[partition]
        self._next[partition] += 1
        self._in_flight[partition] += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._in_flight[partition] -= 1
            if error is not None:
                self.notes.failed += 1
                self.notes.first_error = self.notes.first_error or error.str()
                return
            now_s = time.monotonic()
            offset = message.offset()
            known = offset is not None and offset >= 0
            self.notes.partitions[partition].add(number, offset if known and offset is not None else -1, now_s)
            self._last_ack_s[partition] = now_s

        value = STAMP.pack(partition, number) + self._filler
        self._producer.produce(self._load.topic, value, partition=partition, on_delivery=delivered)


class Reader:
    """Reads at the end of every partition and notes the records."""

    def __init__(self, load: LedgerLoad) -> None:
        self._load = load
        config = dict(READER) | {"client.id": CLIENT_ID, "group.id": "yak-bench", **load.properties}
        self._handle = ConsumerHandle[Any](base_config(load.bootstrap) | config)
        self.notes = empty_notes(load.partitions)

    def run(self, stop: Any) -> Notes:
        self._handle.assign({Place(self._load.topic, number): 0 for number in range(self._load.partitions)})
        while not stop.is_set():
            for message in self._handle.poll(0.05, 1):
                self.take(message)
        self._handle.close()
        return self.notes

    def take(self, message: Message) -> None:
        """Note one record; transport errors are only counted, since the client recovers from them."""
        error = message.error()
        if error is not None:
            self.notes.failed += 1
            self.notes.first_error = self.notes.first_error or error.str()
            return
        note_record(self.notes, message)


def note_record(notes: Notes, message: Message) -> None:
    """Note a record under its partition; a foreign record gets number -1."""
    value, partition, offset = message.value(), message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    number = -1
    if isinstance(value, bytes) and len(value) >= STAMP.size:
        stamped, found = STAMP.unpack_from(value)
        if stamped == partition and not any(value[STAMP.size :]):
            number = found
    notes.partitions[partition].add(number, offset, time.monotonic())


def read_back(load: LedgerLoad, ends: Mapping[int, int]) -> Notes:
    """Read the topic from offset 0 to each partition's end, with a new consumer.

    Raises YakError (`bench-read-back`) when nothing arrives for IDLE_SECONDS before that.
    """
    notes = empty_notes(load.partitions)
    windows = {Place(load.topic, partition): Window(0, end) for partition, end in sorted(ends.items())}
    reader = PartitionReader(load.bootstrap, windows, extra={**READER, "client.id": CLIENT_ID, **load.properties})
    deadline_s = time.monotonic() + IDLE_SECONDS
    try:
        while not reader.is_done:
            for message in reader.fetch(1000, 0.2):
                note_record(notes, message)
                deadline_s = time.monotonic() + IDLE_SECONDS
            if time.monotonic() > deadline_s:
                left = [
                    str(each.partition) for each, window in windows.items() if reader.positions[each] != window.stop
                ]
                raise YakError(
                    "bench-read-back",
                    f"the topic could not be read to its end: nothing came for {IDLE_SECONDS:.0f} s",
                    why=f"partitions {', '.join(left)} are not at their end",
                )
    finally:
        reader.close()
    return notes


class LoadProcess:
    """A writer or a reader in its own process."""

    def __init__(self, role: str, load: LedgerLoad) -> None:
        context = process_context()
        self._stop = context.Event()
        self.last_ack_s = context.Array("d", load.partitions, lock=False)
        """The time of each partition's last acknowledgement; 0.0 before the first."""
        self._receiving, self._sending = context.Pipe(duplex=False)
        arguments = (role, load, self._stop, self.last_ack_s, self._sending)
        self._process = context.Process(target=_process_main, args=arguments)
        self._process.daemon = True
        self._role = role

    def start(self) -> None:
        with interrupts_deferred():
            self._process.start()
        self._sending.close()

    def finish(self) -> Notes:
        """Stop the process, and get its notes. Raises YakError (`bench-client`) when it died."""
        self._stop.set()
        try:
            if not self._receiving.poll(FLUSH_SECONDS + READY_SECONDS):
                raise EOFError
            answer = self._receiving.recv()
        except EOFError:
            answer = "it died" if not self._process.is_alive() else "it did not answer"
        finally:
            self.end()
        if not isinstance(answer, Notes):
            raise YakError("bench-client", f"the benchmark's {self._role} failed", why=str(answer))
        return answer

    def end(self) -> None:
        self._process.join(1.0)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _process_main(role: str, load: LedgerLoad, stop: Any, last_ack_s: Any, out: Connection) -> None:
    """The body of a process: sends its notes, or the error that ended it, into the pipe."""
    gc.freeze()
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        client = Writer(load, last_ack_s) if role == "writer" else Reader(load)
        out.send(client.run(stop))
    except Exception as error:
        out.send(f"{type(error).__name__}: {error}")
        raise
    finally:
        out.close()


def longest_pause(times_s: Sequence[float], from_s: float, until_s: float) -> float | None:
    """Seconds of the longest time between two arrivals that ended after `from_s` and began before `until_s`.

    So the pause of a kill at `from_s` counts from the last arrival before it, and a pause that lasts past `until_s`
    counts as a whole. None when nothing arrived after `from_s`, or nothing before it. `times_s` is in ascending order.
    """
    index = bisect_right(times_s, from_s)
    if index in (0, len(times_s)):
        return None
    longest = 0.0
    while index < len(times_s) and times_s[index - 1] < until_s:
        longest = max(longest, times_s[index] - times_s[index - 1])
        index += 1
    return longest


def longest_pause_within(times_s: Sequence[float], from_s: float, until_s: float) -> float | None:
    """As `longest_pause`, without arrivals after `until_s`: a pause that lasts past it is not counted."""
    return longest_pause(times_s[: bisect_right(times_s, until_s)], from_s, until_s)


def worst(pauses: Sequence[float | None]) -> float | None:
    """The longest of several partitions' pauses; None when one of them never ended, or there are none."""
    if not pauses or any(pause is None for pause in pauses):
        return None
    return max(pause for pause in pauses if pause is not None)
