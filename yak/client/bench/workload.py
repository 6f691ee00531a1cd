"""The OpenMessaging Benchmark's workloads of one topic: producers and consumers that run at the same time.

The names, and what each stands for, are those of its folder `workloads` (github.com/openmessaging/benchmark). Left out are
workloads of several topics, of 10,000 partitions, and those that first build a backlog of 100 GB and more.
"""

import re
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from yak.client.bench import produce
from yak.client.bench.consume import connected, without_errors
from yak.client.bench.load import CONNECT_SECONDS, ClientResult, Load, Session, Slice
from yak.errors import UsageError, closest

RATE = 50_000
"""The records a second of a workload whose name has no rate."""
SIZES_BYTES = {"100b": 100, "1kb": 1024, "64kb": 65_536}
NAMES = (
    "simple-workload",
    *(f"1-topic-{partitions}-100b" for partitions in ("1-partition", "6-partition", "16-partition")),
    *(f"1-topic-{partitions}-1kb" for partitions in ("1-partition", "16-partitions", "100-partitions")),
    *(f"1-topic-100-partitions-1kb-4p-4c-{rate}k" for rate in (200, 500, 1000, 2000)),
    "1-topic-3-partition-100b-3producers",
    "max-rate-1-topic-1-partition-4p-1c-1kb",
    *(f"max-rate-1-topic-1-partition-1p-1c-{size}" for size in SIZES_BYTES),
    *(f"max-rate-1-topic-10-partitions-1p-1c-{size}" for size in SIZES_BYTES),
    *(f"max-rate-1-topic-{count}-partitions-{size}" for count in (16, 100) for size in ("100b", "1kb")),
    *(f"max-rate-1-topic-100-partitions-1p-1c-{size}" for size in ("100b", "1kb")),
    *(
        f"max-rate-1-topic-{count}-partitions-{count}p-{count}c-{size}"
        for count in range(10, 101, 10)
        for size in SIZES_BYTES
        if size != "64kb" or count not in (30, 50, 70, 90)
    ),
)
NAME = re.compile(
    r"(?P<max>max-rate-)?1-topic-(?P<partitions>\d+)-partitions?(-(?P<p>\d+)p-(?P<c>\d+)c)?-(?P<size>\w+?b)"
    r"(-(?P<p_after>\d+)p-(?P<c_after>\d+)c-(?P<rate>\d+)k|-(?P<only>\d+)producers)?"
)
BATCH_RECORDS = 500
LAST_SECONDS = 30.0
"""How long a consumer waits for more after the end of the load."""
QUIET_SECONDS = 3.0
"""A consumer at the end of its partitions, without records for so long after the end of the load, has all of them."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a name stands for. `rate` is of all producers together, in records per second; None: full speed."""

    name: str
    partitions: int
    size_bytes: int
    producers: int
    consumers: int
    rate: int | None


def workload(name: str) -> Workload:
    """The workload of this name. Raises UsageError (`bench-workload`)."""
    if name not in NAMES:
        close = closest(name, NAMES)
        raise UsageError(
            "bench-workload",
            f'there is no workload "{name}"',
            why=f'closest: "{close}"' if close else "",
            try_=("yak bench workload list",),
        )
    if name == "simple-workload":
        return Workload(name, 10, 1024, 1, 1, 10_000)
    found = NAME.fullmatch(name)
    assert found is not None, name
    producers = int(found["p"] or found["p_after"] or found["only"] or 1)
    consumers = int(found["c"] or found["c_after"] or 1)
    rate = None if found["max"] or found["only"] else int(found["rate"]) * 1000 if found["rate"] else RATE
    return Workload(name, int(found["partitions"]), SIZES_BYTES[found["size"]], producers, consumers, rate)


def readers_slices(slices: tuple[Slice, ...], readers: int) -> list[tuple[Slice, ...]]:
    """The partitions of each consumer, from their present ends."""
    return [tuple(Slice(each.partition, each.end, each.end) for each in slices[at::readers]) for at in range(readers)]


def run_client(load: Load, client: int, slices: tuple[Slice, ...], session: Session) -> ClientResult:
    """One producer, or one consumer that reads `slices` from their ends until the load is over.

    At a steady rate, a consumer's latencies are from when a record was due to its receipt. Raises YakError when the
    brokers do not answer or refuse.
    """
    if client < load.clients - load.readers:
        return produce.run_client(load, client, slices, session)
    with connected(load) as consumer:
        consumer.assign([TopicPartition(load.topic, each.partition, each.begin) for each in slices])
        receive(consumer, load, (), ClientResult(client), load.warm_up_s, 0.0)
        result = ClientResult(client)
        session.start()
        result.begin()
        assert load.duration_s is not None
        receive(consumer, load, slices, result, load.duration_s, LAST_SECONDS)
        result.end(result.ended_s)
    return result


def receive(
    consumer: Consumer,
    load: Load,
    slices: tuple[Slice, ...],
    result: ClientResult,
    seconds: float,
    last_seconds: float,
) -> None:
    """Receive for so long, then what is left in the slices' partitions, for at most `last_seconds`; more is an error.

    `result.ended_s` is the time of the last record. With a rate, records of the warm-up, which have no due time, are not
    counted.
    """
    result.ended_s = time.monotonic()
    end_s = result.ended_s + seconds
    while True:
        messages = without_errors(consumer.consume(BATCH_RECORDS, 0.05), result, {})
        now_ns = time.monotonic_ns()
        values = [value for message in messages if len(value := message.value() or b"") >= produce.DUE.size]
        if load.rate is not None:
            due_ns = [produce.DUE.unpack_from(value)[0] for value in values]
            timed = [now_ns - due for due in due_ns if due <= now_ns]
            values = [value for value, due in zip(values, due_ns, strict=True) if due <= now_ns]
            for latency_ns in timed:
                result.latency.record(latency_ns)
        if values:
            result.ended_s = now_ns / 1e9
            result.records += len(values)
            result.bytes += sum(map(len, values))
        over_s = now_ns / 1e9 - end_s
        is_quiet = over_s > 0 and now_ns / 1e9 - result.ended_s >= QUIET_SECONDS
        if is_quiet and is_at_end(consumer, load.topic, slices):
            return
        if over_s >= last_seconds:
            if slices and not is_at_end(consumer, load.topic, slices):
                result.failed(f"partitions are not at their end {last_seconds:.0f} s after the load")
            return


def is_at_end(consumer: Consumer, topic: str, slices: tuple[Slice, ...]) -> bool:
    """Whether the consumer has read its partitions to their high watermarks. Raises KafkaException."""
    partitions = [TopicPartition(topic, each.partition) for each in slices]
    read = {at.partition: at.offset for at in consumer.position(partitions)}
    return all(
        max(read[each.partition], each.begin) >= consumer.get_watermark_offsets(partition, timeout=CONNECT_SECONDS)[1]
        for each, partition in zip(slices, partitions, strict=True)
    )
