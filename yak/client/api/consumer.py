"""The blocking consumer: reads topics as a member of a group, or assigned partitions; commits on request.

Where librdkafka leaves a choice, the rules are those of Java's KafkaConsumer: a position is the offset of the next
record for the caller, `commit()` writes the positions, and rebalance callbacks run before the rebalance takes effect.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar

from yak.client.api import forks
from yak.client.api.asynchronous.worker import in_thread
from yak.client.api.failures import (
    bad_argument,
    closed,
    explaining,
    is_whole_number,
    require_partitions,
    require_seconds,
    require_text,
    require_wait,
    translated,
)
from yak.client.api.message import JSON, TEXT, Message, Serde, require_serdes
from yak.client.api.settings import Bootstrap, check_config, find_bootstrap, handle_config
from yak.client.consumer import (
    Callbacks,
    ConsumerHandle,
    ConsumerRecord,
    OnRebalance,
    consumer_config,
    is_transient,
    refusal_in,
)
from yak.errors import UsageError, YakError
from yak.ids import Offset, TopicPartition

Where: TypeAlias = Offset | Literal["earliest", "latest"]
OffsetReset: TypeAlias = Literal["earliest", "latest", "error"]


POLL_S = 1.0
SLICE_S = 0.1
"""The longest single wait for records; between two waits, Ctrl+C and cancellation take effect."""
BATCH = 500
CLOSE_S = 30.0
"""How long `close` waits for the group's coordinator, as Java's consumer does by default."""


class InboxReader:
    """A consumer's handle, read into its inbox."""

    def __init__(self, handle: ConsumerHandle[Message], keys: Serde, values: Serde, *, auto_commit: bool) -> None:
        self.is_closed = False
        self.is_ending = False
        """Whether `end` began: the callbacks that it runs can still commit."""
        self._handle = handle
        self._serdes = (keys, values)
        self._auto_commit = auto_commit
        self._failure: YakError | None = None
        self._polled_at_s = 0.0

    def require_open(self) -> None:
        """Raise UsageError (`closed`) when the consumer is closed."""
        if self.is_closed:
            raise closed("consumer")

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, and those that are being assigned."""
        self.require_open()
        with explaining("the assignment is not known"):
            found = self._handle.assignment()
        return sorted({*found, *self._handle.rebalancing.arriving})

    @property
    def must_poll(self) -> bool:
        """Whether buffered records are so old that their partitions may have been reassigned since."""
        return time.monotonic() - self._polled_at_s > SLICE_S and self._handle.inbox.has_some()

    def poll_if_old(self) -> None:
        """Check for a rebalance or an error before old records are returned; this also counts as a poll for the
        group."""
        if self.must_poll:
            self.fetch(0.0, 1)

    def take(self, count: int) -> list[Message]:
        """At most `count` of the buffered records, at once. Raises UsageError (`usage`) for a count below 1."""
        self.require_open()
        if not (is_whole_number(count) and count):
            raise bad_argument(
                f"max_messages={count!r} gives no record", "it is 1 or more", "poll(timeout=0) does not wait"
            )
        return self._handle.inbox.take(count)

    def fetch(self, wait_s: float, count: int) -> None:
        """Wait once for records, for `take`. With `auto_commit`, all records taken before count as processed.

        Raises UsageError (`usage`) within a rebalance callback, which librdkafka would wait for.
        """
        self.require_open()
        if self._handle.rebalancing.is_in_callback:
            raise bad_argument(
                "reading within a rebalance callback",
                "records come when the callback has returned",
                "end the callback, then poll() again",
            )
        if self.is_ending:  # in another thread, whose close would wait for the answers that this poll takes
            raise closed("consumer")
        self.store_given()
        with explaining("nothing could be read"):
            self._accept(self._handle.poll(wait_s, count))
        self._handle.rebalancing.raise_pending()
        failure, self._failure = self._failure, None
        # After an error the partitions may be lost; force the check before the next records.
        self._polled_at_s = time.monotonic() if failure is None else 0.0
        if failure is not None:
            raise failure

    def _accept(self, messages: Iterable[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self._handle.inbox.put(Message(ConsumerRecord.of(message), *self._serdes))
            elif error.name() == "_PARTITION_EOF":
                self._handle.note_end(message)
            elif not is_transient(error):
                self._handle.note_error(message)
                where = f"{message.topic()}-{message.partition()}" if message.topic() else "the subscription"
                self._failure = self._failure or translated(error, f"{where} could not be read")

    def store_given(self) -> None:
        """With `auto_commit`: store the offsets of processed records, which librdkafka commits periodically."""
        if not self._auto_commit:
            return
        with explaining("the offsets could not be stored for the next commit"):
            self._handle.store_given(self.assignment)

    def end(self) -> None:
        """Leave the group. Raises the error of a rebalance callback, UsageError (`usage`) within one, and YakError
        (`timed-out`) when the coordinator did not answer to the last commit."""
        if self._handle.rebalancing.is_in_callback:
            raise bad_argument(
                "close() within a rebalance callback",
                "the group cannot be left before the callback has returned",
                "end the loop that polls, then close",
            )
        self.is_ending = True
        if self._handle.rebalancing.callbacks != Callbacks():  # they run in the caller's thread, where they may commit
            self._close()
        else:
            try:
                commits_within(
                    CLOSE_S, self._close, "the last commit is not acknowledged; its records may be read again"
                )
            except YakError as error:
                self.is_closed = error.code == "timed-out"
                raise
        self.is_closed = True
        self._handle.rebalancing.raise_pending()

    def _close(self) -> None:
        with explaining("the consumer did not close cleanly"):
            self._handle.close()


_T = TypeVar("_T")


def commits_within(limit_s: float, commit: Callable[[], _T], what: str) -> _T:
    """Commit in a thread, where it continues after the limit or Ctrl+C: librdkafka repeats a commit until a coordinator
    answers. Raises YakError (`timed-out`)."""
    done = in_thread(commit)
    if not wait([done], limit_s).done:
        why = f"the group's coordinator did not answer in {limit_s:g} s"
        raise YakError("timed-out", what, why=why, try_=("yak doctor",))
    return done.result()


Assignor: TypeAlias = Literal["cooperative-sticky", "range", "roundrobin"]
GroupProtocol: TypeAlias = Literal["classic", "consumer"]

PROPAGATION_MS = 3000
"""How long a topic may be unknown before that is an error, as for a producer."""


class Consumer:
    """Reads records. Not thread-safe; best used as a context manager, which leaves the group at its end.

    - `group_id`: the group to join; None reads only partitions given to `assign`, and commits nothing
    - `auto_offset_reset`: where to start without a committed offset, or when that offset is out of range
    - `auto_commit`: commit every 5 s and at the end, up to the records returned *before the last* call of `poll`
    - `read_committed`: omit records of aborted transactions
    - `group_instance_id`: a static member (KIP-345), which keeps its partitions if it returns within the session
      timeout
    - `group_protocol`: `"consumer"` lets the broker assign (KIP-848); `"classic"` lets a member assign by `assignor`
    - `timeout`: limit of each request to a broker, in seconds
    - `keys`, `values`: the serdes of keys and values; text and JSON by default
    - `config`: other librdkafka settings, by their names

    Raises Unreachable when no broker answers within 3 s, UsageError for invalid settings.
    """

    def __init__(
        self,
        bootstrap: Bootstrap = None,
        *,
        group_id: str | None = None,
        auto_offset_reset: OffsetReset = "earliest",
        auto_commit: bool = False,
        read_committed: bool = False,
        group_instance_id: str | None = None,
        group_protocol: GroupProtocol = "classic",
        assignor: Assignor = "cooperative-sticky",
        timeout: float = 10.0,
        keys: Serde = TEXT,
        values: Serde = JSON,
        client_id: str = "yak",
        config: Mapping[str, Any] | None = None,
        _is_known: bool = False,
    ) -> None:
        if group_id is not None and not group_id:  # librdkafka's binding would abort the process
            raise UsageError("bad-group-id", "a group needs a name", try_=('group_id="billing"', "group_id=None"))
        require_serdes(keys, values)
        require_seconds("timeout", timeout)
        self.bootstrap = find_bootstrap(bootstrap)
        self.group_id = group_id
        self._timeout_s = timeout
        settings = consumer_config(group_id, reset=auto_offset_reset, read_committed=read_committed) | {
            "enable.auto.commit": auto_commit and group_id is not None,
            "topic.metadata.propagation.max.ms": PROPAGATION_MS,
            "group.protocol": group_protocol,
            "enable.partition.eof": True,  # without a record, it alone tells the position after a reset
        }
        if group_protocol == "classic":
            settings["partition.assignment.strategy"] = assignor
        if group_instance_id is not None:
            settings["group.instance.id"] = group_instance_id
        settings |= check_config(config)
        common = handle_config(self.bootstrap, client_id, settings, timeout_s=timeout, is_known=_is_known)
        is_cooperative = (
            settings["group.protocol"] == "consumer"
            or settings.get("partition.assignment.strategy") == "cooperative-sticky"
        )
        with explaining("the consumer's settings are refused"):
            self._handle = ConsumerHandle[Message](common, is_cooperative=is_cooperative)
        self.reading = InboxReader(self._handle, keys, values, auto_commit=auto_commit and group_id is not None)
        """The source of records; public for the asynchronous consumer, which waits for it in a thread."""
        self._reset = auto_offset_reset
        self._is_subscribed = False
        forks.open_clients[self] = Consumer._leave_to_parent

    def subscribe(
        self,
        topics: str | Iterable[str],
        *,
        on_assigned: OnRebalance | None = None,
        on_revoked: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> Self:
        """Read these topics with the other members of the group; a name that begins with ^ is a regular expression.

        The functions are rebalance callbacks, run inside `poll` and `close`; they may `commit`, `seek` and `pause`.
        Replaces an earlier subscription or assignment. Raises UsageError.
        """
        self._require_group("subscribe")
        if self.reading.is_ending:
            raise closed("consumer")
        with explaining(f"{topics!r} cannot be subscribed to"):
            names = [topics] if isinstance(topics, str) else list(topics)
            if not names:
                raise bad_argument("subscribe() without a topic", "there is none to read", "consumer.unsubscribe()")
            require_text("".join(names))  # raises for a name that is no text
            if not self._is_subscribed and self.assignment():
                self.unsubscribe()  # or librdkafka refuses the group's partitions that are assigned already
            self._handle.subscribe(names, Callbacks(on_assigned, on_revoked, on_lost))
        self._is_subscribed = True
        return self

    def unsubscribe(self) -> None:
        """Leave the group, at the next `poll` or `close`; after `assign`, drop the partitions now."""
        self.reading.require_open()
        ours = self.assignment()
        with explaining("the subscription could not be ended"):
            if self._is_subscribed:
                self._handle.consumer.unsubscribe()
            else:
                self._handle.assign({})
                self._handle.inbox.forget(ours)

    def assign(self, partitions: Mapping[TopicPartition, Where] | Iterable[TopicPartition]) -> Self:
        """Read these partitions outside of group management. Replaces an earlier assignment, and ends a subscription: the
        group revokes its partitions first.

        A mapping gives the start offsets. Otherwise reading starts at the group's committed offsets, or as
        `auto_offset_reset` says. Names are resolved now: `"latest"` includes records that are sent after this returns.
        Raises YakError, and UsageError (`usage`) within a rebalance callback.
        """
        self.reading.require_open()
        if self._handle.rebalancing.is_in_callback:
            raise bad_argument(
                "assign() within a rebalance callback",
                "the group cannot be left before the callback has returned",
                "consumer.seek(partition, offset) sets the position of an assigned partition",
            )
        partitions = partitions if isinstance(partitions, Mapping) else list(partitions)
        self._require_partitions(partitions)
        if isinstance(partitions, Mapping):
            wanted: Mapping[TopicPartition, Where] = partitions
            starts = {each: self._resolve(each, where) for each, where in wanted.items()}
        else:
            starts = self._own_starts(partitions)
        if self._is_subscribed:
            self._end_subscription()
        self._handle.inbox.forget(self.assignment())
        with explaining("the partitions could not be assigned"):
            self._handle.assign(starts)
        for each, offset in starts.items():
            self._handle.inbox.seek(each, offset)
        return self

    def _require_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Check that the partitions exist: librdkafka waits silently for a missing one."""
        with explaining("the partitions could not be assigned"):
            require_partitions(partitions)
            metadata = self._handle.metadata(self._timeout_s)
            for each in partitions:
                count = len(metadata.require_topic(each.topic).partitions)
                if not 0 <= each.partition < count:
                    why = f'topic "{each.topic}" has {count}, numbered from 0'
                    raise YakError("unknown-partition", f"{each} does not exist", why=why)

    def _end_subscription(self) -> None:
        self.reading.store_given()
        with explaining("the subscription could not be ended"):
            self._handle.end_subscription()
        self._is_subscribed = False
        self._handle.rebalancing.raise_pending()

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, from the group or from `assign`."""
        return self.reading.assignment()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions, by number. Raises YakError (`unknown-topic`)."""
        self.reading.require_open()
        with explaining(f'the partitions of "{topic}" are not known'):
            found = self._handle.metadata(self._timeout_s).require_topic(topic)
        return [TopicPartition(topic, each.number) for each in found.partitions]

    def poll(self, timeout: float = POLL_S, max_messages: int = BATCH) -> list[Message]:
        """Records, as soon as there are some; an empty list after `timeout` seconds without any.

        Rebalances happen in here. The group revokes the partitions of a consumer that does not poll for
        `max.poll.interval.ms` (5 min). Raises YakError for a permanent error.
        """
        deadline = time.monotonic() + require_wait(timeout)
        self.reading.poll_if_old()
        while not (taken := self.reading.take(max_messages)):
            left = deadline - time.monotonic()
            self.reading.fetch(max(0.0, min(SLICE_S, left)), max_messages)
            if left <= 0:
                return self.reading.take(max_messages)
        return taken

    def __iter__(self) -> Self:
        """Every record from here on, without end; `break` loses nothing."""
        return self

    def __next__(self) -> Message:
        self.reading.poll_if_old()
        while not (taken := self.reading.take(1)):
            self.reading.fetch(SLICE_S, BATCH)
        return taken[0]

    def commit(self, up_to: Message | Mapping[TopicPartition, Offset] | None = None) -> dict[TopicPartition, Offset]:
        """Commit offsets, wait for the acknowledgement, and return what was committed.

        Without an argument these are the positions after all returned records. A record means itself and all before it
        in its partition. A mapping gives the offsets to resume at. Raises YakError (`left-group`,
        `rebalance-in-progress`, `no-coordinator`…).
        """
        self._require_group("commit")
        if up_to is None:
            offsets = self._handle.inbox.uncommitted()
        elif isinstance(up_to, Message):
            offsets = {up_to.topic_partition: up_to.offset + 1}
        else:
            with explaining("the offsets were not committed"):
                offsets = dict(up_to)
        for partition, offset in offsets.items():
            if not is_whole_number(offset):
                raise bad_argument(
                    f"offset {offset!r} of {partition} cannot be committed",
                    "a committed offset is where to go on, from 0 on",
                    'consumer.watermarks(partition) has the offsets of "earliest" and "latest"',
                )
        if not offsets:
            return {}
        with explaining("the offsets were not committed"):
            if self._handle.rebalancing.is_in_callback:  # librdkafka's thread is this one, until it returns
                answers = self._handle.commit(offsets)
            else:
                what = "the commit is not acknowledged; it may be carried out all the same"
                answers = commits_within(self._timeout_s, lambda: self._handle.commit(offsets), what)
        self._handle.inbox.committed({each: answer.offset for each, answer in answers.items() if answer.error is None})
        refused = {each: answer.error for each, answer in answers.items() if answer.error is not None}
        for error in refused.values():
            raise translated(error, f"the offsets of {', '.join(map(str, refused))} were not committed")
        return offsets

    def committed(self, partition: TopicPartition) -> Offset | None:
        """The group's committed offset; None without one. Raises YakError."""
        self._require_group("committed")
        return self._committed([partition]).get(partition)

    def _committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The committed offsets of those of the partitions that have one."""
        what = f"what is committed for {', '.join(map(str, partitions))} is not known"
        with explaining(what):
            found = self._handle.committed(partitions, self._timeout_s)
        if (refused := refusal_in(found)) is not None:
            raise translated(refused[1], what)
        return {each: answer.offset for each, answer in found.items() if answer.offset >= 0}

    def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record for the caller; reads it from the brokers before the first record. Raises YakError."""
        self.reading.require_open()
        known = self._handle.inbox.position(partition)
        return known if known is not None else self._own_starts([partition])[partition]

    def _own_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        """The default start offsets: the group's committed offsets, else as `auto_offset_reset` says."""
        committed = self._committed(partitions) if self.group_id is not None else {}
        return {each: committed[each] if each in committed else self._reset_of(each) for each in partitions}

    def _reset_of(self, partition: TopicPartition) -> Offset:
        if self._reset != "error":
            return self._resolve(partition, self._reset)
        raise YakError(
            "no-offset",
            f"where to begin in {partition} is not known",
            why='nothing is committed, and auto_offset_reset="error"',
            try_=("consumer.assign({partition: offset})", 'auto_offset_reset="earliest"'),
        )

    def seek(self, partition: TopicPartition, to: Where) -> None:
        """Continue at this offset. Raises UsageError (`not-assigned`) for a partition that is not assigned."""
        self.reading.require_open()
        offset = self._resolve(partition, to)
        if partition in self._handle.rebalancing.arriving:
            self._handle.rebalancing.arriving[partition] = offset
        elif partition not in self.assignment():
            raise UsageError(
                "not-assigned",
                f"{partition} cannot be sought in",
                why="it is not assigned to this consumer, or not yet: a group assigns partitions during poll()",
                try_=("seek in on_assigned", "consumer.assign({partition: offset})"),
            )
        else:
            with explaining(f"{partition} could not be moved to {offset}"):
                self._handle.seek(partition, offset, self._timeout_s, lambda: True)
        self._handle.inbox.seek(partition, offset)

    def _resolve(self, partition: TopicPartition, where: Where) -> Offset:
        """Resolve an offset or a name to an offset. Raises UsageError."""
        if isinstance(where, int) and where >= 0:
            return where
        if where in ("earliest", "latest"):
            return self.watermarks(partition)[where == "latest"]
        raise UsageError(
            "usage",
            f"{where!r} is no place in {partition}",
            why="a place is an offset from 0 on, or a name",
            try_=('"earliest"', '"latest"', "consumer.offset_for_time(partition, timestamp_ms)"),
        )

    def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Return no records of these partitions (default: all assigned ones) until `resume`; stay in the group
        meanwhile."""
        self._quieten(partitions, self._handle.inbox.pause, "pause")

    def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Resume these partitions (default: all paused ones) where `pause` stopped."""
        self._quieten(
            self._handle.inbox.paused if partitions is None else partitions, self._handle.inbox.resume, "resume"
        )

    def _quieten(self, partitions: Iterable[TopicPartition] | None, note: Any, verb: str) -> None:
        ours = self.assignment()
        wanted = ours if partitions is None else list(partitions)
        require_partitions(wanted)
        note(wanted)
        with explaining(f"the partitions could not be {verb}d"):
            getattr(self._handle, verb)([each for each in wanted if each in ours])

    def watermarks(self, partition: TopicPartition) -> tuple[Offset, Offset]:
        """The log start offset, and the end: the offset of the next record. Raises YakError."""
        self.reading.require_open()
        with explaining(f"the offsets of {partition} are not known"):
            return self._handle.watermarks(partition, self._timeout_s)

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> Offset:
        """The first offset at or after a time; the end when all records are older. Raises YakError."""
        self.reading.require_open()
        if not is_whole_number(timestamp_ms):
            raise bad_argument(
                f"timestamp_ms={timestamp_ms!r} is no time", "it is in milliseconds since 1970, from 0 on"
            )
        what = f"the offsets of {partition} are not known"
        with explaining(what):
            found = self._handle.offsets_at({partition: timestamp_ms}, self._timeout_s)[partition]
        if found.error is not None:
            raise translated(found.error, what)
        return found.offset if found.offset >= 0 else self.watermarks(partition)[1]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.reading.is_closed

    def close(self) -> None:
        """Leave the group at once and in order. Only `auto_commit` commits. A second call does nothing.

        Raises YakError (`timed-out`) when the group's coordinator did not answer to that commit in 30 s. A consumer with
        rebalance callbacks waits for it.
        """
        if not self.is_closed:
            try:
                self.reading.store_given()
            finally:  # a member that stays would keep its partitions until its session ends
                self.reading.end()

    def _leave_to_parent(self) -> Any:
        self.reading.is_closed = True
        return self._handle.consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif not self.is_closed:  # The last records are not processed: they must come again.
            with suppress(YakError):  # the block's error must not be hidden
                self.reading.end()

    def _require_group(self, verb: str) -> None:
        self.reading.require_open()
        if self.group_id is None:
            raise UsageError(
                "no-group",
                f"{verb}() needs a group",
                why="this consumer has no group_id, so it shares no partitions and commits no offsets",
                try_=('Consumer(group_id="NAME")', "consumer.assign(consumer.partitions(TOPIC)) reads without one"),
            )
