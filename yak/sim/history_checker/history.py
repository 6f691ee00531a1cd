"""The operations of clients, and their outcomes as the clients saw them.

Times are seconds of one clock. A partition is named `topic-0`; values are numbers that are unique among a run's sends.
Sends are in the order of their client's calls, reads of one process in the order of its polls.

`ok`, `fail` and `info` are Jepsen's (jepsen.tests.kafka): it happened, it certainly did not, unknown. Only an error
that proves that nothing was appended is a `fail`; a time-out is `info`.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from yak.ids import Offset

UNREADABLE = -1
"""Stands for a record whose content no client of the run can have written."""


class Outcome(StrEnum):
    """The outcome of an operation, as its client saw it."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Send:
    """One record sent. `offset` comes from the acknowledgement; None if it had none."""

    process: str
    partition: str
    value: int
    invoked: float
    ended: float
    outcome: Outcome
    offset: Offset | None = None
    txn: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one partition in one poll, in that order."""

    partition: str
    offsets: Sequence[int]
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Poll:
    """The result of one poll. `read_committed` is the consumer's isolation level; `txn` the surrounding transaction."""

    process: str
    invoked: float
    ended: float
    runs: tuple[Run, ...]
    read_committed: bool = False
    txn: int | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """A process starts to read these partitions at these offsets (None: unknown), and stops reading the dropped ones.

    With `group`, each start is the group's committed offset at that time; -1 if there was no commit.
    """

    process: str
    at: float
    starts: Mapping[str, Offset | None]
    dropped: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Offsets committed for a group: the next offset to read of each partition."""

    process: str
    group: str
    invoked: float
    ended: float
    outcome: Outcome
    offsets: Mapping[str, Offset]


@dataclass(frozen=True, slots=True)
class Txn:
    """The end of a transaction: committed (`ok`), aborted (`fail`), or unknown (`info`).

    `end_invoked` is the time of the request to end it.
    """

    number: int
    process: str
    end_invoked: float
    ended: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Final:
    """After everything settled, this process read each partition from its first offset to this end."""

    process: str
    ends: Mapping[str, Offset]


Event = Send | Poll | Assign | Commit | Txn | Final


@dataclass(slots=True)
class History:
    """All events. `first_offsets` has the partitions' first offsets; the default is 0."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Poll | Assign] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    txns: dict[int, Txn] = field(default_factory=dict)
    finals: list[Final] = field(default_factory=list)
    first_offsets: dict[str, Offset] = field(default_factory=dict)
    taken: dict[str, dict[Offset, float]] = field(default_factory=dict)
    """Offsets that compaction removed, and from when on the record may be missing."""
    forgotten: dict[str, Offset] = field(default_factory=dict)
    """By partition: a leader may not know batches below this offset, and stores them again when their producer retries."""

    def add(self, event: Event) -> None:
        """Add an event, after those of its process."""
        match event:
            case Send():
                self.sends.append(event)
            case Poll() | Assign():
                self.reads.append(event)
            case Commit():
                self.commits.append(event)
            case Txn():
                self.txns[event.number] = event
            case Final():
                self.finals.append(event)

    def events(self) -> Iterator[Event]:
        """All events; those of one process and kind in order."""
        yield from self.sends
        yield from self.reads
        yield from self.commits
        yield from self.txns.values()
        yield from self.finals

    def polls(self) -> Iterator[Poll]:
        return (each for each in self.reads if isinstance(each, Poll))

    @property
    def ends(self) -> dict[str, Offset]:
        """By partition, the offset to which a process read it at the end."""
        return {name: end for final in self.finals for name, end in final.ends.items()}

    def values_read(self, is_included: Callable[[Poll], bool]) -> dict[str, set[int]]:
        """By partition, the values that these polls returned."""
        read: dict[str, set[int]] = {}
        for poll in filter(is_included, self.polls()):
            for run in poll.runs:
                read.setdefault(run.partition, set()).update(run.values)
        return read

    def is_committed(self, txn: int | None) -> bool:
        """Whether sends of this transaction are committed; sends without a transaction always are."""
        return txn is None or (txn in self.txns and self.txns[txn].outcome is Outcome.OK)

    def is_aborted(self, txn: int | None) -> bool:
        return txn is not None and txn in self.txns and self.txns[txn].outcome is Outcome.FAIL


def run(partition: str, records: Sequence[tuple[Offset, int]]) -> Run:
    """A run of (offset, value) pairs, in little memory."""
    return Run(partition, array("q", [offset for offset, _ in records]), array("q", [value for _, value in records]))
