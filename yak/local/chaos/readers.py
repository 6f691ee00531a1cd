"""Consumers of a run that choose their offsets: readers start at changing offsets, a final one reads everything."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.consumer import OUT_OF_RANGE
from yak.client.consumer import consumer_config as shared_config
from yak.ids import TopicPartition
from yak.local.chaos.recorder import Recorder
from yak.local.chaos.writers import RECONNECTS
from yak.sim.seeded_random import SeededRandom

_POLL_MESSAGES: Final = 500
POLL_SECONDS: Final = 0.2
_LASTS_SECONDS: Final = (8, 20)
_BACK_MAX: Final = 2_000
_CLOSE_SECONDS: Final = 10.0
_ENDS_SECONDS: Final = 60.0
"""Timeout for finding the leaders and end offsets of the partitions."""
NO_END: Final = -1
"""The end of a partition that no broker serves."""


def consumer_config(bootstrap: str, client_id: str, group: str, *, read_committed: bool = True) -> dict[str, Any]:
    """Settings of all consumers of a run: no automatic commits, and no automatic offset resets."""
    settings = base_config(bootstrap) | shared_config(group, reset="error", read_committed=read_committed)
    return settings | {
        **IMPATIENT,
        **RECONNECTS,
        "client.id": client_id,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 20,
        "socket.timeout.ms": 10_000,
        # a broker that does not know a new topic yet may answer a member's first Metadata: librdkafka asks again after this
        "topic.metadata.refresh.interval.ms": 2_000,
    }


def poll(
    consumer: Any, process: str, recorder: Recorder, seconds: float = POLL_SECONDS
) -> tuple[list[Any], dict[str, int]]:
    """Poll once; return the records, and each partition's next offset, which passes a transaction's marker at the end."""
    invoked = recorder.now()
    records: list[Any] = []
    positions: dict[str, int] = {}
    for message in consumer.consume(_POLL_MESSAGES, seconds):
        error = message.error()
        if error is None:
            records.append(message)
            positions[f"{message.topic()}-{message.partition()}"] = message.offset() + 1
        elif error.name() == "_PARTITION_EOF":
            positions[f"{message.topic()}-{message.partition()}"] = message.offset()
        elif error.name() in OUT_OF_RANGE:
            recorder.out_of_range.append(f"{process} at {invoked:.1f} s: {error.str()}")
    return records, positions


def take(
    consumer: Any, process: str, recorder: Recorder, seconds: float = POLL_SECONDS, *, read_committed: bool = True
) -> dict[str, int]:
    """Poll once and record it; return each partition's next offset."""
    invoked = recorder.now()
    records, positions = poll(consumer, process, recorder, seconds)
    recorder.polled_messages(process, invoked, records, read_committed=read_committed)
    return positions


def close(consumer: Any) -> None:
    """Close a consumer with a timeout: librdkafka can block when brokers go away (its issue 5476)."""
    closing = threading.Thread(target=consumer.close, name="closing", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)


class Reader:
    """Assigns itself all partitions, reads for a while, and starts again up to 2,000 offsets earlier.

    Each time with a new consumer: `assign` waits for librdkafka's main thread and holds Python's GIL meanwhile, so that
    a hanging consumer would block the whole run.
    """

    def __init__(
        self, number: int, bootstrap: str, partitions: Sequence[TopicPartition], recorder: Recorder, rng: SeededRandom,
        *, read_committed: bool = True,
    ) -> None:  # fmt: skip
        self.client_id = f"reader-{number}"
        self._read_committed = read_committed
        config = consumer_config(bootstrap, self.client_id, "yak-chaos-without-group", read_committed=read_committed)
        self._config = config
        self._partitions = partitions
        self._recorder = recorder
        self._rng = rng
        self._stopping = threading.Event()
        self._positions = {str(each): 0 for each in partitions}
        self._thread = threading.Thread(target=self._run, name=self.client_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * _CLOSE_SECONDS)

    drop = stop

    def _run(self) -> None:
        import confluent_kafka

        while not self._stopping.is_set():
            consumer = confluent_kafka.Consumer(self._config)
            begin(consumer, self.client_id, self._recorder, {each: self._start(each) for each in self._partitions})
            until = time.monotonic() + self._rng.between(*_LASTS_SECONDS)
            while time.monotonic() < until and not self._stopping.is_set():
                self._positions |= take(consumer, self.client_id, self._recorder, read_committed=self._read_committed)
            close(consumer)

    def _start(self, partition: TopicPartition) -> int:
        position = self._positions[str(partition)]
        return max(0, position - self._rng.below(_BACK_MAX))


def begin(consumer: Any, process: str, recorder: Recorder, starts: Mapping[TopicPartition, int]) -> None:
    """Assign a consumer exactly these partitions and offsets."""
    from confluent_kafka import TopicPartition as Wire

    recorder.assigned(process, {str(each): offset for each, offset in starts.items()})
    consumer.assign([Wire(each.topic, each.partition, offset) for each, offset in starts.items()])


def read_everything(
    bootstrap: str, partitions: Sequence[TopicPartition], recorder: Recorder, timeout_s: float
) -> dict[str, int]:
    """Read each partition from offset 0 to its present last stable offset with read_committed, as process `final`.

    Returns the partitions whose end was not reached in time, with the end, or NO_END. There are no writes meanwhile.
    """
    import confluent_kafka

    process = "final"
    consumer = confluent_kafka.Consumer(consumer_config(bootstrap, process, "yak-chaos-without-group"))
    ends_deadline = time.monotonic() + min(timeout_s, _ENDS_SECONDS)
    try:
        ends = {str(each): _end(consumer, each, ends_deadline) for each in partitions}
        deadline = time.monotonic() + timeout_s
        partitions = [each for each in partitions if ends[str(each)] != NO_END]
        begin(consumer, process, recorder, dict.fromkeys(partitions, 0))
        unserved = {name: end for name, end in ends.items() if end == NO_END}
        left = {name: end for name, end in ends.items() if end > 0}
        handled = len(recorder.out_of_range)
        while left and time.monotonic() < deadline:
            for name, position in take(consumer, process, recorder).items():
                if position >= left.get(name, 1 << 62):
                    del left[name]
            if len(recorder.out_of_range) > handled:
                # The log start is above 0: read what is there, and the checker finds what is missing.
                handled = len(recorder.out_of_range)
                _begin_at_starts(consumer, partitions, deadline)
    finally:
        consumer.close()
    left |= unserved
    recorder.read_to_the_end(process, {name: end for name, end in ends.items() if name not in left})
    return left


def _begin_at_starts(consumer: Any, partitions: Sequence[TopicPartition], deadline: float) -> None:
    from confluent_kafka import TopicPartition as Wire

    wires = []
    for each in partitions:
        low, _ = consumer.get_watermark_offsets(Wire(*each), timeout=max(1.0, deadline - time.monotonic()))
        (position,) = consumer.position([Wire(*each)])
        wires.append(Wire(each.topic, each.partition, max(low, position.offset)))
    consumer.assign(wires)


def _end(consumer: Any, partition: TopicPartition, deadline: float) -> int:
    """The last stable offset, with retries while the leader moves; NO_END after the deadline."""
    import confluent_kafka

    while True:
        try:
            wait_s = max(0.5, min(5.0, deadline - time.monotonic()))
            _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(*partition), timeout=wait_s)
        except confluent_kafka.KafkaException:
            if time.monotonic() > deadline:
                return NO_END
            time.sleep(0.1)
        else:
            return int(end)
