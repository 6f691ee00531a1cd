"""One partition of `__consumer_offsets`: its groups, and how they are loaded from its records.

When a coordinator starts, only the last record of each key counts. `gather` first collects the records by key, as
bytes. `restore` then decodes the remaining records. Both work a few records at a time. Offsets of a transaction are
collected by producer, until the marker that ends the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from yak.groups.classic import records as classic_records
from yak.groups.classic.group import ClassicGroup
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.records import KINDS, decode
from yak.groups.group import Group
from yak.groups.offsets import Committed, is_offset_key, read_offset_key, read_offset_value
from yak.groups.record import Record
from yak.ids import Offset, ProducerId
from yak.protocol.record_fields import FieldReader, UnreadableRecord

_KEY_BYTES_LOGGED: Final = 80


class Shard:
    """The groups of one partition."""

    def __init__(self, make: Callable[[str], ClassicGroup]) -> None:
        self._make = make
        self.groups: dict[str, Group] = {}
        self.transactions: dict[ProducerId, dict[str, None]] = {}
        """The groups with offsets in each producer's open transaction."""
        self.gathered: dict[bytes, tuple[bytes, Offset]] = {}
        """Values and record offsets by key, until `restore` has decoded them."""
        self.gathered_pending: dict[ProducerId, dict[bytes, tuple[bytes, Offset]]] = {}
        """The same of each producer's open transaction."""
        self._gathered_producers: dict[bytes, dict[ProducerId, None]] = {}
        """The producers that have each key of it."""
        self.late_markers: list[tuple[ProducerId, bool]] = []
        """The markers that were appended since loading began: (producer, whether it is a commit)."""
        self.deleted_topics: frozenset[str] = frozenset()
        """The names of topics that were deleted since loading began."""
        self.forgotten_end: Offset = 0
        """The end offset of the last record of removed groups: until it is committed, these groups may reappear."""
        self.unreadable = 0
        """The number of untouched records: of a foreign kind, an unknown version, or with values out of range."""
        self.first_refusal = ""
        """Why the first of them was refused, with its key."""

    def ensure(self, group_id: str) -> Group:
        """The group; creates an empty one when there is none.

        A new one counts as uncommitted as long as the deletion of an earlier one with its id may be.
        """
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._make(group_id))
            group.uncommitted_end = self.forgotten_end
        return group

    def drop(self, group: Group) -> None:
        """Remove a group."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self.forgotten_end = max(self.forgotten_end, group.uncommitted_end)

    def drop_if_void(self, group: Group) -> None:
        """Remove a group without offsets, members or records."""
        if group.is_void:
            self.drop(group)

    def end_of(self, group_id: str) -> Offset:
        """The offset to commit before a response may describe the group, or say that it does not exist."""
        group = self.groups.get(group_id)
        return self.forgotten_end if group is None else group.uncommitted_end

    # --------------------------------------------------------------------------------------------------- offsets

    def put_offset(
        self, group: Group, topic: str, partition: int, committed: Committed, producer_id: ProducerId | None
    ) -> None:
        """Store an offset: of the producer's open transaction, or committed at once without a producer."""
        if producer_id is None:
            group.offsets.put(topic, partition, committed, group.uncommitted_end)
        else:
            group.offsets.put_pending(producer_id, topic, partition, committed)
            self.transactions.setdefault(producer_id, {})[group.group_id] = None

    def end_transaction(self, producer_id: ProducerId, end_offset: Offset, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer; `end_offset` is the log's end behind the marker."""
        found = [self.groups.get(group_id) for group_id in self.transactions.pop(producer_id, ())]
        for group in found:
            if group is not None:
                group.uncommitted_end = end_offset
                group.offsets.end_transaction(producer_id, end_offset, is_commit=is_commit)
                self.drop_if_void(group)

    # --------------------------------------------------------------------------------------------------- loading

    def gather(self, key: bytes | None, value: bytes | None, offset: Offset, producer_id: ProducerId | None) -> None:
        """Collect one record of the log, in log order; `producer_id` if it is part of a transaction."""
        if key is None:
            self._refuse("a record without a key")
        elif value is None:
            self.gathered.pop(key, None)
            for pending in self._gathered_producers.pop(key, ()):
                del self.gathered_pending[pending][key]
        elif producer_id is None or not is_offset_key(key):
            self.gathered.pop(key, None)  # `restore` replays the records in log order
            self.gathered[key] = value, offset
        else:
            self.gathered_pending.setdefault(producer_id, {})[key] = value, offset
            self._gathered_producers.setdefault(key, {})[producer_id] = None

    def gather_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Collect the marker that ends the producer's transaction."""
        for key, entry in self.gathered_pending.pop(producer_id, {}).items():
            producers = self._gathered_producers[key]
            del producers[producer_id]
            if not producers:
                del self._gathered_producers[key]
            if is_commit and (key not in self.gathered or self.gathered[key][1] < entry[1]):
                self.gathered[key] = entry

    def restore(self) -> Iterator[None]:
        """Decode the gathered records, one a step. Sessions start after the last one (`ClassicGroup.arm`)."""
        gathered, self.gathered = self.gathered, {}
        yield from self._restore_all(gathered, None)
        pending, self.gathered_pending, self._gathered_producers = self.gathered_pending, {}, {}
        for producer_id, entries in pending.items():
            yield from self._restore_all(entries, producer_id)

    def _restore_all(
        self, entries: dict[bytes, tuple[bytes, Offset]], producer_id: ProducerId | None
    ) -> Iterator[None]:
        for key, (value, offset) in entries.items():
            try:
                self._restore(key, value, offset, producer_id)
            except UnreadableRecord as error:
                self._refuse(f"{error} (key {key[:_KEY_BYTES_LOGGED]!r})")
            yield

    def _refuse(self, why: str) -> None:
        self.unreadable += 1
        self.first_refusal = self.first_refusal or why

    def _restore(self, key: bytes, value: bytes, offset: Offset, producer_id: ProducerId | None) -> None:
        """Apply a record. The later one of a classic group and of a consumer group decides which of them the group is.

        The tombstones of the earlier one may have been compacted away before this replica copied them.
        """
        version = FieldReader(key).int16()
        if is_offset_key(key):
            group_id, topic, partition = read_offset_key(key)
            committed = read_offset_value(value, offset)
            self.put_offset(self.ensure(group_id), topic, partition, committed, producer_id)
        elif version == classic_records.KEY_VERSION:
            group_id = classic_records.read_group_key(key)
            stored = classic_records.read_group_value(value)
            group = self.ensure(group_id)
            if group.consumer is not None:
                group.consumer = None
                self._refuse(f"an earlier consumer group of one name (key {key[:_KEY_BYTES_LOGGED]!r})")
            group.members.restore(stored)
        elif version in KINDS:
            change = decode(Record(key, value))
            group = self.ensure(change.group_id)
            if group.consumer is None:
                if group.members.protocol_type is not None:
                    self._refuse(f"an earlier classic group of one name (key {key[:_KEY_BYTES_LOGGED]!r})")
                group.members, group.consumer = self._make(change.group_id), ConsumerGroup(change.group_id)
            group.consumer.replay(change)
        else:
            raise UnreadableRecord(f"version {version} of a key")
