"""The groups that this broker coordinates, their records, and their timers.

A broker coordinates the groups of a `__consumer_offsets` partition once it has read the partition (`loading`), until it
no longer leads it. A request is decided on the state in memory; its records are appended, then replayed. The answer is
sent when they are committed. A broker that loses the partition drops the state, and the next leader reads the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yak.broker.call import Waiting
from yak.broker.coordinator import writing
from yak.broker.coordinator.consumer_groups import ConsumerGroups
from yak.broker.coordinator.expiry import OffsetExpiry
from yak.broker.coordinator.loading import Loading
from yak.broker.coordinator.writing import Then
from yak.errors import ErrorCode, PeerError
from yak.fail_stop import changes_state
from yak.groups.classic.group import ClassicGroup, ClassicSettings
from yak.groups.classic.records import group_record
from yak.groups.classic.states import ClassicState
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.group import Group
from yak.groups.placement import OFFSETS_TOPIC, partition_of
from yak.groups.record import Record
from yak.groups.shard import Shard
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_STALE_DUES_MAX: Final = 64
_UTF8_BYTES_MAX: Final = 4


class Led:
    """A `__consumer_offsets` partition that this broker leads. Its groups are complete once `loading` is None."""

    __slots__ = ("loading", "partition", "shard", "started_ms")

    def __init__(self, partition: Partition, shard: Shard, started_ms: int) -> None:
        self.partition = partition
        self.shard = shard
        self.started_ms = started_ms
        self.loading: Loading | None = None


class Coordinator:
    """The entry point of the group APIs, and the `Port` of every classic group here."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        config = broker.config
        self._settings = ClassicSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
        )
        self.led: dict[int, Led] = {}
        self._loading: dict[int, Loading] = {}
        """Partitions that are still being read, by number."""
        self._due: dict[ClassicGroup | ConsumerGroup, int] = {}
        """When each group's next timer is due."""
        self._heap: list[tuple[int, int, ClassicGroup | ConsumerGroup]] = []
        self._pushes = 0
        self.awaiting_topic: dict[Waiting, None] = {}
        """Requests that wait until the image has `__consumer_offsets`."""
        self.consumers = ConsumerGroups(broker, self)
        self.expiry = OffsetExpiry(broker, self)

    # ------------------------------------------------------------------------------------------------ which groups

    def topics_changed(self, names: Iterable[str]) -> None:
        """Finish the requests that wait for `__consumer_offsets`, if these topics include it."""
        if self.awaiting_topic and OFFSETS_TOPIC in names:
            for waiting in list(self.awaiting_topic):
                self._broker.finish(waiting)

    def look(self, partition: Partition) -> None:
        """Load or resign: the leadership, log or existence of a `__consumer_offsets` partition may have changed."""
        index = partition.topic_partition.partition
        held = self.led.get(index)
        leads = partition.is_leader and partition.log is not None and not self._broker.maintenance.is_stopping
        if held is not None and (not leads or held.partition is not partition):
            self._resign(index, held)
            held = None
        if leads and held is None:
            self._begin(index, partition)

    def _begin(self, index: int, partition: Partition) -> None:
        held = Led(partition, Shard(self.make_group), self._broker.now_ms)
        self.led[index] = held
        held.loading = self._loading[index] = Loading(self._broker, partition, held.shard, lambda: self._loaded(held))
        held.loading.go_on()

    def _loaded(self, held: Led) -> None:
        loading, held.loading = held.loading, None
        self._loading.pop(held.partition.topic_partition.partition, None)
        now_ms = self._broker.now_ms
        end_offset = held.shard.forgotten_end = held.partition.log_end_offset
        for group in held.shard.groups.values():
            # the records read may not be committed yet
            group.uncommitted_end = end_offset
            group.members.arm(now_ms)
            self.consumers.loaded(group)
        if held.shard.unreadable:
            self._broker.notice(
                "warning",
                "group-records-refused",
                partition=str(held.partition.topic_partition),
                records=held.shard.unreadable,
                first=held.shard.first_refusal,
            )
        if loading is not None and loading.records:
            self._broker.notice(
                "info",
                "groups-loaded",
                partition=str(held.partition.topic_partition),
                groups=len(held.shard.groups),
                records=loading.records,
                unreadable=held.shard.unreadable,
                took_ms=now_ms - held.started_ms,
            )

    def _resign(self, index: int, held: Led) -> None:
        del self.led[index]
        if held.loading is not None:
            held.loading.stop()
            del self._loading[index]
        for group in list(held.shard.groups.values()):
            self._forget(group, ErrorCode.not_coordinator)

    def stop(self) -> None:
        """Resign from every partition; waiting requests get NOT_COORDINATOR."""
        for index, held in list(self.led.items()):
            self._resign(index, held)

    def _forget(self, group: Group, error_code: ErrorCode) -> None:
        self._due.pop(group.members, None)
        group.members.die(error_code)
        if group.consumer is not None:
            self._due.pop(group.consumer, None)

    def make_group(self, group_id: str) -> ClassicGroup:
        """A classic group without members."""
        return ClassicGroup(group_id, self, self._settings)

    def of(self, group_id: str, *, may_be_empty: bool = False) -> Led:
        """The partition of a client's group. Raises PeerError: INVALID_GROUP_ID, and the errors of `find`."""
        if (not group_id and not may_be_empty) or len(group_id) > GROUP_STRING_BYTES_MAX // _UTF8_BYTES_MAX:
            self._check_id(group_id)
        return self.find(group_id)

    def _check_id(self, group_id: str) -> None:
        if not group_id or len(group_id.encode()) > GROUP_STRING_BYTES_MAX:
            raise PeerError(ErrorCode.invalid_group_id)

    def find(self, group_id: str) -> Led:
        """The partition of a group. Raises PeerError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        topic = self._broker.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            raise PeerError(ErrorCode.not_coordinator)
        held = self.led.get(partition_of(group_id, len(topic.partitions)))
        if held is None or self._broker.maintenance.is_stopping:
            raise PeerError(ErrorCode.not_coordinator)
        if held.loading is not None:
            raise PeerError(ErrorCode.coordinator_load_in_progress)
        return held

    def is_loading(self) -> bool:
        """Whether a partition is still being read."""
        return bool(self._loading)

    @changes_state
    def deleted(self, held: Led, group: Group, error_code: ErrorCode) -> None:
        """Drop a group whose records were deleted."""
        held.shard.drop(group)
        self._forget(group, error_code)

    @changes_state
    def put_classic(self, group: Group, error_code: ErrorCode, classic: ClassicGroup | None = None) -> None:
        """Replace a group by `classic`, or by an empty classic group. Waiting requests get the error."""
        self._forget(group, error_code)
        group.consumer = None
        group.members = classic or self.make_group(group.group_id)

    # ------------------------------------------------------------------------------------------------------- records

    @changes_state
    def append(
        self, held: Led, group: Group, records: Sequence[Record], replay: Callable[[], None], then: Then
    ) -> None:
        """Append a group's records, `replay` them into memory, and call `then` when they are committed.

        If nothing could be written, `then` gets the error and `replay` is not called.
        """
        if self.led.get(held.partition.topic_partition.partition) is not held:
            then(ErrorCode.not_coordinator)
            return
        try:
            appended = writing.append(self._broker, held.partition, records)
        except PeerError as error:
            then(writing.as_coordinator(error.error_code))
            return
        group.uncommitted_end = appended.end_offset
        replay()
        writing.when_counted(held.partition, appended, lambda code: then(writing.as_coordinator(code)))

    def when_committed(self, held: Led, group_id: str, then: Then) -> None:
        """Call `then` when all records behind a group's state are committed."""
        writing.when_committed(
            held.partition,
            held.shard.end_of(group_id),
            lambda code: then(writing.as_coordinator(code)),
        )

    # --------------------------------------------------------------------------------------- port of classic groups

    def write(self, group: ClassicGroup, assignments: Mapping[str, bytes] | None, then: Then) -> None:
        """Append a group's metadata record at the end of a rebalance."""
        try:
            held = self.find(group.group_id)
        except PeerError as error:
            then(error.error_code)
            return
        entry = held.shard.groups.get(group.group_id)
        if entry is None or entry.members is not group:
            then(ErrorCode.not_coordinator)
            return
        record = group_record(group, assignments, self._broker.wall_ms)
        self.append(held, entry, (record,), _nothing, then)

    def schedule(self, group: ClassicGroup | ConsumerGroup, due_ms: int) -> None:
        """Run a group's timer at `due_ms`, unless it is already due earlier."""
        present = self._due.get(group)
        if present is None or due_ms < present:
            self._due[group] = due_ms
            self._pushes += 1
            heapq.heappush(self._heap, (due_ms, self._pushes, group))
            if len(self._heap) > 2 * len(self._due) + _STALE_DUES_MAX:
                self._heap = [(due, number, each) for number, (each, due) in enumerate(self._due.items())]
                self._pushes = len(self._heap)
                heapq.heapify(self._heap)

    def new_member_id(self, prefix: str) -> str:
        """A member id like Kafka's: the prefix, a dash and a random UUID."""
        unique = f"-{self._broker.dice.uuid4()}"
        return prefix.encode()[: GROUP_STRING_BYTES_MAX - len(unique)].decode(errors="ignore") + unique

    @property
    def now_ms(self) -> int:
        """The time of the current step."""
        return self._broker.now_ms

    @property
    def wall_ms(self) -> int:
        """The wall clock in the current step."""
        return self._broker.wall_ms

    def say(self, event: str, **fields: object) -> None:
        """Emit an info log event."""
        self._broker.notice("info", event, **fields)

    # -------------------------------------------------------------------------------------------------------- timers

    def next_due(self) -> int | None:
        """When `on_timer` is due next, in ms; None if never."""
        dues = [self._heap[0][0]] if self._heap else []
        dues.extend(loading.due_ms for loading in self._loading.values() if loading.due_ms is not None)
        if self.led:
            dues.append(self.expiry.due_ms)
        return min(dues, default=None)

    def on_timer(self) -> None:
        """Run due group timers, continue loading, and expire offsets."""
        now_ms = self._broker.now_ms
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due_ms, _number, group = heapq.heappop(heap)
            if self._due.get(group) != due_ms:
                continue
            del self._due[group]
            if isinstance(group, ConsumerGroup):
                self.consumers.on_time(group)
            else:
                group.on_time(now_ms)
                self._reschedule(group)
            heap = self._heap
        for loading in list(self._loading.values()):
            if loading.due_ms is not None and loading.due_ms <= now_ms:
                loading.go_on()
        if self.led and self.expiry.due_ms <= now_ms:
            self.expiry.run()

    def _reschedule(self, group: ClassicGroup) -> None:
        if group.state is ClassicState.DEAD:
            self._due.pop(group, None)
            return
        due_ms = group.next_due()
        if due_ms is not None:
            self.schedule(group, due_ms)
            return
        try:
            held = self.find(group.group_id)
        except PeerError:
            return
        entry = held.shard.groups.get(group.group_id)
        if entry is not None:
            held.shard.drop_if_void(entry)


def _nothing() -> None:
    """Replay nothing: the group already matches its record."""
