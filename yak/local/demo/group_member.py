"""One member of the demo's group: reads its partitions, reports each record, and commits four times a second.

It commits explicitly and asynchronously; before it gives up a revoked partition it waits for the commit. It runs in its
own process (`yak demo member`), so that it can be killed like any consumer.
"""

import os
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import from_kafka, name_of
from yak.ids import Offset
from yak.local.demo.group_events import Began, Committed, Event, Given, NotCommitted, Read, Taken, to_line

HEARTBEAT_MS: Final = 200
"""Below the commit interval: librdkafka's main thread checks for due heartbeats mostly when a commit wakes it."""
COMMIT_SECONDS: Final = 0.25
ASSIGNOR: Final = "cooperative-sticky"
_POLL_SECONDS: Final = 0.05
_WILL_NOT_HEAL: Final = ("INVALID_SESSION_TIMEOUT", "INCONSISTENT_GROUP_PROTOCOL", "GROUP_MAX_SIZE_REACHED")


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The group to join. `name` is the client id, which the group's coordinator knows too."""

    bootstrap: str
    group_id: str
    topic: str
    name: str
    session_timeout_ms: int


def consumer_config(settings: MemberSettings) -> dict[str, Any]:
    """Explicit commits, and the cooperative protocol, in which a rebalance does not revoke partitions that stay
    (KIP-429)."""
    return {
        **base_config(settings.bootstrap),
        **IMPATIENT,
        "client.id": settings.name,
        "group.id": settings.group_id,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": ASSIGNOR,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 100,
    }


class GroupMember:
    """A consumer that reports its events. `positions` has the next offset of each partition with a record read."""

    def __init__(
        self, settings: MemberSettings, make_consumer: Callable[[dict[str, Any]], Any], tell: Callable[[Event], None]
    ) -> None:
        self._topic = settings.topic
        self._consumer = make_consumer({**consumer_config(settings), "on_commit": self._on_commit})
        self._tell = tell
        self.positions: dict[int, Offset] = {}
        self._committed: dict[int, Offset] = {}
        self._asked_at: float | None = None
        """When the commit in flight was sent."""

    def run(self, enough: Callable[[], bool]) -> None:
        """Read until `enough` is true, commit, and leave the group. Raises YakError for a permanent error."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            next_commit = time.monotonic() + COMMIT_SECONDS
            while not enough():
                self._take(self._consumer.poll(_POLL_SECONDS))
                if time.monotonic() >= next_commit:
                    self.commit()
                    next_commit = time.monotonic() + COMMIT_SECONDS
        finally:
            self._consumer.close()

    def _take(self, message: Any) -> None:
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.fatal() or name_of(error) in _WILL_NOT_HEAL:
                raise from_kafka(error, f"{self._topic} could not be read by the group")
            return
        checksum = zlib.crc32(message.value() or b"")
        partition, offset = int(message.partition()), int(message.offset())
        self._tell(Read(time.monotonic(), partition, offset, checksum))
        self.positions[partition] = offset + 1

    def commit(self) -> None:
        """Commit all records read since the last commit, without waiting: during a rebalance the response takes a
        while.

        Only one commit is in flight: a retry of an earlier one could otherwise overwrite a later one.
        """
        wanted = self._uncommitted(tuple(self.positions))
        if self._asked_at is None and wanted:
            self._asked_at = time.monotonic()
            self._consumer.commit(offsets=wanted, asynchronous=True)

    def _commit_and_wait(self, partitions: tuple[int, ...]) -> None:
        from confluent_kafka import KafkaException

        wanted = self._uncommitted(partitions)
        if not wanted:
            return
        asked_at = time.monotonic()
        try:
            self._answered(asked_at, None, self._consumer.commit(offsets=wanted, asynchronous=False))
        except KafkaException as error:
            self._answered(asked_at, error.args[0], wanted)

    def _uncommitted(self, partitions: tuple[int, ...]) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in self.positions.items()
            if partition in partitions and offset != self._committed.get(partition)
        ]

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        asked_at, self._asked_at = self._asked_at, None
        assert asked_at is not None, "this commit was sent"
        self._answered(asked_at, error, partitions)

    def _answered(self, asked_at: float, error: Any, partitions: list[Any]) -> None:
        at = time.monotonic()
        done = {int(each.partition): int(each.offset) for each in partitions if error is None and each.error is None}
        self._committed |= {partition: offset for partition, offset in done.items() if partition in self.positions}
        if done:
            self._tell(Committed(at, asked_at, tuple(sorted(done.items()))))
        for each in dict.fromkeys(str(error or each.error) for each in partitions if error or each.error):
            self._tell(NotCommitted(at, each))

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        # Report before fetching the committed offsets: the member must not read again what is committed by now.
        self._tell(Given(time.monotonic(), _numbers(partitions)))
        consumer.incremental_assign(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._commit_and_wait(_numbers(partitions))
        self._let_go(consumer, partitions, in_order=True)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._let_go(consumer, partitions, in_order=False)

    def _let_go(self, consumer: Any, partitions: list[Any], *, in_order: bool) -> None:
        numbers = _numbers(partitions)
        self._tell(Taken(time.monotonic(), numbers, in_order))
        for number in numbers:
            self.positions.pop(number, None)
            self._committed.pop(number, None)
        consumer.incremental_unassign(partitions)


def _numbers(partitions: list[Any]) -> tuple[int, ...]:
    return tuple(sorted(int(each.partition) for each in partitions))


def run_member(settings: MemberSettings, *, stdin: int, stdout: BinaryIO) -> None:
    """Join when a byte arrives on `stdin`, and stay a member until it is closed; write each event as a line to
    `stdout`.

    So members that start together can join together, however long each takes to start. The parent holds the other end
    of `stdin`: when the parent ends in any way, so does the member. Raises YakError.
    """
    from confluent_kafka import Consumer

    def tell(event: Event) -> None:
        stdout.write(to_line(event).encode() + b"\n")
        stdout.flush()

    enough = threading.Event()

    def watch() -> None:
        while os.read(stdin, 4096):
            pass
        enough.set()

    member = GroupMember(settings, Consumer, tell)
    tell(Began(time.monotonic(), os.getpid()))
    if os.read(stdin, 1):
        threading.Thread(target=watch, name="until-stdin-closes", daemon=True).start()
        member.run(enough.is_set)
