"""Consumers that share a group: each starts at the group's committed offsets, and commits its progress."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from yak.local.chaos.readers import POLL_SECONDS, close, consumer_config, take
from yak.local.chaos.recorder import Recorder
from yak.sim.history_checker.history import Outcome


@dataclass(frozen=True, slots=True)
class Library:
    """Makes one client's producers and consumers, by a config of librdkafka, with the methods of confluent_kafka's.

    `kill` ends them where they run in a process of their own. A call under way then fails with a fatal error.
    """

    producer: Callable[[dict[str, Any]], Any]
    consumer: Callable[[dict[str, Any]], Any]
    kill: Callable[[], None]


def librdkafka() -> Library:
    """librdkafka in this process, which no caller can kill."""
    import confluent_kafka

    return Library(confluent_kafka.Producer, confluent_kafka.Consumer, lambda: None)


SESSION_MS: Final = 6_000
COMMIT_SECONDS: Final = 1.0
COOPERATIVE: Final = "cooperative-sticky"
"""The assignor with which a rebalance does not revoke partitions that stay (KIP-429)."""
_ASK_SECONDS: Final = 8.0


class Member:
    """One member in its own thread. It commits at an interval, and when a partition is revoked.

    The next commit repeats one that failed.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topics: Sequence[str],
        group: str,
        recorder: Recorder,
        *,
        poll_seconds: float = POLL_SECONDS,
        commit_seconds: float = COMMIT_SECONDS,
        config: Mapping[str, object] | None = None,
        library: Library | None = None,
    ) -> None:
        """`config` has more settings of the consumer."""
        self.client_id = name
        self._topics = list(topics)
        self._group = group
        self._recorder = recorder
        self._poll_seconds = poll_seconds
        self._commit_seconds = commit_seconds
        self._stopping = threading.Event()
        self._read: dict[str, int] = {}
        """Next offsets that are not committed yet."""
        self._committed_at = time.monotonic()
        self._consumer: Any = (library or librdkafka()).consumer(
            consumer_config(bootstrap, self.client_id, group)
            | {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1_000, "auto.offset.reset": "earliest"}
            | dict(config or {})
        )
        self._is_cooperative = dict(config or {}).get("partition.assignment.strategy") == COOPERATIVE
        self._thread = threading.Thread(target=self._run, name=self.client_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30.0)
        close(self._consumer)

    def drop(self) -> None:
        """Stop without leaving the group, which must detect it by the session timeout."""
        self._stopping.set()
        self._thread.join(30.0)
        del self._consumer

    def _run(self) -> None:
        self._consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        while not self._stopping.is_set():
            self._step()

    def _step(self) -> None:
        # A rebalance during the poll replaces `_read`, so the poll comes first.
        found = take(self._consumer, self.client_id, self._recorder, self._poll_seconds)
        self._read |= found
        if self._read and time.monotonic() - self._committed_at > self._commit_seconds:
            self._commit()
            self._committed_at = time.monotonic()

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        import confluent_kafka

        assign = consumer.incremental_assign if self._is_cooperative else consumer.assign
        requested_at = self._recorder.now()
        try:
            found = consumer.committed(partitions, timeout=_ASK_SECONDS)
        except confluent_kafka.KafkaException:
            # librdkafka retries this by itself; the start offsets are not known here.
            self._recorder.assigned(self.client_id, {_name(each): None for each in partitions}, group=self._group)
            for each in partitions:  # an assigned partition has the offset at which it was assigned
                each.offset = confluent_kafka.OFFSET_STORED
            assign(partitions)
            return
        known = {_name(each): None if each.error else max(-1, each.offset) for each in found}
        self._recorder.assigned(self.client_id, known, group=self._group, requested_at=requested_at)
        for each in found:
            each.offset = each.offset if each.offset >= 0 else confluent_kafka.OFFSET_STORED
        assign(found)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self._commit()
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Any, partitions: list[Any]) -> None:
        names = tuple(map(_name, partitions))
        for name in names:
            self._read.pop(name, None)
        self._recorder.assigned(self.client_id, {}, names, group=self._group)

    def _commit(self) -> None:
        import confluent_kafka

        offsets, self._read = self._read, {}
        if not offsets:
            return
        wires = []
        for name, offset in offsets.items():
            topic, _, number = name.rpartition("-")
            wires.append(confluent_kafka.TopicPartition(topic, int(number), offset))
        invoked = self._recorder.now()
        try:
            done = self._consumer.commit(offsets=wires, asynchronous=False)
        except (confluent_kafka.KafkaException, RuntimeError):
            # Even a definite error is recorded as unknown: an earlier try of the same request may have succeeded.
            self._recorder.committed(self.client_id, self._group, invoked, offsets, Outcome.INFO)
            self._read = offsets
            return
        good = {_name(each): each.offset for each in done if each.error is None}
        bad = {name: offset for name, offset in offsets.items() if name not in good}
        self._recorder.committed(self.client_id, self._group, invoked, good, Outcome.OK)
        if bad:
            self._recorder.committed(self.client_id, self._group, invoked, bad, Outcome.INFO)
            self._read = bad


def _name(partition: Any) -> str:
    return f"{partition.topic}-{partition.partition}"
