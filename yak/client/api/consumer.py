"""The blocking consumer: reads topics as a member of a group, or assigned partitions; commits on request.

Where librdkafka leaves a choice, the rules are those of Java's KafkaConsumer: a position is the offset of the next
record for the caller, `commit()` writes the positions, and rebalance callbacks run before the rebalance takes effect.
"""

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from yak.client.api.failures import explaining, translated, with_notes
from yak.client.api.message import JSON, TEXT, Message, Serde
from yak.client.api.places import OffsetReset, Places, Where
from yak.client.api.reading import BATCH, POLL_S, SLICE_S, Reading
from yak.client.api.rebalancing import Callbacks, OnRebalance
from yak.client.api.settings import Bootstrap, check_config, find_bootstrap, handle_config
from yak.client.errors import name_of
from yak.errors import UsageError
from yak.ids import Offset, TopicPartition

Assignor: TypeAlias = Literal["cooperative-sticky", "range", "roundrobin"]
GroupProtocol: TypeAlias = Literal["classic", "consumer"]

PROPAGATION_MS = 3000
"""How long a topic may be unknown before that is an error, as for a producer."""
NO_GROUP = "yak-without-group"
"""librdkafka needs a group name even without a group; it is never sent to a broker."""


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
        self.bootstrap = find_bootstrap(bootstrap)
        self.group_id = group_id
        self._timeout_s = timeout
        settings: dict[str, Any] = {
            "group.id": NO_GROUP if group_id is None else group_id,
            "enable.auto.commit": auto_commit and group_id is not None,
            "enable.auto.offset.store": False,
            "auto.offset.reset": auto_offset_reset,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "allow.auto.create.topics": False,
            "topic.metadata.propagation.max.ms": PROPAGATION_MS,
            "fetch.queue.backoff.ms": 10,
            "group.protocol": group_protocol,
        }
        if group_protocol == "classic":
            settings["partition.assignment.strategy"] = assignor
        if group_instance_id is not None:
            settings["group.instance.id"] = group_instance_id
        settings |= check_config(config)
        common = handle_config(self.bootstrap, client_id, settings, timeout_s=timeout, is_known=_is_known)
        with explaining("the consumer's settings are refused"):
            from confluent_kafka import Consumer as Handle
            from confluent_kafka import TopicPartition as Wire

            self._handle: Any = Handle(common)
        self._wire: Any = Wire
        is_cooperative = (
            settings["group.protocol"] == "consumer"
            or settings.get("partition.assignment.strategy") == "cooperative-sticky"
        )
        self.reading = Reading(
            self._handle,
            keys,
            values,
            is_cooperative=is_cooperative,
            auto_commit=auto_commit and group_id is not None,
        )
        """The source of records; public for the asynchronous consumer, which waits for it in a thread."""
        self._places = Places(self._handle, has_group=group_id is not None, reset=auto_offset_reset, timeout_s=timeout)
        self._is_subscribed = False

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
        Replaces an earlier subscription. Raises UsageError.
        """
        self._require_group("subscribe")
        names = [topics] if isinstance(topics, str) else list(topics)
        rebalancing = self.reading.told(Callbacks(on_assigned, on_revoked, on_lost))
        with explaining(f"{', '.join(names) or 'nothing'} cannot be subscribed to"):
            self._handle.subscribe(
                names,
                on_assign=rebalancing.assigned,
                on_revoke=rebalancing.revoked,
                on_lost=rebalancing.lost,
            )
        self._is_subscribed = True
        return self

    def unsubscribe(self) -> None:
        """Leave the group, at the next `poll` or `close`; after `assign`, drop the partitions now."""
        self.reading.require_open()
        ours = self.assignment()
        with explaining("the subscription could not be ended"):
            if self._is_subscribed:
                self._handle.unsubscribe()
            else:
                self._handle.unassign()
                self.reading.inbox.forget(ours)

    def assign(self, partitions: Mapping[TopicPartition, Where] | Iterable[TopicPartition]) -> Self:
        """Read these partitions outside of group management. Replaces an earlier assignment.

        A mapping gives the start offsets. Otherwise reading starts at the group's committed offsets, or as
        `auto_offset_reset` says. Names are resolved now: `"latest"` includes records that are sent after this returns.
        Raises YakError.
        """
        self.reading.require_open()
        partitions = partitions if isinstance(partitions, Mapping) else list(partitions)
        self._places.require(partitions)
        if isinstance(partitions, Mapping):
            wanted: Mapping[TopicPartition, Where] = partitions
            starts = {each: self._places.resolve(each, where) for each, where in wanted.items()}
        else:
            starts = self._places.own_starts(partitions)
        self.reading.inbox.forget(self.assignment())
        with explaining("the partitions could not be assigned"):
            self._handle.assign([self._wire(*each, offset) for each, offset in starts.items()])
        self._is_subscribed = False
        for each, offset in starts.items():
            self.reading.inbox.seek(each, offset)
        return self

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, from the group or from `assign`."""
        return self.reading.assignment()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """A topic's partitions, by number. Raises YakError (`unknown-topic`)."""
        self.reading.require_open()
        return self._places.partitions(topic)

    def poll(self, timeout: float = POLL_S, max_messages: int = BATCH) -> list[Message]:
        """Records, as soon as there are some; an empty list after `timeout` seconds without any.

        Rebalances happen in here. The group revokes the partitions of a consumer that does not poll for
        `max.poll.interval.ms` (5 min). Raises YakError for a permanent error.
        """
        deadline = time.monotonic() + timeout
        self.reading.hear()
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
        self.reading.hear()
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
            offsets = self.reading.inbox.uncommitted()
        elif isinstance(up_to, Message):
            offsets = {up_to.topic_partition: up_to.offset + 1}
        else:
            offsets = dict(up_to)
        if not offsets:
            return {}
        wires = [self._wire_before(each, offset) for each, offset in offsets.items()]
        with explaining("the offsets were not committed"):
            answers = self._handle.commit(offsets=wires, asynchronous=False)
        refused = [wire for wire in answers if wire.error is not None]
        self.reading.inbox.committed(
            {TopicPartition(wire.topic, wire.partition): wire.offset for wire in answers if wire.error is None}
        )
        if refused:
            where = ", ".join(f"{wire.topic}-{wire.partition}" for wire in refused)
            raise translated(refused[0].error, f"the offsets of {where} were not committed")
        return offsets

    def _wire_before(self, partition: TopicPartition, offset: Offset) -> Any:
        """The offset with the leader epoch of the record before it, so that a truncated log is detected (KIP-320)."""
        epoch = self.reading.inbox.epoch_before(partition, offset)
        return self._wire(*partition, offset, **({} if epoch is None else {"leader_epoch": epoch}))

    def committed(self, partition: TopicPartition) -> Offset | None:
        """The group's committed offset; None without one. Raises YakError."""
        self._require_group("committed")
        return self._places.committed([partition])[partition]

    def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record for the caller; asks the brokers before the first record. Raises YakError."""
        self.reading.require_open()
        known = self.reading.inbox.position(partition)
        return known if known is not None else self._places.own_starts([partition])[partition]

    def seek(self, partition: TopicPartition, to: Where) -> None:
        """Continue at this offset. Raises UsageError (`not-assigned`) for a partition that is not assigned."""
        self.reading.require_open()
        offset = self._places.resolve(partition, to)
        if partition in self.reading.rebalancing.arriving:
            self.reading.rebalancing.arriving[partition] = offset
        elif partition not in self.assignment():
            raise with_notes(
                UsageError(
                    "not-assigned",
                    f"{partition} cannot be sought in",
                    why="it is not assigned to this consumer, or not yet: a group assigns partitions during poll()",
                    try_=("seek in on_assigned", "consumer.assign({partition: offset})"),
                )
            )
        else:
            self._seek_now(partition, offset)
        self.reading.inbox.seek(partition, offset)

    def _seek_now(self, partition: TopicPartition, offset: Offset) -> None:
        """Retry the seek: librdkafka refuses it until it fetches, which is after it got the committed offset."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._handle.seek(self._wire(*partition, offset))
                return
            except KafkaException as error:
                if name_of(error.args[0]) != "_STATE" or time.monotonic() > deadline:
                    raise translated(error.args[0], f"{partition} could not be moved to {offset}") from None
            time.sleep(0.01)

    def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Return no records of these partitions (default: all assigned ones) until `resume`; stay in the group
        meanwhile."""
        self._quieten(partitions, self.reading.inbox.pause, "pause")

    def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Resume these partitions (default: all paused ones) where `pause` stopped."""
        self._quieten(
            self.reading.inbox.paused if partitions is None else partitions, self.reading.inbox.resume, "resume"
        )

    def _quieten(self, partitions: Iterable[TopicPartition] | None, note: Any, verb: str) -> None:
        ours = self.assignment()
        wanted = ours if partitions is None else list(partitions)
        note(wanted)
        wires = [self._wire(*each) for each in wanted if each in ours]
        with explaining(f"the partitions could not be {verb}d"):
            getattr(self._handle, verb)(wires)

    def watermarks(self, partition: TopicPartition) -> tuple[Offset, Offset]:
        """The log start offset, and the end: the offset of the next record. Raises YakError."""
        self.reading.require_open()
        return self._places.watermarks(partition)

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> Offset:
        """The first offset at or after a time; the end when all records are older. Raises YakError."""
        self.reading.require_open()
        return self._places.at_time(partition, timestamp_ms)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self.reading.is_closed

    def close(self) -> None:
        """Leave the group at once and in order. Only `auto_commit` commits. A second call does nothing."""
        if not self.is_closed:
            self.reading.store_given()
            self.reading.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif not self.is_closed:  # The last records are not processed: they must come again.
            self.reading.end()

    def _require_group(self, verb: str) -> None:
        self.reading.require_open()
        if self.group_id is None:
            raise with_notes(
                UsageError(
                    "no-group",
                    f"{verb}() needs a group",
                    why="this consumer was made without group_id, so it shares no partitions and commits no offsets",
                    try_=('Consumer(group_id="NAME")', "consumer.assign(consumer.partitions(TOPIC)) reads without one"),
                )
            )
