"""The history of the groups demo: assignments, reads and commits, and the counts that follow from them.

No I/O. The guarantee of a group that commits what it has read (at least once): every record is read, and a member that
takes a partition over starts at the last commit. So a record may be read twice only if it was not committed when its
first reader died.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from yak.ids import Offset
from yak.local.demo.group_events import Committed, Event, Given, Read, Taken


class Place(NamedTuple):
    """The position of a record."""

    partition: int
    offset: Offset


@dataclass(slots=True)
class Hold:
    """One assignment of a partition to a member, until the revocation or the member's death.

    `floor`: the committed offset before the assignment. `read_to` and `committed` are offsets of the next record.
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
        """Records below this offset are committed and must not be read in this assignment."""
        return max(self.floor, self.committed or 0)

    @property
    def uncommitted(self) -> int:
        """Records that were read and that the next reader would read again."""
        return 0 if self.read_to is None else max(self.read_to - self.settled, 0)


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """The counts for one partition.

    `lost`: acknowledged to the producer, and not read, or read with different content. `twice_committed`: reads of
    records that were committed before the assignment, or by the reader itself. `twice_uncommitted`: repeated reads of
    uncommitted records; allowed, and displayed. `unconfirmed`: read without an acknowledgement to the producer; allowed
    too.
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
        """Whether every record was read, and no committed record twice."""
        return self.lost + self.twice_committed == 0


class GroupLedger:
    """The events of the members, in the order in which they are noted."""

    def __init__(self) -> None:
        self.held: dict[int, list[Hold]] = defaultdict(list)
        """The present readers by partition; two only while a member does not know yet that it lost the partition."""
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
        """The history of all events, sorted by time: events of different members arrive in no particular order."""
        ledger = cls()
        for member, event in sorted(events, key=lambda told: told[1].at):
            ledger.note(member, event)
        return ledger

    def note(self, member: str, event: Event) -> None:
        """Add an event of a member."""
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
        """Add committed offsets, from a member or from the coordinator itself."""
        for partition, offset in offsets:
            self.committed[partition] = max(offset, self.committed.get(partition, 0))
            hold = self.hold_of(member, partition) if member is not None else None
            if hold is not None:
                hold.committed = max(offset, hold.committed or 0)

    def note_dead(self, member: str) -> tuple[Hold, ...]:
        """Record that a member was killed; return its assignments."""
        had = self.holds_of(member)
        for hold in had:
            self._end(member, hold.partition)
        return had

    def _note_read(self, member: str, event: Read) -> None:
        place = Place(event.partition, event.offset)
        hold = self.hold_of(member, event.partition)
        if hold is None:  # a read without an assignment must not return committed records either
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

    # -------------------------------------------------------------------------------------------------------- queries

    def hold_of(self, member: str, partition: int) -> Hold | None:
        """A member's present assignment of a partition."""
        return next((hold for hold in self.held[partition] if hold.member == member), None)

    def holds_of(self, member: str) -> tuple[Hold, ...]:
        """A member's present assignments, by partition."""
        return tuple(hold for partition in sorted(self.held) for hold in self.held[partition] if hold.member == member)

    def partitions_of(self, member: str) -> tuple[int, ...]:
        """The partitions that a member reads now."""
        return tuple(hold.partition for hold in self.holds_of(member))

    def is_shared_evenly(self, members: Sequence[str], partitions: int) -> bool:
        """Whether each partition has one of these members as its only reader, and the counts differ by at most one."""
        counts = [len(self.partitions_of(member)) for member in members]
        readers = [len(self.held[partition]) for partition in range(partitions)]
        return readers == [1] * partitions and sum(counts) == partitions and max(counts) - min(counts) <= 1

    def missing(self, acknowledged: Mapping[Place, int]) -> int:
        """The number of acknowledged records that are unread; a lower bound while there are many."""
        fewer = len(acknowledged) - len(self._times_read)
        return fewer if fewer > 0 else sum(1 for place in acknowledged if place not in self._times_read)

    def first_commit_after(self, moment: float, member: str) -> float | None:
        """When a member's first commit that was sent after a moment was acknowledged."""
        later = [each.at for by, each in self.commits if each.asked_at > moment and by == member]
        return min(later, default=None)

    def given_since(self, moment: float) -> list[Hold]:
        """The assignments since a moment."""
        return [hold for hold in self.holds if hold.since > moment]

    def verdicts(self, acknowledged: Mapping[Place, int], partitions: int) -> tuple[PartitionVerdict, ...]:
        """The counts by partition; `acknowledged` has the checksum of each acknowledged record."""
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
    """Each count summed over all partitions, by name."""
    names = ("acknowledged", "read", "lost", "twice_committed", "twice_uncommitted", "unconfirmed")
    return {name: sum(getattr(verdict, name) for verdict in verdicts) for name in names}
