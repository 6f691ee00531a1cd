"""A partition of `__consumer_offsets`: what a coordinator loads is what the earlier one had."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from yak.groups.classic.group import ClassicGroup, ClassicSettings
from yak.groups.classic.members import Member
from yak.groups.classic.records import StoredGroup, group_key, group_record
from yak.groups.consumer.partitions import NO_PARTITIONS
from yak.groups.consumer.records import Change, CurrentValue, Kind, MemberValue, encode
from yak.groups.offsets import Committed, offset_record
from yak.groups.shard import Shard


class Entry(NamedTuple):
    """A record or a marker of a log; a marker has no key."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int | None
    is_commit: bool = False


SETTINGS = ClassicSettings(initial_rebalance_delay_ms=0, max_size=10)


def make_shard() -> Shard:
    port: Any = SimpleNamespace(wall_ms=0)
    return Shard(lambda group_id: ClassicGroup(group_id, port, SETTINGS))


def load(log: list[Entry]) -> Shard:
    shard = make_shard()
    for entry in log:
        if entry.key is None:
            assert entry.producer_id is not None
            shard.gather_marker(entry.producer_id, is_commit=entry.is_commit)
        else:
            shard.gather(entry.key, entry.value, entry.offset, entry.producer_id)
    for _ in shard.restore():
        pass
    return shard


def state(shard: Shard) -> tuple[Any, Any]:
    groups = {group_id: group.offsets for group_id, group in shard.groups.items() if group.offsets}
    return (
        {group_id: set(offsets) for group_id, offsets in groups.items()},
        {group_id: offsets.pending for group_id, offsets in groups.items() if offsets.pending},
    )


def test_partition_belongs_to_the_member_of_the_last_record_when_an_earlier_member_was_not_removed():
    """The tombstone of `gone` was compacted away before this replica copied it."""
    held = frozenset({(uuid.UUID(int=1), 0)})
    steps = [("stays", NO_PARTITIONS), ("gone", held), ("stays", held)]
    changes = [Change(Kind.CURRENT, "g", member, CurrentValue(5, 5, 0, owned)) for member, owned in steps]
    log = [Entry(offset, *encode(change), None) for offset, change in enumerate(changes)]
    consumer = load(log).groups["g"].consumer
    assert consumer is not None
    assert set(consumer.state.owners.values()) == {"stays"}


def test_group_has_the_type_of_its_last_records_when_an_earlier_group_was_not_removed():
    """The tombstones of the group before its conversion were compacted away before this replica copied them."""
    earlier = make_shard().ensure("g").members
    earlier.restore(StoredGroup("consumer", 3, "range", "a", 0, (Member("a", None, "", "", 0, 0, (("range", b""),)),)))
    classic = group_record(earlier, None, 0)
    consumer = encode(Change(Kind.MEMBER, "g", "b", MemberValue(topic_names=("t",))))

    def loaded(*records: Any) -> tuple[list[str], list[str] | None]:
        shard = load([Entry(offset, *record, None) for offset, record in enumerate(records)])
        assert (shard.unreadable, "of one name" in shard.first_refusal) == (1, True)
        group = shard.groups["g"]
        return list(group.members.members), group.consumer and list(group.consumer.state.members)

    assert loaded(classic, consumer) == ([], ["b"])
    assert loaded(consumer, classic) == (["a"], None)


class Coordinator:
    """Keeps a shard as the group coordinator does, and the log."""

    def __init__(self) -> None:
        self.shard = make_shard()
        self.log: list[Entry] = []

    def commit(self, group_id: str, partition: int, producer_id: int | None) -> None:
        record_offset = len(self.log)
        committed = Committed(record_offset * 10, -1, "", 0, record_offset=record_offset)
        self.shard.put_offset(self.shard.ensure(group_id), "t", partition, committed, producer_id)
        record = offset_record(group_id, "t", partition, committed)
        self.log.append(Entry(record_offset, record.key, record.value, producer_id))

    def delete(self, group_id: str, partition: int) -> None:
        group = self.shard.ensure(group_id)
        if group.offsets.has("t", partition):
            group.offsets.remove("t", partition, 0)
            self.log.append(Entry(len(self.log), offset_record(group_id, "t", partition, None).key, None, None))

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        self.shard.end_transaction(producer_id, 0, is_commit=is_commit)
        self.log.append(Entry(len(self.log), None, None, producer_id, is_commit))


def clean(log: list[Entry], *, without_tombstones: bool) -> list[Entry]:
    """The log after a compaction as Kafka's: below the first open transaction, without aborted records."""
    ends: dict[int, Entry] = {}
    is_aborted: dict[int, bool] = {}
    first_unstable = len(log)
    for entry in reversed(log):
        if entry.producer_id is not None and entry.key is None:
            ends[entry.producer_id] = entry
        elif entry.producer_id is not None:
            if entry.producer_id in ends:
                is_aborted[entry.offset] = not ends[entry.producer_id].is_commit
            else:
                first_unstable = entry.offset
    last = {e.key: e.offset for e in log if e.offset < first_unstable and not is_aborted.get(e.offset, False)}

    def stays(entry: Entry) -> bool:
        if entry.offset >= first_unstable or entry.key is None:
            return True
        if is_aborted.get(entry.offset, False) or last[entry.key] != entry.offset:
            return False
        return entry.value is not None or not without_tombstones

    return [entry for entry in log if stays(entry)]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit in", "commit in", "end", "end", "abort", "delete"]),
        st.sampled_from(["g", "g", "h"]),
        st.integers(0, 1),
        st.integers(1, 3),
    ),
    min_size=6,
    max_size=40,
)


@settings(max_examples=300)
@given(ACTIONS, st.booleans())
def test_loaded_state_equals_the_state_in_memory_also_after_compaction(actions, without_tombstones):
    coordinator = Coordinator()
    for action, group_id, partition, producer_id in actions:
        if action == "delete":
            coordinator.delete(group_id, partition)
        elif action in ("end", "abort"):
            coordinator.end(producer_id, is_commit=action == "end")
        else:
            coordinator.commit(group_id, partition, producer_id if action == "commit in" else None)
    kept = state(coordinator.shard)
    loaded = load(coordinator.log)
    assert state(loaded) == kept
    assert state(load(clean(coordinator.log, without_tombstones=without_tombstones))) == kept
    # an open transaction ends the same way for the coordinator that loaded it
    for producer_id in (1, 2, 3):
        coordinator.end(producer_id, is_commit=producer_id != 2)
        loaded.end_transaction(producer_id, 0, is_commit=producer_id != 2)
    assert state(loaded) == state(coordinator.shard)
    assert state(loaded)[1] == {}


def test_records_of_groups_in_a_transaction_count_at_once():
    """Only offsets wait for the marker (OffsetMetadataManager.replay)."""
    shard = make_shard()
    shard.gather(group_key("g"), b"value", 0, 7)
    assert shard.gathered == {group_key("g"): (b"value", 0)}
    assert shard.gathered_pending == {}


def test_tombstone_searches_only_the_transactions_that_have_its_offset():
    class Untouched(dict[bytes, tuple[bytes, int]]):
        def pop(self, *_args: object) -> Any:
            raise AssertionError("a transaction without the offset is searched")

    shard = make_shard()
    mine, other = (offset_record("g", "t", index, Committed(1, -1, "", 0)) for index in (0, 1))
    for producer_id in (1, 2):
        shard.gather(mine.key, mine.value, producer_id, producer_id)
    shard.gather_marker(2, is_commit=False)
    shard.gather(other.key, other.value, 3, 3)
    shard.gathered_pending[3] = Untouched(shard.gathered_pending[3])
    shard.gather(mine.key, None, 4, None)
    assert shard.gathered_pending == {1: {}, 3: {other.key: (other.value, 3)}}


def test_aborted_offsets_of_a_group_without_others_leave_no_group():
    coordinator = Coordinator()
    coordinator.commit("g", 0, 7)
    assert not coordinator.shard.groups["g"].is_void
    coordinator.end(7, is_commit=False)
    assert coordinator.shard.groups == {}
    assert load(coordinator.log).groups == {}
    assert coordinator.shard.transactions == {}
