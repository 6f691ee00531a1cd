"""The recorder of the clients' operations as they saw them; the checker (`yak.sim.history_checker`) reads the history
after the run.

It leaves out forfeited partitions, and commits of groups whose `__consumer_offsets` partition is forfeited.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from yak.ids import Offset
from yak.sim.deliveries import Violation
from yak.sim.history_checker.history import Assign, Commit, Final, History, Outcome, Poll, Run, Send, Txn
from yak.sim.history_checker.report import HistoryReport, check_history
from yak.sim.world import START_MS, World, seconds_at

if TYPE_CHECKING:
    from yak.sim.clients import ReadListener

Place = tuple[str, int]
"""Topic and partition."""
ReadRecord = Callable[[str, int, int, bytes, int], None]
"""A consumer read this record: topic, partition, offset, value, and the high watermark."""


@dataclass(slots=True)
class _Sent:
    """One value sent, and its outcome so far."""

    number: int
    place: Place
    invoked: float
    txn: int | None
    ended: float
    outcome: Outcome = Outcome.INFO
    offset: Offset | None = None


@dataclass(slots=True)
class _Read:
    """The records of one partition in one poll; with `txn`, those that a transaction processes."""

    process: str
    place: Place
    at: float
    txn: int | None = None
    offsets: array[int] = field(default_factory=partial(array, "q"))
    values: array[int] = field(default_factory=partial(array, "q"))


@dataclass(slots=True)
class _Assigned:
    """The partitions that a process starts and stops reading."""

    process: str
    at: float
    starts: Mapping[Place, Offset]
    dropped: tuple[Place, ...]
    group: str | None


class CommitMark(NamedTuple):
    """Identifies the commit of an offset: its number in the run, and the member and generation that it was sent for."""

    number: int
    generation: int
    member_id: str

    @property
    def text(self) -> str:
        return f"{self.number} {self.generation} {self.member_id}"

    @classmethod
    def read(cls, text: str) -> CommitMark | None:
        """The mark in the metadata of a committed offset; None if there is none."""
        parts = text.split(" ", 2)
        return cls(int(parts[0]), int(parts[1]), parts[2]) if len(parts) == len(cls._fields) else None


@dataclass(slots=True, eq=False)
class CommitInFlight:
    """A commit in flight; `INFO` until its response decides."""

    process: str
    group: str
    offsets: Mapping[Place, Offset]
    invoked: float
    number: int
    """Unique in the run, from 0 on."""
    ended: float = 0.0
    """When its outcome was known, if it `is_over`."""
    outcome: Outcome = Outcome.INFO
    is_over: bool = False
    ending: ObservedTransaction | None = None
    """The transaction that it is part of."""
    is_stale: bool = False
    """Whether the group had left the commit's generation when it was sent."""


@dataclass(slots=True, eq=False)
class ObservedTransaction:
    """A transaction and how it ended, as its producer knows it."""

    number: int
    process: str
    invoked: float | None = None
    """When its end was first requested."""
    ended: float | None = None
    outcome: Outcome = Outcome.FAIL
    """A transaction without a request to commit it is aborted."""

    @property
    def may_be_committed(self) -> bool:
        """Whether its commit was requested, and may have arrived."""
        return self.invoked is not None and self.outcome is not Outcome.FAIL


class Recorder:
    """The history under construction. It maps clients' values, which are bytes, to the checker's numbers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: dict[bytes, _Sent] = {}
        self._reads: list[_Read | _Assigned] = []
        self._commits: list[CommitInFlight] = []
        self._transactions: list[ObservedTransaction] = []
        self._read_committed: set[str] = set()
        """Processes that read only what is committed."""
        self._readers: dict[str, Place] = {}
        """Processes that read a partition from its beginning to its end."""

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return seconds_at(self._world.now_us)

    def sent_ms(self, value: bytes) -> int:
        """When a value was first sent: its record has this timestamp, or a later one of a repeated batch."""
        return START_MS + int(self._sent[value].invoked * 1000)

    # ---------------------------------------------------------------------------------------------------- writing

    def begins(self, process: str) -> ObservedTransaction:
        ending = ObservedTransaction(len(self._transactions), process)
        self._transactions.append(ending)
        return ending

    def ends(self, ending: ObservedTransaction, *, is_commit: bool) -> None:
        """A producer requests the end of its transaction, perhaps again."""
        if ending.invoked is None:
            ending.invoked = self.now
            ending.outcome = Outcome.INFO if is_commit else Outcome.FAIL

    def ended(self, ending: ObservedTransaction) -> None:
        ending.ended = self.now
        if ending.outcome is Outcome.INFO:
            ending.outcome = Outcome.OK

    def sent(self, place: Place, values: Iterable[bytes], txn: int | None = None) -> None:
        """A producer sends values for the first time."""
        now = self.now
        for value in values:
            self._sent[value] = _Sent(len(self._sent), place, now, txn, now)

    def acknowledged(self, base_offset: Offset, values: Iterable[bytes]) -> None:
        now = self.now
        for offset, value in enumerate(values, base_offset):
            sent = self._sent[value]
            sent.outcome, sent.offset, sent.ended = Outcome.OK, offset, now

    def refused(self, values: Iterable[bytes]) -> None:
        """The values were certainly not appended, and are not sent again."""
        now = self.now
        for value in values:
            sent = self._sent[value]
            sent.outcome, sent.ended = Outcome.FAIL, now

    # ---------------------------------------------------------------------------------------------------- reading

    def reads_all(self, process: str, place: Place, *, read_committed: bool = False) -> None:
        """This process reads a partition from offset 0 on, and reaches its end before the run is over."""
        if read_committed:
            self.reads_committed(process)
        self._readers[process] = place
        self.assigned(process, {place: 0})

    def reads_committed(self, process: str) -> None:
        """This process reads only what is committed."""
        self._read_committed.add(process)

    def polls(self, process: str, place: Place) -> _Read:
        """A fetch response begins."""
        read = _Read(process, place, self.now)
        self._reads.append(read)
        return read

    def polled(self, read: _Read, offset: Offset, value: bytes) -> None:
        read.offsets.append(offset)
        read.values.append(self._sent[value].number)

    def processes(self, ending: ObservedTransaction, place: Place, records: Iterable[tuple[Offset, bytes]]) -> None:
        """A transaction processes these records. Each transaction is a reader of its own."""
        read = _Read(f"transaction {ending.number} of {ending.process}", place, self.now, ending.number)
        self._reads.append(read)
        for offset, value in records:
            self.polled(read, offset, value)

    def assigned(
        self,
        process: str,
        starts: Mapping[Place, Offset],
        *,
        dropped: tuple[Place, ...] = (),
        group: str | None = None,
        requested_at: float | None = None,
    ) -> None:
        """A process starts to read at these offsets; -1 where its group has no commit.

        `requested_at`: when it sent the OffsetFetch. Its answer may be late, and lack the commits of the meantime.
        """
        self._reads.append(
            _Assigned(process, self.now if requested_at is None else requested_at, dict(starts), dropped, group)
        )

    # ------------------------------------------------------------------------------------------------- committing

    def commits(self, process: str, group: str, offsets: Mapping[Place, Offset]) -> CommitInFlight:
        commit = CommitInFlight(process, group, dict(offsets), self.now, len(self._commits))
        self._commits.append(commit)
        return commit

    def committed(self, commit: CommitInFlight, outcome: Outcome) -> None:
        commit.ended, commit.outcome, commit.is_over = self.now, outcome, True

    # --------------------------------------------------------------------------------------------------- the end

    def history(
        self,
        keeps: Callable[[Place], bool],
        keeps_group: Callable[[str], bool],
        floor: Callable[[Place], Offset],
        taken: Callable[[Place], Mapping[Offset, int]] = lambda _place: {},
        forgotten: Callable[[Place], Offset] = lambda _place: 0,
    ) -> History:
        """The history for the checker. `floor` is the offset below which a partition's records were deleted.

        `taken` has the offsets of records that compaction removed, and when, in microseconds. Below `forgotten` a leader
        may not know the batches that a producer repeats.
        """
        history = History()
        included: dict[Place, bool] = {}

        def is_included(place: Place) -> bool:
            if place not in included:
                included[place] = keeps(place)
            return included[place]

        seen: dict[Place, set[int]] = {}
        ends: dict[str, Offset] = {}
        for read in self._reads:
            if isinstance(read, _Assigned):
                history.add(_assign(read, is_included, keeps_group))
            elif len(read.offsets) and is_included(read.place):
                if read.process in self._readers:
                    seen.setdefault(read.place, set()).update(read.values)
                    ends[read.process] = max(ends.get(read.process, 0), read.offsets[-1] + 1)
                run = Run(_name(read.place), read.offsets, read.values)
                is_committed = read.txn is not None or read.process in self._read_committed
                history.add(Poll(read.process, read.at, read.at, (run,), is_committed, read.txn))
        floors = {place: floor(place) for place in included}
        for value, sent in self._sent.items():
            if not is_included(sent.place):
                continue
            outcome, offset = sent.outcome, sent.offset
            below = offset is not None and offset < floors.setdefault(sent.place, floor(sent.place))
            if below and sent.number not in seen.get(sent.place, ()):
                outcome, offset = Outcome.INFO, None
            process = value.partition(b":")[0].decode()
            name = _name(sent.place)
            history.add(Send(process, name, sent.number, sent.invoked, sent.ended, outcome, offset, sent.txn))
        for ending in self._transactions:
            now = self.now
            invoked, ended = (now if at is None else at for at in (ending.invoked, ending.ended))
            history.add(Txn(ending.number, ending.process, invoked, ended, ending.outcome))
        for commit in self._commits:
            offsets = {_name(place): offset for place, offset in commit.offsets.items() if is_included(place)}
            if offsets and keeps_group(commit.group):
                ended = commit.ended if commit.is_over else self.now
                history.add(Commit(commit.process, commit.group, commit.invoked, ended, commit.outcome, offsets))
        for process, place in self._readers.items():
            if is_included(place):
                history.add(Final(process, {_name(place): ends.get(process, 0)}))
        gone = {_name(place): taken(place) for place in included}
        history.taken = {name: {at: seconds_at(when) for at, when in held.items()} for name, held in gone.items()}
        history.forgotten = {_name(place): offset for place in included if (offset := forgotten(place))}
        history.first_offsets = {_name(place): first for place, first in floors.items() if first}
        return history


def _name(place: Place) -> str:
    return f"{place[0]}-{place[1]}"


def _assign(read: _Assigned, is_included: Callable[[Place], bool], keeps_group: Callable[[str], bool]) -> Assign:
    group = read.group if read.group is not None and keeps_group(read.group) else None
    starts = {_name(place): start for place, start in read.starts.items() if is_included(place)}
    return Assign(read.process, read.at, starts, tuple(_name(place) for place in read.dropped), group)


def must_hold(history: History) -> HistoryReport:
    """Check the history; raises Violation for the first contradiction."""
    history_report = check_history(history)
    for anomaly in history_report.anomalies[:1]:
        raise Violation(f"{anomaly.invariant}: {anomaly.kind}: {anomaly.partition}: {anomaly.words}")
    return history_report


class ReadRecorder:
    """Passes one consumer's reports of one partition on to the run's delivery history, and records them."""

    def __init__(
        self, deliveries: ReadListener, recorder: Recorder, process: str, place: Place, read: ReadRecord | None = None
    ) -> None:
        """`read` gets the records, in place of the delivery history."""
        self.is_over = False
        """The consumer no longer reads this partition: later responses are ignored."""
        self._deliveries = deliveries
        self._report: ReadRecord = read or deliveries.read
        self._recorder = recorder
        self._process = process
        self._place = place
        self._read: _Read | None = None

    def log_begins(self, topic: str, partition: int, log_start_offset: int) -> None:
        self._read = None
        self._deliveries.log_begins(topic, partition, log_start_offset)

    def read(self, topic: str, partition: int, offset: int, value: bytes, high_watermark: int) -> None:
        if self.is_over:
            return
        self._report(topic, partition, offset, value, high_watermark)
        if self._read is None:
            self._read = self._recorder.polls(self._process, self._place)
        self._recorder.polled(self._read, offset, value)

    def damaged(self, topic: str, partition: int, offset: int) -> None:
        self._deliveries.damaged(topic, partition, offset)

    def position_lost(self, topic: str, partition: int, position: int, log_start_offset: int) -> int:
        """The consumer's position is below the log start: continue at the start."""
        start = self._deliveries.position_lost(topic, partition, position, log_start_offset)
        if not self.is_over:
            self._recorder.assigned(self._process, {self._place: start})
        return start
