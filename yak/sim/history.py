"""All replicas as the checks see them: each broker's copy of each partition, and everything ever committed.

`Copy` has one broker's batches of one partition as a chain of hashes, so that comparing two copies up to an offset
takes one lookup. `History.committed` is the longest prefix that any leader's high watermark ever passed. `observe` is
called after each step of a broker and notifies the checks of changes. It reads only what was appended since the last
call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from yak.cluster.payload import IsrMember
from yak.errors import ProtocolViolation
from yak.ids import BrokerEpoch, NodeId, Offset, ProducerId, TopicPartition
from yak.protocol.control_batch import read_marker
from yak.protocol.record_batch import BatchHeader, iterate_headers
from yak.replication.truncation import TruncationKind
from yak.sim.originals import Originals

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.coordination.group_coordinator import GroupsPartition
    from yak.ports.metadata_store import StoreOutcome, StoreRequest
    from yak.replication.partition import Partition
    from yak.sim.node import SimNode
    from yak.storage.log import Log


_PARTITION_STATE: Final = attrgetter(
    "log", "topic_id", "high_watermark", "is_leader", "leader_epoch", "partition_epoch", "pending_isr"
)
_LOG_STATE: Final = attrgetter("generation", "log_end_offset", "log_start_offset", "swaps")


class Key(NamedTuple):
    """One partition of one topic, by topic id: a topic that is deleted and created again is another one.

    It equals the key of the partition's row in the metadata store, where topic ids are text.
    """

    topic_id: str
    partition: int


_text_of: Final = lru_cache(maxsize=1024)(str)


def key_of(partition: Partition) -> Key:
    """The key of a broker's replica."""
    return Key(_text_of(partition.topic_id), partition.topic_partition.partition)


class NewBatch(NamedTuple):
    """A batch that a copy has since it was last observed."""

    base_offset: Offset
    epoch: int
    crc: int
    """The checksum that the batch was written with."""
    decision: tuple[int, int, bool] | None = None
    """What its marker says: producer id, producer epoch, and whether the transaction commits."""
    max_timestamp: int = -1
    producer_id: ProducerId | None = None
    """Whose transaction its records are part of."""


class Chain:
    """Batches from one offset on, each hashed with all before it: equal hashes at an offset mean equal prefixes."""

    __slots__ = ("batches", "ends", "hashes", "start")

    def __init__(self, start: Offset = 0) -> None:
        self.start = start
        self.batches: list[tuple[Offset, int]] = []
        """Base offset and epoch of each batch."""
        self.ends: list[Offset] = []
        self.hashes: list[int] = []

    @property
    def end(self) -> Offset:
        """The offset after the last batch."""
        return self.ends[-1] if self.ends else self.start

    def add(self, base: Offset, end: Offset, epoch: int, crc: int) -> None:
        self.hashes.append(hash((self.hashes[-1] if self.hashes else 0, base, epoch, crc)))
        self.ends.append(end)
        self.batches.append((base, epoch))

    def at(self, end: Offset) -> int | None:
        """The hash of all batches below `end`: 0 at or below the start, None if no batch ends there."""
        if end <= self.start:
            return 0
        index = bisect_left(self.ends, end)
        if index == len(self.ends) or self.ends[index] != end:
            return None
        return self.hashes[index]

    def agreement(self, other: Chain) -> Offset:
        """The offset up to which both chains have the same batches."""
        low, high = 0, min(len(self.hashes), len(other.hashes))
        while low < high:
            middle = (low + high + 1) // 2
            if self.hashes[middle - 1] == other.hashes[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return self.ends[low - 1] if low else self.start

    def take(self, other: Chain, end: Offset) -> None:
        """Append another chain's batches, up to `end`."""
        begin = bisect_left(other.ends, self.end + 1)
        stop = bisect_left(other.ends, end + 1)
        self.ends += other.ends[begin:stop]
        self.hashes += other.hashes[begin:stop]
        self.batches += other.batches[begin:stop]


class Copy:
    """One broker's copy of one partition, as of that broker's last step."""

    def __init__(
        self, node: SimNode, key: Key, topic_partition: TopicPartition, originals: Originals | None = None
    ) -> None:
        self.node = node
        self.originals = originals
        """The batches as they were written, where compaction may remove records."""
        self.is_whole = True
        """Whether all batches read since the flag was last set are as they were written."""
        self.swaps = 0
        self.key = key
        self.topic_partition = topic_partition
        self.chain = Chain()
        self.epoch_starts: list[tuple[int, Offset]] = []
        """The first offset of each epoch in the batches on disk."""
        self.life = 0
        self.births = 0  # how often the running broker replaced an unusable log by a new one
        self.partition: Partition | None = None
        self.log: Log | None = None
        self.generation = -1
        self.restored_below: Offset = 0
        """The log end offset at which its log was loaded: the broker restores the producers of these records from the
        log, and later than at its start."""
        self.sequences_lost_below: Offset = 0
        """Records below were removed before the broker restored their producers, or may have been: it knows at most the
        last batch of each producer."""
        self.high_watermark: Offset = 0
        self.log_start: Offset = 0
        self.is_leader = False
        self.leader_epoch = -1
        self.isr: tuple[Any, ...] = ()  # the committed ISR and the pending change, as the broker sees them
        self._segment: tuple[Offset, int] = (0, 0)
        """Base offset of the last segment that was read, and the position reached in it."""

    def __str__(self) -> str:
        return f"{self.topic_partition} on broker {self.node.node_id}"

    @property
    def end(self) -> Offset:
        return self.chain.end

    @property
    def is_held(self) -> bool:
        """Whether the broker runs and still has the partition."""
        broker = self.node.broker
        return broker is not None and broker.partitions.get(self.topic_partition) is self.partition

    @property
    def copies_again(self) -> bool:
        """Whether a follower that is not in sync copies an open transaction again: its high watermark may have fallen."""
        truncation = None if self.partition is None else self.partition.truncation
        return truncation is not None and truncation.kind is TruncationKind.OF_COPIES and not self.is_leader

    def reread(self, known: Chain | None, begin: Offset) -> None:
        """Read the log from `begin` on. Batches below `begin` come from `known`; None if they are unknown."""
        assert self.log is not None
        self.chain = Chain(begin)
        if known is not None:
            self.chain = Chain()
            self.chain.take(known, begin)
        self.epoch_starts = []
        self._segment = (self.log.segments[0].base_offset, 0)
        self.read_on(begin)

    def batches(self) -> list[NewBatch]:
        """All batches in the log."""
        again = Copy(self.node, self.key, self.topic_partition)
        again.log = self.log
        return again.read_on()

    def read_on(self, begin_offset: Offset = 0) -> list[NewBatch]:
        log, originals = self.log, self.originals
        assert log is not None
        found = []
        base, position = self._segment
        for segment in log.segments:
            if segment.base_offset < base:
                continue
            begin = position if segment.base_offset == base else 0
            data = self.node.disk.peek(segment.path(".log"), begin)
            for place, header in iterate_headers(data):
                epoch, crc = header.partition_leader_epoch, header.crc
                batch = data[place : place + header.size_bytes]
                self._segment = (segment.base_offset, begin + place + header.size_bytes)
                if header.base_offset < begin_offset:
                    continue
                if originals is not None:
                    crc = originals.crc_of(header, batch)
                    self.is_whole = self.is_whole and (crc, header.base_offset) == (header.crc, self.chain.end)
                    originals.fill(self.chain, header.base_offset)
                self.chain.add(header.base_offset, header.next_offset, epoch, crc)
                if not self.epoch_starts or self.epoch_starts[-1][0] != epoch:
                    self.epoch_starts.append((epoch, header.base_offset))
                found.append(
                    NewBatch(
                        header.base_offset,
                        epoch,
                        crc,
                        _decision(header, batch),
                        header.max_timestamp,
                        header.producer_id if header.is_transactional and not header.is_control else None,
                    )
                )
        if originals is not None:
            originals.fill(self.chain, log.log_end_offset)
        return found


def _decision(header: BatchHeader, batch: bytes) -> tuple[int, int, bool] | None:
    """What a control batch says; None for any other, and for one that is damaged or emptied."""
    if not header.is_control:
        return None
    try:
        marker = read_marker(batch)
    except ProtocolViolation:
        return None
    return None if marker is None else (header.producer_id, header.producer_epoch, marker.is_commit)


class Watcher:
    """The notifications for a check. Each method does nothing by default, or calls a more general one."""

    of_coordinators: ClassVar = False
    """Whether only the steps of brokers that coordinate groups concern it."""

    def appended(self, copy: Copy, batches: Sequence[NewBatch]) -> None:
        """Batches were appended to a copy."""

    def cut(self, copy: Copy, before: Chain, high_watermark: Offset) -> None:  # noqa: ARG002
        """A copy was truncated; `before` and `high_watermark` are from before the truncation."""
        self.may_have_less(copy)

    def swapped(self, copy: Copy) -> None:
        """Compaction replaced segments."""

    def reopened(self, copy: Copy, before: Chain) -> None:  # noqa: ARG002
        """A broker has restarted with this copy; `before` is the chain before the restart."""
        self.may_have_less(copy)

    def dropped(self, copy: Copy) -> None:
        """A broker removed a copy: the topic was deleted, or its replicas were reassigned."""
        self.may_have_less(copy)

    def may_have_less(self, copy: Copy) -> None:
        """A copy was truncated, reopened or removed: for a check that treats the three alike."""

    def watermark(self, copy: Copy, before: Offset) -> None:
        """A copy's high watermark changed."""

    def log_start(self, copy: Copy, before: Offset | None) -> None:
        """A copy's log start offset moved; `before` is None if its broker has just created or reloaded the copy."""

    def role(self, copy: Copy) -> None:
        """A copy's leader epoch or role changed."""

    def isr(self, copy: Copy) -> None:
        """A leader's ISR changed in its own view, or a change of it was proposed or completed."""

    def stepped(self, node: SimNode) -> None:
        """A broker made a step."""

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """A script appended to the metadata log."""


def coordinated_groups(node: SimNode) -> Iterable[tuple[int, GroupsPartition]]:
    """The partitions of the groups' topic that a broker coordinates, by index; none while it is down."""
    return () if node.broker is None else node.broker.group_coordinator.runtime.coordinated.items()


_NOTIFICATIONS: Final = {
    name: (name,)
    for name in ("appended", "swapped", "watermark", "log_start", "role", "isr", "stepped", "store_changed")
} | {name: (name, "may_have_less") for name in ("cut", "reopened", "dropped")}
"""Each of them, and the methods of a watcher that it reaches."""


class History:
    """All copies and everything committed. The checks are notified in the order of `watchers`."""

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.copies: dict[Key, dict[NodeId, Copy]] = {}
        self.committed: dict[Key, Chain] = {}
        self.committed_epoch: dict[Key, int] = {}
        """The leader epoch of the last commit."""
        self.forfeited: dict[Key, str] = {}
        """Partitions that lost more than the guarantees cover, and why. They are no longer checked."""
        self.unclean: set[Key] = set()
        """Those of them that must be written again, by replicas that are equal: they had an unclean election, or the only
        broker lost its disk's tail.
        """
        self.lost_until: dict[NodeId, BrokerEpoch] = {}
        """The newest broker epoch whose disk lost data; data of earlier epochs on that disk counts as lost too."""
        self.replaced: dict[NodeId, BrokerEpoch] = {}
        """Brokers that were wiped, unregistered or given an older disk: what they were up to this epoch counts no more."""
        self.rotten: dict[Key, NodeId] = {}
        """The broker whose copy of a partition has a flipped bit, until that copy is repaired."""
        self.may_be_damaged = False
        """Whether any bit flipped, or was read wrong."""
        self.keyed: frozenset[str] = frozenset()
        """Topics whose logs are compacted."""
        self.originals: dict[Key, Originals] = {}
        self.counts: Counter[str] = Counter()
        """What the checks came across, for the run's report."""
        self.watch(())
        self._held: dict[NodeId, dict[TopicPartition, Key]] = {}
        self._seen: dict[NodeId, dict[TopicPartition, tuple[Any, ...]]] = {}
        self._last: dict[NodeId, tuple[object, ...]] = {}
        """The last observed state of all a broker's partitions: most steps change nothing of it."""

    def watch(self, watchers: Sequence[Watcher]) -> None:
        """Notify these from now on, in this order, where they do something."""
        self._notified: dict[str, list[Any]] = {
            name: [
                getattr(each, name)
                for each in watchers
                if any(getattr(type(each), method) is not getattr(Watcher, method) for method in methods)
            ]
            for name, methods in _NOTIFICATIONS.items()
        }
        stepped = self._notified["stepped"]
        self._steps = [each for each in stepped if not each.__self__.of_coordinators]
        self._steps_of_coordinators = [each for each in stepped if each.__self__.of_coordinators]

    def _notify(self, name: str, *arguments: Any) -> None:
        for notify in self._notified[name]:
            notify(*arguments)

    def observe(self, node: SimNode) -> None:
        """Find what a step of this broker changed."""
        broker = node.broker
        if broker is None:
            return
        partitions = list(broker.partitions.values())
        states = list(map(_PARTITION_STATE, partitions))
        logs = list(map(_LOG_STATE, [state[0] for state in states if state[0] is not None]))
        now = (node.starts_count, partitions, states, logs)
        if self._last.get(node.node_id) != now:
            self._last[node.node_id] = now
            self._find_changes(node, broker, states, iter(logs))
        for stepped in self._steps:
            stepped(node)
        if self._steps_of_coordinators and broker.group_coordinator.runtime.coordinated:
            for stepped in self._steps_of_coordinators:
                stepped(node)

    def _find_changes(
        self, node: SimNode, broker: Broker, states: list[tuple[Any, ...]], logs: Iterator[tuple[Any, ...]]
    ) -> None:
        node_id, life = node.node_id, node.starts_count
        held, seen = self._held.setdefault(node_id, {}), self._seen.setdefault(node_id, {})
        if len(held) > len(broker.partitions):
            for topic_partition in [each for each in held if each not in broker.partitions]:
                self._dropped(node_id, topic_partition)
        for (topic_partition, partition), own in zip(broker.partitions.items(), states, strict=True):
            state = (life, own, None if own[0] is None else next(logs))
            if seen.get(topic_partition) != state:
                seen[topic_partition] = state
                self._changed(node, life, topic_partition, partition)

    def _changed(self, node: SimNode, life: int, topic_partition: TopicPartition, partition: Partition) -> None:
        key = Key(_text_of(partition.topic_id), topic_partition.partition)
        copies = self.copies.setdefault(key, {})
        copy = copies.get(node.node_id)
        if copy is not None and copy.life == life and copy.partition is not partition:
            # the replica was removed and assigned again: its old log is gone
            self._dropped(node.node_id, topic_partition)
            copy = None
        self._held[node.node_id][topic_partition] = key
        if copy is None:
            originals = None
            if topic_partition.topic in self.keyed:
                originals = self.originals.setdefault(key, Originals(self.committed, key))
            copy = copies[node.node_id] = Copy(node, key, topic_partition, originals)
        copy.partition = partition
        watermark, role = copy.high_watermark, (copy.is_leader, copy.leader_epoch)
        if copy.life != life:
            role = copy.is_leader, copy.leader_epoch = False, -1
            copy.high_watermark = partition.high_watermark
        elif copy.log is None and partition.log is not None:
            copy.births += 1
        if partition.log is None:
            self._log_lost(copy, life)
        else:
            self._log_changed(copy, life, partition.log)
        copy.life = life
        copy.high_watermark = partition.high_watermark
        copy.is_leader, copy.leader_epoch = partition.is_leader, partition.leader_epoch
        if role != (copy.is_leader, copy.leader_epoch):
            self._notify("role", copy)
        isr = (partition.isr, partition.pending_isr)
        if isr != copy.isr:
            copy.isr = isr
            if copy.is_leader:
                self._notify("isr", copy)
        if watermark != copy.high_watermark:
            self._notify("watermark", copy, watermark)

    def _dropped(self, node_id: NodeId, topic_partition: TopicPartition) -> None:
        key = self._held[node_id].pop(topic_partition)
        self._seen[node_id].pop(topic_partition, None)
        copy = self.copies[key].pop(node_id, None)
        if copy is not None:
            self._notify("dropped", copy)

    def _log_changed(self, copy: Copy, life: int, log: Log) -> None:
        start, was_known = copy.log_start, copy.log is not None and copy.life == life
        copy.log_start = log.log_start_offset
        if start != copy.log_start:
            removed_unrestored = min(copy.log_start, copy.restored_below)
            copy.sequences_lost_below = max(copy.sequences_lost_below, removed_unrestored)
            self._forget_below_the_start(copy, log)
            self._notify("log_start", copy, start if was_known else None)
        if copy.log is not log or copy.generation != log.generation:
            same_life = copy.life == life and copy.log is not None
            before, was_here = copy.chain, copy.log is not None or bool(copy.chain.ends)
            copy.log, copy.generation = log, log.generation
            copy.sequences_lost_below = max(copy.sequences_lost_below, log.log_start_offset)
            copy.restored_below = log.log_end_offset
            self._reread(copy, log)
            self._forget_below_the_start(copy, log)
            if was_here and same_life:
                self._notify("cut", copy, before, copy.high_watermark)
            elif was_here:
                self._notify("reopened", copy, before)
        else:
            self._read_appended(copy, log)
        if copy.swaps != log.swaps:
            copy.swaps = log.swaps
            self._notify("swapped", copy)

    def _log_lost(self, copy: Copy, life: int) -> None:
        """It is missing, damaged or unreachable, and a later log is another one.

        Its directory may have failed in a step that appended before.
        """
        if copy.log is not None and copy.life == life:
            self._read_appended(copy, copy.log)
        copy.log = None

    def _read_appended(self, copy: Copy, log: Log) -> None:
        if log.log_end_offset != copy.chain.end:
            self._notify("appended", copy, copy.read_on())

    def _reread(self, copy: Copy, log: Log) -> None:
        """Read a whole log. Batches below its first segment come from the committed chain, or else from the copy's own.

        A log that was created again held other records before.
        """
        begin = log.segments[0].base_offset
        for known in (self.committed.get(copy.key), copy.chain):
            if known is not None and known.at(begin) is not None:
                copy.reread(known, begin)
                return
        copy.reread(None, begin)

    def _forget_below_the_start(self, copy: Copy, log: Log) -> None:
        """Replace batches below the log start by the committed ones: no reader sees them, so they may differ.

        A leader whose log starts above the point of divergence cannot detect it. Its follower keeps the diverged
        batches below that log start.
        """
        committed, start = self.committed.get(copy.key), copy.log_start
        if committed is None or copy.log is not log or copy.generation != log.generation:
            return
        wanted = committed.at(start)
        if wanted is not None and copy.chain.at(start) not in (None, wanted):
            copy.reread(committed, start)

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        self._notify("store_changed", request, outcome)

    def has_lost(self, member: IsrMember) -> bool:
        """Whether a disk lost data in this member's broker epoch or a later one."""
        return member.broker_epoch <= self.lost_until.get(member.node_id, -1)

    def forfeit(self, key: Key, why: str) -> None:
        """Stop checking a partition that lost data beyond the guarantees."""
        self.forfeited.setdefault(key, why)

    def is_given_up(self, key: Key) -> bool:
        """Whether a partition need not be written again after the faults: an operator would have to elect its leader."""
        return key in self.forfeited and key not in self.unclean
