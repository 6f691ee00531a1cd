"""A reading client: reads its slices once, from the first offset of each to its end."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from yak.client.bench.load import CONNECT_SECONDS, ClientResult, Load, Session, Slice, Stop, consumer_properties
from yak.client.errors import from_exception

BATCH_RECORDS = 1000
WAIT_SECONDS, LAST_WAIT_SECONDS = 0.2, 0.01
IDLE_SECONDS = 10.0
"""A reader without records for so long has lost its broker."""


def run_client(load: Load, client: int, slices: tuple[Slice, ...], session: Session) -> ClientResult:
    """Connect, warm up on part of the share, wait for the others, then read the share.

    Raises YakError when the brokers do not answer or refuse.
    """
    # the position does not pass a transaction's marker at the end: the end is an event of its own
    with connected(load, {"enable.partition.eof": True}) as consumer:
        if load.warm_up_s > 0 and slices:
            read(consumer, load, slices, ClientResult(client), Stop(None, load.warm_up_s), None)
        result = ClientResult(client)
        session.start()
        result.begin()
        if slices:
            read(consumer, load, slices, result, Stop(None, load.duration_s) if load.duration_s else None, session)
        result.end()
    return result


@contextmanager
def connected(load: Load, more: Mapping[str, object] | None = None) -> Iterator[Consumer]:
    """A consumer that knows the topic, closed at the end. Raises YakError for errors of librdkafka in the body too."""
    consumer = Consumer({**(more or {}), **consumer_properties(load)})
    try:
        consumer.list_topics(load.topic, timeout=CONNECT_SECONDS)
        yield consumer
    except KafkaException as error:
        raise from_exception(error, f"topic {load.topic} cannot be used") from None
    finally:
        consumer.close()


def read(
    consumer: Consumer,
    load: Load,
    slices: tuple[Slice, ...],
    result: ClientResult,
    stop: Stop | None,
    session: Session | None,
) -> None:
    """Read all slices to their ends, or until the stop. Bytes are those of the values.

    Python handles records only in C loops (`sum`, `any`); the partitions' positions are checked once a batch.
    """
    ends = {each.partition: each.end for each in slices}
    expected = sum(each.records for each in slices)
    consumer.assign([TopicPartition(load.topic, each.partition, each.begin) for each in slices])
    last_s = time.monotonic()
    while ends and not (stop and stop.reached(result.records)):
        # consume() waits for as many as requested: the last ones are fewer where markers take up offsets.
        left = max(1, expected - result.records)
        messages = consumer.consume(
            min(BATCH_RECORDS, left), WAIT_SECONDS if left > BATCH_RECORDS else LAST_WAIT_SECONDS
        )
        if not messages:
            if time.monotonic() - last_s > IDLE_SECONDS:
                result.failed(f"nothing arrived for {IDLE_SECONDS:.0f} s, {len(ends)} partitions are not at their end")
                break
            continue
        last_s = time.monotonic()
        if any(map(Message.error, messages)):
            messages = without_errors(messages, result, ends)
        if finished := leave_finished(consumer, load.topic, ends):
            # the last batch of a slice may reach into the next reader's
            messages = [each for each in messages if is_below(each, finished)]
        result.records += len(messages)
        result.bytes += sum(map(len, messages))
        if session is not None:
            session.progress(result.records)
    consumer.unassign()


def without_errors(messages: list[Message], result: ClientResult, ends: dict[int, int]) -> list[Message]:
    """The records among the messages; partitions that were read to their end leave `ends`, errors are counted."""
    records = []
    for message in messages:
        if (error := message.error()) is None:
            records.append(message)
        elif error.name() == "_PARTITION_EOF":
            ends.pop(message.partition(), None)  # type: ignore[arg-type]  # an end is of a partition
        else:
            result.failed(error.str())
    return records


def is_below(message: Message, ends: dict[int, int]) -> bool:
    """Whether a record is below the end of its partition, if that is known."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return offset < ends.get(partition, offset + 1)


def leave_finished(consumer: Consumer, topic: str, ends: dict[int, int]) -> dict[int, int]:
    """Stop reading the partitions that are at their end, and return these with their ends."""
    positions = consumer.position([TopicPartition(topic, partition) for partition in ends])
    finished = {at.partition: ends.pop(at.partition) for at in positions if at.offset >= ends[at.partition]}
    if finished and ends:
        consumer.incremental_unassign([TopicPartition(topic, partition) for partition in finished])
    return finished
