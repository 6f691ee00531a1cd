"""Who reads what in the demo's group, by its members' events. Pure.

The guarantee of a group that commits what it has read (at least once): every record is read, and a member that takes a
partition over starts at the last commit. So a record may be read twice only if it was not committed when its first
reader died.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from yak.ids import Offset
from yak.local.demo.delivery import Delivery, deliveries
from yak.sim.history_checker.history import Assign, Commit, Event, Final, History, Outcome, Poll


@dataclass(slots=True)
class Hold:
    """One assignment of a partition to a member, until the revocation or the member's death.

    Offsets are of the next record. `floor`: records below it are committed and must not be read in this assignment.
    """

    member: str
    partition: int
    since: float
    floor: Offset
    first_offset: Offset | None = None
    first_read_at: float | None = None
    read_to: Offset | None = None

    @property
    def uncommitted(self) -> int:
        """Records that were read and that the next reader would read again."""
        return 0 if self.read_to is None else max(self.read_to - self.floor, 0)


class GroupView:
    """The assignments, reads and commits of members, in the order in which they are noted."""

    def __init__(self) -> None:
        self.held: dict[int, list[Hold]] = defaultdict(list)
        """The present readers by partition; two only while a member does not know yet that it lost the partition."""
        self.holds: list[Hold] = []
        self.committed: dict[int, Offset] = {}
        self.read_by_member: Counter[str] = Counter()
        self.read_times: dict[int, list[float]] = defaultdict(list)
        self.read: dict[int, set[Offset]] = defaultdict(set)
        self.twice_committed: Counter[int] = Counter()
        self._commits: list[Commit] = []

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """The view of all events, sorted by time: events of different members arrive in no particular order."""
        view = cls()
        for event in sorted(events, key=_time_of):
            view.note(event)
        return view

    def note(self, event: Event) -> None:
        """Add an event."""
        match event:
            case Assign(process=member):
                for name in (*event.dropped, *event.starts):
                    self._end(member, _number(name))
                for name in event.starts:
                    partition = _number(name)
                    hold = Hold(member, partition, event.at, self.committed.get(partition, 0))
                    self.held[partition].append(hold)
                    self.holds.append(hold)
            case Poll():
                for run in event.runs:
                    for offset in run.offsets:
                        self._note_read(event.process, _number(run.partition), offset, event.ended)
            case Commit(outcome=Outcome.OK):
                self._commits.append(event)
                for name, offset in event.offsets.items():
                    self._note_committed(event.process, _number(name), offset)

    def note_dead(self, member: str) -> tuple[Hold, ...]:
        """Record that a member was killed; return its assignments."""
        had = self.holds_of(member)
        for hold in had:
            self._end(member, hold.partition)
        return had

    def _note_committed(self, member: str, partition: int, offset: Offset) -> None:
        self.committed[partition] = max(offset, self.committed.get(partition, 0))
        hold = self.hold_of(member, partition)
        if hold is not None:
            hold.floor = max(offset, hold.floor)

    def _note_read(self, member: str, partition: int, offset: Offset, at: float) -> None:
        hold = self.hold_of(member, partition)
        if hold is None:  # a read without an assignment must not return committed records either
            hold = Hold(member, partition, at, self.committed.get(partition, 0))
        if offset < hold.floor:
            self.twice_committed[partition] += 1
        if hold.first_offset is None:
            hold.first_offset, hold.first_read_at = offset, at
        hold.read_to = max(offset + 1, hold.read_to or 0)
        self.read_by_member[member] += 1
        self.read_times[partition].append(at)
        self.read[partition].add(offset)

    def _end(self, member: str, partition: int) -> None:
        self.held[partition] = [hold for hold in self.held[partition] if hold.member != member]

    # -------------------------------------------------------------------------------------------------------- queries

    def hold_of(self, member: str, partition: int) -> Hold | None:
        """A member's present assignment of a partition."""
        return next((hold for hold in self.held[partition] if hold.member == member), None)

    def holds_of(self, member: str) -> tuple[Hold, ...]:
        """A member's present assignments, by partition."""
        return tuple(hold for partition in sorted(self.held) for hold in self.held[partition] if hold.member == member)

    def is_shared_evenly(self, members: Sequence[str], partitions: int) -> bool:
        """Whether each partition has one of these members as its only reader, and the counts differ by at most one."""
        counts = [len(self.holds_of(member)) for member in members]
        readers = [len(self.held[partition]) for partition in range(partitions)]
        return readers == [1] * partitions and sum(counts) == partitions and max(counts) - min(counts) <= 1

    def first_commit_after(self, moment: float, member: str) -> float | None:
        """When a member's first commit that was sent after a moment was acknowledged."""
        return min(
            (each.ended for each in self._commits if each.invoked > moment and each.process == member), default=None
        )

    def assigned_since(self, moment: float) -> list[Hold]:
        """The assignments since a moment."""
        return [hold for hold in self.holds if hold.since > moment]

    def read_again(self, partition: int) -> int:
        """The number of repeated reads."""
        return len(self.read_times[partition]) - len(self.read[partition])

    def read_count(self) -> int:
        """The number of reads, repeated ones included."""
        return sum(self.read_by_member.values())


def partition_counts(history: History, events: Sequence[Event], partitions: Sequence[str]) -> list[dict[str, Any]]:
    """The counts of each partition: sends are in the history already, the members' events are added to it.

    `lost`: acknowledged to the producer, and not read, or read with different content. `twice_committed`: reads of
    records that were committed before the assignment, or by the reader itself. `twice_uncommitted`: repeated reads of
    uncommitted records; allowed, and displayed. `unconfirmed`: read without an acknowledgement to the producer; allowed
    too.
    """
    view = GroupView.of(events)
    for event in events:
        history.add(event)
    for member in view.read_by_member or ("none",):  # a record that no member has read by now is lost
        ends = {name: max(view.read[_number(name)], default=-1) + 1 for name in partitions}
        history.add(Final(member, ends))
    delivered, rows = deliveries(history), []
    for name in partitions:
        found, partition = delivered.get(name, Delivery()), _number(name)
        again, twice_committed = view.read_again(partition), view.twice_committed[partition]
        readers = dict.fromkeys(hold.member for hold in view.holds if hold.partition == partition)
        rows.append(
            {
                "partition": partition,
                "readers": tuple(readers),
                "acknowledged": found.acknowledged,
                "read": len(view.read[partition]),
                "lost": found.lost,
                "twice_committed": twice_committed,
                "twice_uncommitted": max(again - twice_committed, 0),
                "unconfirmed": found.unconfirmed,
                "ok": found.lost + twice_committed == 0,
            }
        )
    return rows


def handovers(dead: Sequence[Hold], later: Sequence[Hold], committed: Mapping[int, Offset]) -> list[dict[str, Any]]:
    """The first member that read each partition of a dead member, from the assignments in `later`.

    Offsets are of the next record; `committed` is the coordinator's own value. It is `ok` when the next reader started
    there: it skipped nothing, and read nothing that was committed. `read_again`: read, and not committed.
    """
    rows = []
    for hold in dead:
        # An assignment that a second rebalance revoked before the first read is no handover.
        after = next(each for each in later if each.partition == hold.partition and each.first_offset is not None)
        floor = committed.get(hold.partition, 0)
        read_to = hold.floor if hold.read_to is None else hold.read_to
        rows.append(
            {
                "partition": hold.partition,
                "committed": floor,
                "read_to": read_to,
                "taken_by": after.member,
                "began_at": after.first_offset,
                "read_again": max(read_to - floor, 0),
                "ok": after.first_offset == floor,
            }
        )
    return rows


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _time_of(event: Event) -> float:
    return event.at if isinstance(event, Assign) else getattr(event, "ended", 0.0)
