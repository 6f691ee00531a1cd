"""The group coordinator: groups on the coordinator runtime, with `__consumer_offsets` as their topic.

A group's records are appended to its partition, and its timers fence members that are late. Classic groups call back
through this class, which is their `Port`. Consumer groups (KIP-848) are in `consumer_groups`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from yak.coordination.consumer_groups import ConsumerGroups
from yak.coordination.coordinator_partitions import CoordinatorPartitions
from yak.coordination.offset_expiry import OffsetExpiry
from yak.coordination.runtime import (
    CoordinatedPartition,
    CoordinatorRuntime,
    Producer,
    Then,
    as_coordinator,
    for_one_batch,
    tombstone_batches,
)
from yak.core.context import Context
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.group import ClassicGroup, ClassicSettings, ClassicState
from yak.groups.classic.records import group_record
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.group import Group
from yak.groups.offsets import OFFSETS_TOPIC, Committed, is_offset_key, offset_record, read_offset_key
from yak.groups.record import Record
from yak.groups.shard import Shard
from yak.ids import Offset
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.partitions.transaction_markers import TxnMarker
from yak.replication.partition import Partition

GroupsPartition: TypeAlias = CoordinatedPartition[Shard]
"""A coordinated partition of `__consumer_offsets`."""


class GroupCoordinator:
    """The entry point of the group APIs, and the `Port` of every classic group here."""

    def __init__(self, context: Context, partitions: CoordinatorPartitions, new_uuid: Callable[[], uuid.UUID]) -> None:
        self._context = context
        self.new_uuid = new_uuid
        config = context.config
        self._settings = ClassicSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms, max_size=config.group_max_size
        )
        self.runtime: CoordinatorRuntime[Shard] = CoordinatorRuntime(
            context, OFFSETS_TOPIC, partitions, self, context.config.offsets_topic_compression_codec
        )
        self.consumers = ConsumerGroups(context, self)
        self.expiry = OffsetExpiry(context, self)

    # ------------------------------------------------------------------------------------------------ which groups

    def make_shard(self) -> Shard:
        """An empty state for a partition of `__consumer_offsets`."""
        return Shard(self.make_group)

    def loaded(self, coordinated: GroupsPartition, records: int) -> None:
        """Start the sessions of the groups that were read."""
        context, shard = self._context, coordinated.shard
        now_ms = context.clock.now_ms
        for producer_id, is_commit in shard.late_markers:
            shard.end_transaction(producer_id, 0, is_commit=is_commit)
        shard.late_markers.clear()
        end_offset = shard.forgotten_end = coordinated.partition.log_end_offset
        for group in shard.groups.values():
            # the records read may not be committed yet
            group.uncommitted_end = end_offset
            group.members.arm(now_ms)
            self.consumers.loaded(group)
        self.expiry.remove_deleted()
        partition = str(coordinated.partition.topic_partition)
        if shard.unreadable:
            context.notice(
                "warning",
                "group-records-refused",
                partition=partition,
                records=shard.unreadable,
                first=shard.first_refusal,
            )
        if records:
            context.notice(
                "info",
                "groups-loaded",
                partition=partition,
                groups=len(shard.groups),
                records=records,
                unreadable=shard.unreadable,
                took_ms=now_ms - coordinated.started_ms,
            )

    @changes_state
    def transaction_ended(self, partition: Partition, marker: TxnMarker) -> None:
        """Commit or drop the offsets of a producer's transaction: its marker was appended to this partition."""
        coordinated = self.runtime.coordinated.get(partition.topic_partition.partition)
        if coordinated is None or coordinated.partition is not partition:
            return
        if coordinated.is_loading:
            # the loader ends where the log ended when it began
            coordinated.shard.late_markers.append((marker.producer_id, marker.is_commit))
            return
        coordinated.shard.end_transaction(marker.producer_id, partition.log_end_offset, is_commit=marker.is_commit)

    def resigned(self, coordinated: GroupsPartition) -> None:
        """Drop the partition's groups; waiting requests get NOT_COORDINATOR."""
        for group in list(coordinated.shard.groups.values()):
            self._forget(group, ErrorCode.not_coordinator)

    def _forget(self, group: Group, error_code: ErrorCode) -> None:
        self._context.timers.disarm(group.members)
        group.members.die(error_code)
        if group.consumer is not None:
            self._context.timers.disarm(group.consumer)

    def make_group(self, group_id: str) -> ClassicGroup:
        """A classic group without members."""
        return ClassicGroup(group_id, self, self._settings)

    def of(self, group_id: str, *, may_be_empty: bool = False) -> GroupsPartition:
        """The partition of a client's group. Raises PeerError: INVALID_GROUP_ID, and the errors of the runtime."""
        if not (group_id or may_be_empty) or len(group_id.encode()) > GROUP_STRING_BYTES_MAX:
            raise PeerError(ErrorCode.invalid_group_id)
        return self.runtime.find(group_id)

    @changes_state
    def put_classic(self, group: Group, error_code: ErrorCode, classic: ClassicGroup | None = None) -> None:
        """Replace a group by `classic`, or by an empty classic group. Waiting requests get the error."""
        self._forget(group, error_code)
        group.consumer = None
        group.members = classic or self.make_group(group.group_id)

    # ------------------------------------------------------------------------------------------------------- records

    def append(
        self,
        coordinated: GroupsPartition,
        group: Group,
        records: Iterable[Record],
        replay: Callable[[], None],
        then: Then,
        producer: Producer | None = None,
    ) -> None:
        """Append a group's records, `replay` them into memory, and call `then` when they are committed.

        With a `producer` they are part of its transaction. If nothing could be written, `then` gets the error and
        `replay` is not called.
        """

        def appended(end_offset: Offset) -> None:
            group.uncommitted_end = end_offset
            replay()

        try:
            fitting = for_one_batch(records, coordinated.partition)
        except PeerError as error:
            then(as_coordinator(error.error_code))
            return
        self.runtime.append(coordinated, fitting, appended, then, producer)

    def delete(
        self,
        coordinated: GroupsPartition,
        group: Group,
        tombstones: Iterable[Record],
        then: Then,
        drops_with: ErrorCode | None = None,
    ) -> None:
        """Append tombstones of a group's offsets, in batches that the log takes; `then` as for `append`.

        With `drops_with` the last of them are the group's own: it is dropped, and its waiting requests get this error. After
        an error the offsets of the batches before it are deleted, and the group stays.
        """
        batches = tombstone_batches(((record, record.key) for record in tombstones), coordinated.partition)
        some = next(batches, [])
        codes: list[ErrorCode] = []

        @changes_state
        def replay() -> None:
            if following is None and drops_with is not None:
                coordinated.shard.drop(group)
                self._forget(group, drops_with)
                return
            for record in filter(lambda record: is_offset_key(record.key), some):
                _group_id, topic, index = read_offset_key(record.key)
                group.offsets.remove(topic, index, group.uncommitted_end)

        while (following := next(batches, None)) is not None:
            codes.clear()
            self.append(coordinated, group, some, replay, codes.append)
            if codes and codes[0] != ErrorCode.none:
                then(codes[0])
                return
            some = following
        if some:
            self.append(coordinated, group, some, replay, then)
        else:
            replay()
            then(ErrorCode.none)

    def commit(
        self,
        coordinated: GroupsPartition,
        group: Group,
        offsets: Sequence[tuple[str, int, Committed]],
        then: Then,
        producer: Producer | None = None,
    ) -> None:
        """Append a group's offsets, in the transaction of a `producer` if there is one; `then` as for `append`."""
        producer_id = None if producer is None else producer[0]

        def replay() -> None:
            for record_offset, (topic, index, committed) in enumerate(offsets, group.uncommitted_end - len(offsets)):
                placed = committed._replace(record_offset=record_offset)
                coordinated.shard.put_offset(group, topic, index, placed, producer_id)

        def committed(error_code: ErrorCode) -> None:
            group.offsets.forget_before(coordinated.partition.high_watermark)
            then(error_code)

        records = (offset_record(group.group_id, *each) for each in offsets)
        self.append(coordinated, group, records, replay, committed, producer)
        coordinated.shard.drop_if_void(group)

    def when_committed(self, coordinated: GroupsPartition, group_id: str, then: Then) -> None:
        """Call `then` when all records behind a group's state are committed, if its request still waits then."""
        until_ms = self._context.clock.now_ms + self._context.config.offsets_commit_timeout_ms
        self.runtime.when_committed(coordinated, coordinated.shard.end_of(group_id), then, until_ms)

    # --------------------------------------------------------------------------------------- port of classic groups

    def write(self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Then) -> None:
        """Append a group's metadata record at the end of a rebalance."""
        try:
            coordinated = self.runtime.find(group.group_id)
        except PeerError as error:
            then(error.error_code)
            return
        entry = coordinated.shard.groups.get(group.group_id)
        if entry is None or entry.members is not group:
            then(ErrorCode.not_coordinator)
            return
        record = group_record(group, assignments, self._context.clock.wall_ms)
        self.append(coordinated, entry, (record,), lambda: None, then)  # the group already matches its record

    def schedule(self, group: ClassicGroup | ConsumerGroup, due_ms: int) -> None:
        """Run a group's timer at `due_ms`, unless it is already due earlier."""
        if isinstance(group, ConsumerGroup):
            self._context.timers.arm_at_the_latest(group, due_ms, lambda: self.consumers.on_time(group))
        else:
            self._context.timers.arm_at_the_latest(group, due_ms, lambda: self._on_time(group))

    def new_member_id(self, prefix: str) -> str:
        """A member id like Kafka's: the prefix, a dash and a random UUID."""
        unique = f"-{self.new_uuid()}"
        return prefix.encode()[: GROUP_STRING_BYTES_MAX - len(unique)].decode(errors="ignore") + unique

    @property
    def now_ms(self) -> int:
        """The time of the current step."""
        return self._context.clock.now_ms

    @property
    def wall_ms(self) -> int:
        """The wall clock in the current step."""
        return self._context.clock.wall_ms

    def say(self, event: str, **fields: object) -> None:
        """Emit an info log event."""
        self._context.notice("info", event, **fields)

    def _on_time(self, group: ClassicGroup) -> None:
        group.on_time(self._context.clock.now_ms)
        if group.state is ClassicState.DEAD:
            self._context.timers.disarm(group)
            return
        due_ms = group.next_due()
        if due_ms is not None:
            self.schedule(group, due_ms)
            return
        try:
            coordinated = self.runtime.find(group.group_id)
        except PeerError:
            return
        entry = coordinated.shard.groups.get(group.group_id)
        if entry is not None:
            coordinated.shard.drop_if_void(entry)
