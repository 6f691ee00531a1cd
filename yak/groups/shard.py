"""One partition of `__consumer_offsets`: its groups, and how they are loaded from its records.

When a coordinator starts, only the last record of each key counts. `gather` first collects the records by key, as
bytes. `restore` then decodes the remaining records. Both work a few records at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from yak.groups.classic import records as classic_records
from yak.groups.classic.group import ClassicGroup
from yak.groups.consumer.group import ConsumerGroup
from yak.groups.consumer.records import KINDS, decode
from yak.groups.consumer.wire import UnreadableRecord
from yak.groups.fields import BadGroupRecord, Reader
from yak.groups.group import Group
from yak.groups.offsets import KEY_VERSION as OFFSET_KEY_VERSION
from yak.groups.offsets import read_offset_key, read_offset_value
from yak.groups.record import Record
from yak.ids import Offset

_OFFSET_KEYS: Final = (0, OFFSET_KEY_VERSION)
_KEY_BYTES_SHOWN: Final = 80


class Shard:
    """The groups of one partition."""

    __slots__ = ("_make", "first_refusal", "forgotten_end", "gathered", "groups", "unreadable")

    def __init__(self, make: Callable[[str], ClassicGroup]) -> None:
        self._make = make
        self.groups: dict[str, Group] = {}
        self.gathered: dict[bytes, bytes] = {}
        """Values by key, until `restore` has decoded them."""
        self.forgotten_end: Offset = 0
        """The end offset of the last record of removed groups: until it is committed, these groups may reappear."""
        self.unreadable = 0
        """The number of untouched records: of a foreign kind, an unknown version, or with values out of range."""
        self.first_refusal = ""
        """Why the first of them was refused, with its key."""

    def ensure(self, group_id: str) -> Group:
        """The group; creates an empty one when there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._make(group_id))
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

    # --------------------------------------------------------------------------------------------------- loading

    def gather(self, key: bytes | None, value: bytes | None) -> None:
        """Collect one record of the log, in log order."""
        if key is None:
            self._refuse("a record without a key")
        elif value is None:
            self.gathered.pop(key, None)
        else:
            self.gathered[key] = value

    def restore(self) -> Iterator[None]:
        """Decode the gathered records, one a step. Sessions start after the last one (`ClassicGroup.arm`)."""
        gathered, self.gathered = self.gathered, {}
        for key, value in gathered.items():
            try:
                self._restore(key, value)
            except (BadGroupRecord, UnreadableRecord) as error:
                self._refuse(f"{error} (key {key[:_KEY_BYTES_SHOWN]!r})")
            yield

    def _refuse(self, why: str) -> None:
        self.unreadable += 1
        self.first_refusal = self.first_refusal or why

    def _restore(self, key: bytes, value: bytes) -> None:
        version = Reader(key).int16()
        if version in _OFFSET_KEYS:
            group_id, topic, partition = read_offset_key(key)
            committed = read_offset_value(value)
            self.ensure(group_id).offsets.put(topic, partition, committed)
        elif version == classic_records.KEY_VERSION:
            group_id = classic_records.read_group_key(key)
            stored = classic_records.read_group_value(value)
            group = self.ensure(group_id)
            if group.consumer is not None:
                raise BadGroupRecord("a classic group and a consumer group of one name")
            group.members.restore(stored)
        elif version in KINDS:
            change = decode(Record(key, value))
            group = self.ensure(change.group_id)
            if group.members.protocol_type is not None:
                raise UnreadableRecord("a classic group and a consumer group of one name")
            if group.consumer is None:
                group.consumer = ConsumerGroup(change.group_id)
            group.consumer.replay(change)
        else:
            raise BadGroupRecord(f"version {version} of a key")
