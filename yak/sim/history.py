"""What all replicas hold and held, as the checks see it: copies of each partition, and what was ever committed.

`Copy` has one broker's batches of one partition as a chain of hashes, so that two copies are compared up to an offset at
once. `Committed` is the longest prefix that any leader's high watermark ever passed. `look` is called after each step of
a broker and tells the checks what changed; it reads only what was appended since.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from yak.cluster.payload import IsrMember
from yak.ids import BrokerEpoch, NodeId, Offset, TopicPartition
from yak.protocol.record_batch import iterate_headers
from yak.sim.originals import Originals

if TYPE_CHECKING:
    from yak.replication.partition import Partition
    from yak.seams.metadata_store import StoreOutcome, StoreRequest
    from yak.sim.node import SimNode
    from yak.storage.log import Log


class Key(NamedTuple):
    """One partition of one topic, by id: a topic made again is another."""

    topic_id: uuid.UUID
    partition: int


class Chain:
    """Batches from one offset on, as hashes of all before: equal hashes at an end mean equal batches up to it."""

    __slots__ = ("batches", "ends", "hashes", "start")

    def __init__(self, start: Offset = 0) -> None:
        self.start = start
        self.batches: list[tuple[Offset, int]] = []
        """Base offset and epoch of each."""
        self.ends: list[Offset] = []
        self.hashes: list[int] = []

    @property
    def end(self) -> Offset:
        """Offset behind the last batch."""
        return self.ends[-1] if self.ends else self.start

    def add(self, base: Offset, end: Offset, epoch: int, crc: int) -> None:
        """One more batch."""
        self.hashes.append(hash((self.hashes[-1] if self.hashes else 0, base, epoch, crc)))
        self.ends.append(end)
        self.batches.append((base, epoch))

    def at(self, end: Offset) -> int | None:
        """The hash of all batches up to `end`; 0 for none, None when no batch ends there."""
        if end <= self.start:
            return 0
        index = bisect_left(self.ends, end)
        if index == len(self.ends) or self.ends[index] != end:
            return None
        return self.hashes[index]

    def agreement(self, other: Chain) -> Offset:
        """The offset up to which both have the same batches."""
        low, high = 0, min(len(self.hashes), len(other.hashes))
        while low < high:
            middle = (low + high + 1) // 2
            if self.hashes[middle - 1] == other.hashes[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return self.ends[low - 1] if low else self.start

    def take(self, other: Chain, end: Offset) -> None:
        """Go on with another chain's batches, up to `end`."""
        begin = bisect_left(other.ends, self.end + 1)
        stop = bisect_left(other.ends, end + 1)
        self.ends += other.ends[begin:stop]
        self.hashes += other.hashes[begin:stop]
        self.batches += other.batches[begin:stop]


class Copy:
    """One broker's copy of one partition, as it was after that broker's last step."""

    __slots__ = (
        "_segment",
        "births",
        "chain",
        "epoch_starts",
        "generation",
        "has_lost_sequences",
        "high_watermark",
        "is_leader",
        "is_whole",
        "isr",
        "key",
        "leader_epoch",
        "life",
        "log",
        "log_start",
        "node",
        "originals",
        "partition",
        "swaps",
        "topic_partition",
    )

    def __init__(
        self, node: SimNode, key: Key, topic_partition: TopicPartition, originals: Originals | None = None
    ) -> None:
        self.node = node
        self.originals = originals
        """What was written, where compaction may take records away."""
        self.is_whole = True
        """Whether all was read as it was written, since somebody set this."""
        self.swaps = 0
        self.key = key
        self.topic_partition = topic_partition
        self.chain = Chain()
        self.epoch_starts: list[tuple[int, Offset]] = []
        """Which epoch the batches on disk begin where."""
        self.life = 0
        self.births = 0  # how often it began anew while its broker ran, since its log could not be gone on with
        self.partition: Partition | None = None
        self.log: Log | None = None
        self.generation = -1
        self.has_lost_sequences = False
        """Whether its log was read, or begun, when records of its beginning were deleted: of those it has the last batch of a producer."""
        self.high_watermark: Offset = 0
        self.log_start: Offset = 0
        self.is_leader = False
        self.leader_epoch = -1
        self.isr: tuple[Any, ...] = ()  # the committed one and the change under way, as its broker has them
        self._segment: tuple[Offset, int] = (0, 0)
        """Base offset of the last segment read, and up to where it was."""

    def __str__(self) -> str:
        return f"{self.topic_partition} on broker {self.node.node_id}"

    @property
    def end(self) -> Offset:
        """Its log end offset."""
        return self.chain.end

    @property
    def is_held(self) -> bool:
        """Whether its broker runs and still has the partition."""
        broker = self.node.broker
        return broker is not None and broker.partitions.get(self.topic_partition) is self.partition

    def read_anew(self, known: Chain | None, begin: Offset) -> None:
        """Read the log from `begin` on. What is below is taken from what is known of it; None for nothing."""
        assert self.log is not None
        self.chain = Chain(begin)
        if known is not None:
            self.chain = Chain()
            self.chain.take(known, begin)
        self.epoch_starts = []
        self._segment = (self.log.segments[0].base_offset, 0)
        self.read_on(begin)

    def read_on(self, begin_offset: Offset = 0) -> list[tuple[Offset, int, int]]:
        """Read what was appended: base offset, epoch and CRC of each new batch."""
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
                self._segment = (segment.base_offset, begin + place + header.size_bytes)
                if header.base_offset < begin_offset:
                    continue
                if originals is not None:
                    crc = originals.crc_of(header, data[place : place + header.size_bytes])
                    self.is_whole = self.is_whole and (crc, header.base_offset) == (header.crc, self.chain.end)
                    originals.fill(self.chain, header.base_offset)
                self.chain.add(header.base_offset, header.next_offset, epoch, crc)
                if not self.epoch_starts or self.epoch_starts[-1][0] != epoch:
                    self.epoch_starts.append((epoch, header.base_offset))
                found.append((header.base_offset, epoch, crc))
        if originals is not None:
            originals.fill(self.chain, log.log_end_offset)
        return found


class Watcher:
    """What a check may want to hear. Each method's default is to do nothing."""

    def appended(self, copy: Copy, batches: Sequence[tuple[Offset, int, int]]) -> None:
        """Batches (base offset, epoch, CRC) came to the end of a copy."""

    def cut(self, copy: Copy, before: Chain, high_watermark: Offset) -> None:
        """A copy was truncated; what it was, and its high watermark, before that."""

    def swapped(self, copy: Copy) -> None:
        """Compaction put segments in the place of others."""

    def reopened(self, copy: Copy, before: Chain) -> None:
        """A broker started anew and has this copy; what it was before."""

    def dropped(self, copy: Copy) -> None:
        """A broker gave up a copy: the topic was deleted, or its replicas moved."""

    def watermark(self, copy: Copy, before: Offset) -> None:
        """A copy's high watermark changed."""

    def log_start(self, copy: Copy, before: Offset | None) -> None:
        """A copy's log start moved; `before` is None when its broker just began to hold it, or started anew."""

    def role(self, copy: Copy) -> None:
        """A copy's leader epoch or role changed."""

    def isr(self, copy: Copy) -> None:
        """A leader's ISR changed, as it sees it, or a change of it went out or ended."""

    def stepped(self, node: SimNode) -> None:
        """A broker made a step."""

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """A script added to the metadata log."""


class History:
    """All copies, and what was committed. Checks are told in the order they were given."""

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self.nodes = {node.node_id: node for node in nodes}
        self.copies: dict[Key, dict[NodeId, Copy]] = {}
        self.committed: dict[Key, Chain] = {}
        self.committed_epoch: dict[Key, int] = {}
        """The leader epoch in which something was committed last."""
        self.forfeited: dict[Key, str] = {}
        """Partitions that lost more than is promised to be survived, and why: they are not checked any more."""
        self.lost_until: dict[NodeId, BrokerEpoch] = {}
        """The newest broker epoch whose disk lost something; what was on it before is lost as well."""
        self.rotten: dict[Key, NodeId] = {}
        """Whose copy of a partition has a bit that flipped, until it is mended."""
        self.may_be_damaged = False
        """Whether any bit flipped, or was read wrong."""
        self.keyed: frozenset[str] = frozenset()
        """Topics whose logs are compacted."""
        self.originals: dict[Key, Originals] = {}
        self.watchers: list[Watcher] = []
        self._held: dict[NodeId, dict[TopicPartition, Key]] = {}
        self._seen: dict[tuple[NodeId, TopicPartition], tuple[Any, ...]] = {}

    def look(self, node: SimNode) -> None:
        """See what a step of this broker changed."""
        broker = node.broker
        if broker is None:
            return
        seen = self._seen
        node_id, life = node.node_id, node.starts_count
        held = self._held.setdefault(node_id, {})
        if len(held) > len(broker.partitions):
            for topic_partition in [each for each in held if each not in broker.partitions]:
                self._dropped(node_id, topic_partition)
        for topic_partition, partition in broker.partitions.items():
            log = partition.log
            state = (
                life,
                partition.topic_id,
                log,
                -1 if log is None else log.generation,
                -1 if log is None else log.log_end_offset,
                partition.high_watermark,
                partition.is_leader,
                partition.leader_epoch,
                partition.partition_epoch,
                -1 if log is None else log.log_start_offset,
                partition.pending_isr,
                0 if log is None else log.swaps,
            )
            if seen.get((node_id, topic_partition)) != state:
                seen[node_id, topic_partition] = state
                self._changed(node, life, topic_partition, partition)
        for watcher in self.watchers:
            watcher.stepped(node)

    def _changed(self, node: SimNode, life: int, topic_partition: TopicPartition, partition: Partition) -> None:
        key = Key(partition.topic_id, topic_partition.partition)
        copies = self.copies.setdefault(key, {})
        copy = copies.get(node.node_id)
        if copy is not None and copy.life == life and copy.partition is not partition:
            # it was taken away and given again: what it held then is gone
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
            # missing, damaged, or out of reach: what may come later is another log
            copy.log = None
        if partition.log is not None:
            self._log_changed(copy, life, partition.log)
        copy.life = life
        copy.high_watermark = partition.high_watermark
        copy.is_leader, copy.leader_epoch = partition.is_leader, partition.leader_epoch
        if role != (copy.is_leader, copy.leader_epoch):
            for watcher in self.watchers:
                watcher.role(copy)
        isr = (partition.isr, partition.pending_isr)
        if isr != copy.isr:
            copy.isr = isr
            if copy.is_leader:
                for watcher in self.watchers:
                    watcher.isr(copy)
        if watermark != copy.high_watermark:
            for watcher in self.watchers:
                watcher.watermark(copy, watermark)

    def _dropped(self, node_id: NodeId, topic_partition: TopicPartition) -> None:
        """A broker holds a partition no more."""
        key = self._held[node_id].pop(topic_partition)
        self._seen.pop((node_id, topic_partition), None)
        copy = self.copies[key].pop(node_id, None)
        if copy is not None:
            for watcher in self.watchers:
                watcher.dropped(copy)

    def _log_changed(self, copy: Copy, life: int, log: Log) -> None:
        start, was_known = copy.log_start, copy.log is not None and copy.life == life
        copy.log_start = log.log_start_offset
        if start != copy.log_start:
            self._forget_below_the_start(copy, log)
            for watcher in self.watchers:
                watcher.log_start(copy, start if was_known else None)
        if copy.log is not log or copy.generation != log.generation:
            same_life = copy.life == life and copy.log is not None
            before, was_here = copy.chain, copy.log is not None or bool(copy.chain.ends)
            copy.log, copy.generation = log, log.generation
            copy.has_lost_sequences = copy.has_lost_sequences or log.log_start_offset > 0
            self._read_anew(copy, log)
            if was_here and same_life:
                for watcher in self.watchers:
                    watcher.cut(copy, before, copy.high_watermark)
            elif was_here:
                for watcher in self.watchers:
                    watcher.reopened(copy, before)
        elif log.log_end_offset != copy.chain.end:
            batches = copy.read_on()
            for watcher in self.watchers:
                watcher.appended(copy, batches)
        if copy.swaps != log.swaps:
            copy.swaps = log.swaps
            for watcher in self.watchers:
                watcher.swapped(copy)

    def _read_anew(self, copy: Copy, log: Log) -> None:
        """Read a whole log; of what it gave up, what was committed, or is known of it: one that begins anew held other records."""
        begin = log.segments[0].base_offset
        for known in (self.committed.get(copy.key), copy.chain):
            if known is not None and known.at(begin) is not None:
                copy.read_anew(known, begin)
                return
        copy.read_anew(None, begin)

    def _forget_below_the_start(self, copy: Copy, log: Log) -> None:
        """What nobody can read any more need not be what was committed.

        A leader whose log begins behind the point of divergence cannot tell it: its follower keeps what is below that log's start.
        """
        committed, start = self.committed.get(copy.key), copy.log_start
        if committed is None or copy.log is not log or copy.generation != log.generation:
            return
        wanted = committed.at(start)
        if wanted is not None and copy.chain.at(start) not in (None, wanted):
            copy.read_anew(committed, start)

    def store_changed(self, request: StoreRequest, outcome: StoreOutcome) -> None:
        """A script added to the metadata log."""
        for watcher in self.watchers:
            watcher.store_changed(request, outcome)

    def has_lost(self, member: IsrMember) -> bool:
        """Whether a disk lost something since this member was one."""
        return member.broker_epoch <= self.lost_until.get(member.node_id, -1)

    def forfeit(self, key: Key, why: str) -> None:
        """This partition lost what nobody promised to keep."""
        self.forfeited.setdefault(key, why)
