"""The bookkeeping of the groups demo: who had which partition, what was read and committed, and what that adds up to.

No I/O. The promise of a group that commits what it has read (at least once): every record is read, and a reader that
takes a partition over begins where the last commit says. So a record may be read twice only if it was not committed
yet when its first reader died.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from yak.ids import Offset
from yak.local.demo.group_events import Committed, Event, Given, Read, Taken


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: Offset


@dataclass(slots=True)
class Hold:
    """One partition with one member, from when it was given it until it was taken, or the member's death.

    `floor`: what was committed of it before it began. `read_to` and `committed` are offsets of the next record.
    """

    member: str
    partition: int
    since: float
    floor: Offset
    first_offset: Offset | None = None
    first_read_at: float | None = None
    read_to: Offset | None = None
    committed: Offset | None = None

    @property
    def settled(self) -> Offset:
        """What must not be read in this hold: it was committed before."""
        return max(self.floor, self.committed or 0)

    @property
    def uncommitted(self) -> int:
        """Records that were read and that the next reader would read again."""
        return 0 if self.read_to is None else max(self.read_to - self.settled, 0)


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """The count for one partition.

    `lost`: acknowledged to the producer, and read by nobody, or read with another content. `twice_committed`: readings of
    what was committed before the reader was given the partition, or by itself. `twice_uncommitted`: readings again of what
    was not; allowed, and shown. `unconfirmed`: read though the producer was never told that it is stored; allowed too.
    """

    partition: int
    readers: tuple[str, ...]
    acknowledged: int
    read: int
    lost: int
    twice_committed: int
    twice_uncommitted: int
    unconfirmed: int

    @property
    def holds(self) -> bool:
        """Whether all of it was read, and nothing twice that was committed."""
        return self.lost + self.twice_committed == 0


class GroupLedger:
    """What the members told, in the order in which it is noted."""

    def __init__(self) -> None:
        self.held: dict[int, list[Hold]] = defaultdict(list)
        """By partition, the present readers; two only while a member does not know yet that it lost it."""
        self.holds: list[Hold] = []
        self.committed: dict[int, Offset] = {}
        self.read_by_member: Counter[str] = Counter()
        self.read_times: dict[int, list[float]] = defaultdict(list)
        self.commits: list[tuple[str, Committed]] = []
        self._times_read: Counter[Place] = Counter()
        self._checksums: dict[Place, set[int]] = defaultdict(set)
        self._twice_committed: Counter[int] = Counter()

    @classmethod
    def of(cls, events: Iterable[tuple[str, Event]]) -> Self:
        """All that was told, by the time at which it happened: members are heard in no order among themselves."""
        ledger = cls()
        for member, event in sorted(events, key=lambda told: told[1].at):
            ledger.note(member, event)
        return ledger

    def note(self, member: str, event: Event) -> None:
        """Take in what a member told."""
        match event:
            case Given(at, partitions):
                for partition in partitions:
                    self._end(member, partition)
                    hold = Hold(member, partition, at, self.committed.get(partition, 0))
                    self.held[partition].append(hold)
                    self.holds.append(hold)
            case Taken(_, partitions):
                for partition in partitions:
                    self._end(member, partition)
            case Read():
                self._note_read(member, event)
            case Committed(offsets=offsets):
                self.commits.append((member, event))
                self.note_committed(offsets, member)
            case _:
                pass

    def note_committed(self, offsets: Iterable[tuple[int, Offset]], member: str | None = None) -> None:
        """Offsets that are committed, by a member or as the coordinator itself says."""
        for partition, offset in offsets:
            self.committed[partition] = max(offset, self.committed.get(partition, 0))
            hold = self.hold_of(member, partition) if member is not None else None
            if hold is not None:
                hold.committed = max(offset, hold.committed or 0)

    def note_dead(self, member: str) -> tuple[Hold, ...]:
        """A member was killed; gives what it had."""
        had = self.holds_of(member)
        for hold in had:
            self._end(member, hold.partition)
        return had

    def _note_read(self, member: str, event: Read) -> None:
        place = Place(event.partition, event.offset)
        hold = self.hold_of(member, event.partition)
        if hold is None:  # it reads before it was given anything: what is committed must not be read by it either
            hold = Hold(member, event.partition, event.at, self.committed.get(event.partition, 0))
        if event.offset < hold.settled:
            self._twice_committed[event.partition] += 1
        if hold.first_offset is None:
            hold.first_offset, hold.first_read_at = event.offset, event.at
        hold.read_to = max(event.offset + 1, hold.read_to or 0)
        self.read_by_member[member] += 1
        self.read_times[event.partition].append(event.at)
        self._times_read[place] += 1
        self._checksums[place].add(event.checksum)

    def _end(self, member: str, partition: int) -> None:
        self.held[partition] = [hold for hold in self.held[partition] if hold.member != member]

    # ----------------------------------------------------------------------------------------------------- to look at

    def hold_of(self, member: str, partition: int) -> Hold | None:
        """What a member has of a partition now."""
        return next((hold for hold in self.held[partition] if hold.member == member), None)

    def holds_of(self, member: str) -> tuple[Hold, ...]:
        """What a member has now, by partition."""
        return tuple(hold for partition in sorted(self.held) for hold in self.held[partition] if hold.member == member)

    def partitions_of(self, member: str) -> tuple[int, ...]:
        """The partitions that a member reads now."""
        return tuple(hold.partition for hold in self.holds_of(member))

    def is_shared_evenly(self, members: Sequence[str], partitions: int) -> bool:
        """Whether these members read all partitions, each one of them by one member, and none has two more than another."""
        counts = [len(self.partitions_of(member)) for member in members]
        readers = [len(self.held[partition]) for partition in range(partitions)]
        return readers == [1] * partitions and sum(counts) == partitions and max(counts) - min(counts) <= 1

    def missing(self, acknowledged: Mapping[Place, int]) -> int:
        """How many acknowledged records nobody has read yet; at least so many while there are many."""
        fewer = len(acknowledged) - len(self._times_read)
        return fewer if fewer > 0 else sum(1 for place in acknowledged if place not in self._times_read)

    def first_commit_after(self, moment: float, member: str) -> float | None:
        """When a member's first commit that it asked for after a moment was acknowledged."""
        later = [each.at for by, each in self.commits if each.asked_at > moment and by == member]
        return min(later, default=None)

    def given_since(self, moment: float) -> list[Hold]:
        """The partitions that changed hands after a moment."""
        return [hold for hold in self.holds if hold.since > moment]

    def verdicts(self, acknowledged: Mapping[Place, int], partitions: int) -> tuple[PartitionVerdict, ...]:
        """The count by partition; `acknowledged` has the checksum of each record that the producer was told is stored."""
        return tuple(self._verdict(partition, acknowledged) for partition in range(partitions))

    def _verdict(self, partition: int, acknowledged: Mapping[Place, int]) -> PartitionVerdict:
        mine = {place: checksum for place, checksum in acknowledged.items() if place.partition == partition}
        times = {place: count for place, count in self._times_read.items() if place.partition == partition}
        again = sum(count - 1 for count in times.values())
        lost = sum(1 for place, checksum in mine.items() if self._checksums.get(place) != {checksum})
        return PartitionVerdict(
            partition=partition,
            readers=tuple(dict.fromkeys(hold.member for hold in self.holds if hold.partition == partition)),
            acknowledged=len(mine),
            read=len(times),
            lost=lost,
            twice_committed=self._twice_committed[partition],
            twice_uncommitted=max(again - self._twice_committed[partition], 0),
            unconfirmed=sum(1 for place in times if place not in mine),
        )


def totals(verdicts: Sequence[PartitionVerdict]) -> dict[str, int]:
    """Each count over all partitions, by name."""
    names = ("acknowledged", "read", "lost", "twice_committed", "twice_uncommitted", "unconfirmed")
    return {name: sum(getattr(verdict, name) for verdict in verdicts) for name in names}
