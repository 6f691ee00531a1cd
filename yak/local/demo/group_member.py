"""One member of the demo's group: reads its partitions, reports each record, and commits four times a second.

It commits explicitly and asynchronously; before it gives up a revoked partition it waits for the commit. It runs in its
own process (`yak demo member`), so that it can be killed like any consumer. Its reports are lines: its process id, then
the events of its history. All times are `time.monotonic()`, which the processes of one machine share.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from yak.client.connection import IMPATIENT, base_config
from yak.client.errors import from_kafka, name_of
from yak.errors import YakError
from yak.ids import Offset
from yak.local import processes
from yak.local.demo.child import Child
from yak.local.demo.sources import record_id
from yak.local.processes import ProcessId
from yak.local.spawn import yak_argv
from yak.sim.history_checker.history import Assign, Commit, Event, Outcome, Poll, run
from yak.sim.history_checker.json_lines import from_line, to_line

HEARTBEAT_MS: Final = 200
"""Below the commit interval: librdkafka's main thread checks for due heartbeats mostly when a commit wakes it."""
COMMIT_SECONDS: Final = 0.25
ASSIGNOR: Final = "cooperative-sticky"
_POLL_SECONDS: Final = 0.05
_PERMANENT: Final = ("INVALID_SESSION_TIMEOUT", "INCONSISTENT_GROUP_PROTOCOL", "GROUP_MAX_SIZE_REACHED")


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
        self, settings: MemberSettings, make_consumer: Callable[[dict[str, Any]], Any], report: Callable[[Event], None]
    ) -> None:
        self._name, self._group, self._topic = settings.name, settings.group_id, settings.topic
        self._consumer = make_consumer({**consumer_config(settings), "on_commit": self._on_commit})
        self._report = report
        self.positions: dict[int, Offset] = {}
        self._committed: dict[int, Offset] = {}
        self._sent_at: float | None = None
        """When the commit in flight was sent."""

    def run(self, enough: Callable[[], bool]) -> None:
        """Read until `enough` is true, commit, and leave the group. Raises YakError for a permanent error."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            next_commit = time.monotonic() + COMMIT_SECONDS
            while not enough():
                began = time.monotonic()
                self._take(began, self._consumer.poll(_POLL_SECONDS))
                if time.monotonic() >= next_commit:
                    self.commit()
                    next_commit = time.monotonic() + COMMIT_SECONDS
        finally:
            self._consumer.close()

    def _take(self, began: float, message: Any) -> None:
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.fatal() or name_of(error) in _PERMANENT:
                raise from_kafka(error, f"{self._topic} could not be read by the group")
            return
        partition, offset = int(message.partition()), int(message.offset())
        found = run(self._partition(partition), [(offset, record_id(message.value()))])
        # Report before committing: a record below a committed offset must be known as read.
        self._report(Poll(self._name, began, time.monotonic(), (found,)))
        self.positions[partition] = offset + 1

    def commit(self) -> None:
        """Commit all records read since the last commit, without waiting: during a rebalance the response takes a
        while.

        Only one commit is in flight: a retry of an earlier one could otherwise overwrite a later one.
        """
        wanted = self._uncommitted(tuple(self.positions))
        if self._sent_at is None and wanted:
            self._sent_at = time.monotonic()
            self._consumer.commit(offsets=wanted, asynchronous=True)

    def _commit_and_wait(self, partitions: tuple[int, ...]) -> None:
        from confluent_kafka import KafkaException

        wanted = self._uncommitted(partitions)
        if not wanted:
            return
        sent_at = time.monotonic()
        try:
            self._answered(sent_at, None, self._consumer.commit(offsets=wanted, asynchronous=False))
        except KafkaException as error:
            self._answered(sent_at, error.args[0], wanted)

    def _uncommitted(self, partitions: tuple[int, ...]) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [
            TopicPartition(self._topic, partition, offset)
            for partition, offset in self.positions.items()
            if partition in partitions and offset != self._committed.get(partition)
        ]

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        sent_at, self._sent_at = self._sent_at, None
        assert sent_at is not None, "this commit was sent"
        self._answered(sent_at, error, partitions)

    def _answered(self, sent_at: float, error: Any, partitions: list[Any]) -> None:
        """Report the outcome; the next commit covers what was not acknowledged."""
        found: dict[Outcome, dict[int, Offset]] = {Outcome.OK: {}, Outcome.INFO: {}}
        for each in partitions:
            outcome = Outcome.INFO if error is not None or each.error is not None else Outcome.OK
            found[outcome][int(each.partition)] = int(each.offset)
        self._committed |= {at: offset for at, offset in found[Outcome.OK].items() if at in self.positions}
        for outcome, offsets in found.items():
            if offsets:
                named = {self._partition(at): offset for at, offset in sorted(offsets.items())}
                self._report(Commit(self._name, self._group, sent_at, time.monotonic(), outcome, named))

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        # Report before fetching the committed offsets: the member must not read again what is committed by now.
        starts = dict.fromkeys(self._names(partitions))
        self._report(Assign(self._name, time.monotonic(), starts, (), self._group))
        consumer.incremental_assign(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._commit_and_wait(tuple(int(each.partition) for each in partitions))
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._report(Assign(self._name, time.monotonic(), {}, self._names(partitions), self._group))
        for each in partitions:
            self.positions.pop(int(each.partition), None)
            self._committed.pop(int(each.partition), None)
        consumer.incremental_unassign(partitions)

    def _names(self, partitions: list[Any]) -> tuple[str, ...]:
        return tuple(self._partition(number) for number in sorted(int(each.partition) for each in partitions))

    def _partition(self, number: int) -> str:
        return f"{self._topic}-{number}"


def run_member(settings: MemberSettings, *, stdin: int, stdout: BinaryIO) -> None:
    """Join when a byte arrives on `stdin`, and stay a member until it is closed; write each event as a line to
    `stdout`.

    So members that start together can join together, however long each takes to start. The parent holds the other end
    of `stdin`: when the parent ends in any way, so does the member. Raises YakError.
    """
    from confluent_kafka import Consumer

    def write(line: str) -> None:
        stdout.write(line.encode() + b"\n")
        stdout.flush()

    enough = threading.Event()

    def watch() -> None:
        while os.read(stdin, 4096):
            pass
        enough.set()

    member = GroupMember(settings, Consumer, lambda event: write(to_line(event)))
    write(str(os.getpid()))
    if os.read(stdin, 1):
        threading.Thread(target=watch, name="until-stdin-closes", daemon=True).start()
        member.run(enough.is_set)


class MemberProcess:
    """A member as a child process. All its events go to `on_event`; `process` is known once it is ready to join."""

    def __init__(self, settings: MemberSettings, on_event: Callable[[Event], None]) -> None:
        self.name = settings.name
        self.process: ProcessId | None = None
        self.is_ended = False
        """Whether it was killed or asked to end, and need not run any more."""
        self._settings = settings
        self._on_event = on_event
        self._child: Child

    def start(self) -> None:
        """Start the process."""
        found = self._settings
        words = ["demo", "member", "--group", found.group_id, "--topic", found.topic, "--name", found.name]
        words += ["--session-timeout", f"{found.session_timeout_ms}ms", "-b", found.bootstrap]
        self._child = Child(yak_argv(*words), self._on_line)

    def _on_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if self.process is None and text.isdigit():
            # Its own pid: in the one-file executable it differs from the started process's.
            self.process = processes.identify(int(text))
        elif (event := from_line(text)) is not None:
            self._on_event(event)

    @property
    def pid(self) -> int | None:
        """The member's pid; None before it is ready."""
        return None if self.process is None else self.process.pid

    def join(self) -> None:
        """Make the member, which is ready, join the group."""
        self._child.write(b"\n")

    def check(self) -> None:
        """Raise the YakError of a member that ended unexpectedly."""
        if not self.is_ended and self._child.code is not None:
            raise self._child.failure(f"{self.name} of the group")

    def kill(self) -> None:
        """`kill -9` it, and wait until it is gone and all its events were reported."""
        self.is_ended = True
        if self.process is not None:
            processes.kill(self.process)
        self._child.end(0.0 if self.process is None else 5.0)

    def abandon(self) -> None:
        """Kill it in any state."""
        self.kill()

    def ask_to_end(self) -> None:
        """Make the member commit and leave the group."""
        self.is_ended = True
        self._child.close_input()

    def wait_end(self, timeout_seconds: float) -> None:
        """Wait for the end. Raises the YakError of a member that failed; kills one that does not end in time."""
        code = self._child.end(timeout_seconds)
        if code is None:
            raise YakError(
                "demo-client",
                f"{self.name} did not leave the group in {timeout_seconds:.0f} s",
                why="a member that is told to end commits first, and waits for the answer",
            )
        if code != 0:
            raise self._child.failure(f"{self.name} of the group")
