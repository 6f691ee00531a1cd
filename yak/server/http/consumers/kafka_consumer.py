"""One librdkafka consumer and its inbox. Every method may wait, so threads call them, one at a time for each consumer.

Only `interrupt` and `end_soon` may come from another thread meanwhile, and what only looks: `assignment`, which waits for
nothing, and `committed`. confluent-kafka lets one thread into a handle at a time, and the next one in by luck; a read
steps aside between two waits for who looks.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from yak.ids import Offset, TopicPartition
from yak.server.http.consumers.failures import illegal_state, kafka_failure
from yak.server.http.consumers.inbox import Fetched, Inbox
from yak.server.http.consumers.librdkafka import explained, make_handle
from yak.server.http.consumers.places import Mark
from yak.server.http.consumers.settings import Settings
from yak.server.http.problems import Problem

RECORDS_MAX: Final = 10_000
"""In one answer: records without key and value have no bytes."""
SLICE_S: Final = 0.2
"""One wait for records; between two, an interruption is heard."""
QUIET_S: Final = 0.05
"""When nothing more came for so long, an answer is given with what there is."""
_BATCH: Final = 200
_ASK_S: Final = 10.0
_SEEK_S: Final = 5.0
_TENDED_BYTES: Final = 64 * 1024
_TENDED_RECORDS: Final = 1_000
_EVENTS_PER_TENDING: Final = 10
_LOG_LINES_MAX: Final = 20
_ASIDE_S: Final = 0.02
"""What a look needs to get in between two waits of a read: it tries every few milliseconds."""
_PASSING: Final = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "_RESOLVE",
    "_MAX_POLL_EXCEEDED",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_TOPIC",
    "NOT_COORDINATOR",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
)
"""What librdkafka goes on after by itself: a topic that is not there yet is waited for, as Java's consumer does."""
_BEGINNING: Final = -2
_END: Final = -1


class KafkaConsumer:
    """Opened by `open`, ended by `close`. Methods raise Problem for what Kafka refuses."""

    def __init__(self, settings: Settings) -> None:
        self.log_lines: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        """Of librdkafka, for the broker's log."""
        self._settings = settings
        self._inbox = Inbox()
        self._handle: Any = None
        self._wire: Any = None
        self._named = ("", "", "")
        """Bootstrap address, group and client id."""
        self._is_interrupted = False
        self._is_ending = False
        self._shares = False
        self._resting = False
        self._failure: Any = None
        self._stored: dict[TopicPartition, Offset] = {}
        self._ours: dict[TopicPartition, None] = {}
        self.is_looked_at = False
        """A look waits to get in."""

    def open(self, bootstrap: str, group: str, client_id: str) -> None:
        """Make the consumer; it connects by itself."""
        from confluent_kafka import TopicPartition as Wire

        self._wire = Wire
        self._named = (bootstrap, group, client_id)
        self._handle = make_handle(self._settings, *self._named, self.log_lines)

    def begin(self) -> None:
        """What is called next is not interrupted yet."""
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Have the read that is under way end soon: nobody waits for it any more."""
        self._is_interrupted = True

    def end_soon(self) -> None:
        """Have it end soon, and all that follows: `close` is next."""
        self._is_ending = True

    # ----------------------------------------------------------------------------------------------- what is read

    def subscribe(self, topics: Iterable[str]) -> None:
        """Share these topics with the group, from the next read or tending on; replaces what was subscribed before."""
        names = list(topics)
        if not names:
            self.unsubscribe()
            return
        with explained("the topics could not be subscribed to"):
            self._handle.subscribe(names, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._shares = True

    def unsubscribe(self) -> None:
        """Leave the group, or give up what was assigned; the consumer may subscribe anew.

        librdkafka leaves in the background: what is asked of the group meanwhile is refused as a former member's, and takes
        an assignment along that was made since. So a member's handle is closed, which waits, and another one goes on.
        """
        self._store_given()
        with explained("the subscription could not be ended"):
            if self._shares:
                self._handle.close()
                self._handle = make_handle(self._settings, *self._named, self.log_lines)
            else:
                self._handle.unassign()
        self._shares = False
        self._nothing_is_ours()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these without sharing them, each from where the group committed; replaces what was assigned before."""
        wanted = dict.fromkeys(partitions)
        self._store_given()
        with explained("the partitions could not be assigned"):
            self._handle.assign(self._wires(wanted))
        self._shares = False
        self._nothing_is_ours()
        self._ours = wanted

    def assignment(self) -> list[TopicPartition]:
        """What is read now, sorted. Waits for nothing."""
        return sorted(self._ours)

    def _assigned(self, handle: Any, wires: list[Any]) -> None:
        handle.assign(wires)
        if self._resting:
            handle.pause(wires)
        self._ours = dict.fromkeys(TopicPartition(wire.topic, wire.partition) for wire in wires)

    def _revoked(self, _handle: Any, wires: list[Any]) -> None:
        # librdkafka commits what is stored once this returns.
        self._store_given()
        self._lost(_handle, wires)

    def _lost(self, _handle: Any, wires: list[Any]) -> None:
        gone = dict.fromkeys(TopicPartition(wire.topic, wire.partition) for wire in wires)
        self._ours = {each: None for each in self._ours if each not in gone}
        self._inbox.forget(gone)
        for each in gone:
            self._stored.pop(each, None)

    def _nothing_is_ours(self) -> None:
        self._ours = {}
        self._stored.clear()
        self._inbox.forget_all()
        self._resting = False

    def _wires(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        return [self._wire(*each) for each in partitions]

    # --------------------------------------------------------------------------------------------------- records

    def read(self, wait_s: float, bytes_max: int) -> list[Fetched]:
        """Records, for `given` or `put_back`. Everything given before counts as done with `auto.commit.enable`.

        Ends when there are `bytes_max`, or `fetch.min.bytes`, or without these when nothing more came for a moment; at the
        latest when the time is over, with what there is.
        """
        self._store_given()
        self._wake()
        with explained("nothing could be read"):
            self._gather(time.monotonic() + wait_s, bytes_max)
        taken = self._inbox.take(bytes_max, RECORDS_MAX)
        if not taken and self._failure is not None:
            failure, self._failure = self._failure, None
            raise kafka_failure(failure, "nothing could be read")
        return taken

    def _gather(self, deadline: float, bytes_max: int) -> None:
        inbox, min_bytes = self._inbox, self._settings.min_bytes
        while not (self._is_interrupted or self._is_ending) and self._failure is None:
            while inbox.bytes_held < bytes_max and len(inbox) < RECORDS_MAX:
                # consume() waits until it has the whole batch, so it only takes what is there already.
                messages = self._handle.consume(_BATCH, 0)
                if not messages:
                    break
                self._accept(messages)
            else:
                return
            if min_bytes is not None and len(inbox) and inbox.bytes_held >= min_bytes:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            may_end = min_bytes is None and len(inbox) > 0
            message = self._handle.poll(min(left, QUIET_S if may_end else SLICE_S))
            if message is None and may_end:
                return
            self._accept([message])
            if self.is_looked_at:
                time.sleep(_ASIDE_S)

    def _accept(self, messages: Iterable[Any]) -> None:
        for message in messages:
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._inbox.put(
                    Fetched(
                        TopicPartition(message.topic(), message.partition()),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.leader_epoch(),
                    )
                )
            elif error.name() in _PASSING or error.retriable():
                self.log_lines.append(error.str())
            else:
                self._failure = error

    def put_back(self, records: list[Fetched]) -> None:
        """These were read and not given: the next read has them again."""
        self._inbox.put_back(records)

    def given(self, records: list[Fetched]) -> None:
        """The client has these."""
        self._inbox.given(records)

    def tend(self) -> None:
        """Take part in rebalances while nobody reads, which librdkafka does only when it is asked for records.

        Some records come with it and wait for the next read; when they are many, fetching rests until then.
        """
        with contextlib.suppress(Problem), explained(""):
            if not self._resting:
                while self._inbox.bytes_held < _TENDED_BYTES and len(self._inbox) < _TENDED_RECORDS:
                    messages = self._handle.consume(_BATCH, 0)
                    if not messages:
                        return
                    self._accept(messages)
                self._handle.pause(self._wires(self._ours))
                self._resting = True
            for _ in range(_EVENTS_PER_TENDING):
                message = self._handle.poll(0)
                if message is None:
                    break
                self._accept([message])

    def _wake(self) -> None:
        if self._resting:
            self._resting = False
            with explained("fetching could not go on"):
                self._handle.resume(self._wires(self._ours))

    # --------------------------------------------------------------------------------------------------- offsets

    def commit(self, marks: Mapping[TopicPartition, Mark] | None, *, waits: bool) -> None:
        """Have the group remember these offsets, or all that was given; without `waits`, soon and unless it is refused."""
        if marks is not None:
            offsets = {each: mark.offset for each, mark in marks.items()}
            wires = [self._wire(*each, mark.offset, mark.metadata) for each, mark in marks.items()]
        else:
            positions = self._inbox.uncommitted()
            offsets = {each: position.offset for each, position in positions.items()}
            wires = [
                self._wire(*each, offset, **({} if epoch is None else {"leader_epoch": epoch}))
                for each, (offset, epoch) in positions.items()
            ]
        if not wires:
            return
        with explained("the offsets were not committed"):
            answers = self._handle.commit(offsets=wires, asynchronous=not waits)
        if waits:
            refused = [wire for wire in answers if wire.error is not None]
            if refused:
                where = f"{refused[0].topic}-{refused[0].partition}"
                raise kafka_failure(refused[0].error, f"the offset of {where} was not committed")
        self._inbox.committed(offsets)

    def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Mark]:
        """What the group has committed, of these partitions or of those that are read now; without those that have none."""
        wanted = self.assignment() if partitions is None else list(partitions)
        if not wanted:
            return {}
        with explained("the committed offsets are not known"):
            answers = self._handle.committed(self._wires(wanted), timeout=_ASK_S)
        for wire in answers:
            if wire.error is not None:
                raise kafka_failure(wire.error, f"what is committed for {wire.topic}-{wire.partition} is not known")
        return {
            TopicPartition(wire.topic, wire.partition): Mark(wire.offset, wire.metadata or "")
            for wire in answers
            if wire.offset >= 0
        }

    def _store_given(self) -> None:
        """With `auto.commit.enable`: tell librdkafka, which commits now and then, what the client has come back from."""
        if not self._settings.auto_commit:
            return
        given = self._inbox.uncommitted()
        fresh = {each: found for each, found in given.items() if self._stored.get(each) != found.offset}
        wires = [self._wire(*each, found.offset) for each, found in fresh.items() if each in self._ours]
        if wires:
            # A partition that went away this very moment is read by somebody else, from what was committed.
            with contextlib.suppress(Problem), explained(""):
                self._handle.store_offsets(offsets=wires)
                self._stored |= {each: found.offset for each, found in fresh.items()}

    # ------------------------------------------------------------------------------------------------- positions

    def seek(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Go on at these offsets; either all partitions are ours, or nothing moves."""
        self._require_ours(offsets)
        self._wake()
        for each, offset in offsets.items():
            self._seek(each, offset)
            self._inbox.seek(each, offset)

    def seek_to_beginning(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on at the first records that there are."""
        self.seek(self._offsets_at(dict.fromkeys(partitions, _BEGINNING)))

    def seek_to_end(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on behind the last records that may be read."""
        self.seek(self._offsets_at(dict.fromkeys(partitions, _END)))

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """The first offset at or after a time; the end, where everything is older."""
        found = self._offsets_at(times_ms)
        beyond = {each: _END for each, offset in found.items() if offset < 0}
        return found | (self._offsets_at(beyond) if beyond else {})

    def _offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset]:
        """ListOffsets takes -1 and -2 for times: the end and the beginning, by the consumer's isolation."""
        self._require_ours(times_ms)
        if not times_ms:
            return {}
        with explained("the offsets are not known"):
            answers = self._handle.offsets_for_times(
                [self._wire(*each, time_ms) for each, time_ms in times_ms.items()], timeout=_ASK_S
            )
        for wire in answers:
            if wire.error is not None:
                raise kafka_failure(wire.error, f"the offset in {wire.topic}-{wire.partition} is not known")
        return {TopicPartition(wire.topic, wire.partition): wire.offset for wire in answers}

    def _require_ours(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            if each not in self._ours:
                raise illegal_state(
                    f"{each} is not assigned to this instance",
                    "GET .../assignments shows what this instance reads; a group gives partitions out within seconds",
                )

    def _seek(self, partition: TopicPartition, offset: Offset) -> None:
        """librdkafka refuses to seek until it fetches, which is after it was told where the group committed."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _SEEK_S
        while True:
            try:
                self._handle.seek(self._wire(*partition, offset))
                return
            except KafkaException as error:
                if error.args[0].name() != "_STATE" or time.monotonic() > deadline or self._is_ending:
                    raise kafka_failure(error.args[0], f"{partition} could not be moved to {offset}") from None
            time.sleep(0.01)

    def close(self) -> None:
        """Leave the group at once and in order; with `auto.commit.enable`, what was given is committed."""
        handle = self._handle
        if handle is None:
            return
        with contextlib.suppress(Problem), explained(""):
            self._store_given()
        with contextlib.suppress(Problem), explained(""):
            handle.close()
        self._nothing_is_ours()
        # The callbacks of the handle hold this object, and nobody collects cycles in a broker.
        self._handle = None
