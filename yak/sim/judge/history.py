"""What clients did, and how it ended as they saw it.

Times are seconds of one clock. A partition is named `topic-0`; values are numbers that no two sends of a run share. Sends
stand in the order in which their client asked for them, reads of one process in the order in which it made them.

`ok`, `fail` and `info` are Jepsen's (jepsen.tests.kafka): it happened, it certainly did not, nobody knows. Only an error
that proves that nothing was appended is a `fail`; a time-out is `info`.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from yak.ids import Offset

UNREADABLE = -1
"""Stands for a record whose content no client of the run can have written."""


class Outcome(StrEnum):
    """How an operation ended, as its client saw it."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Send:
    """One record sent. `offset` is what the acknowledgement named; None when it named none."""

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
    """Records of one partition as one poll gave them, in that order."""

    partition: str
    offsets: Sequence[int]
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Poll:
    """What one call gave. `read_committed` is the consumer's isolation level; `txn` the transaction it polled in."""

    process: str
    invoked: float
    ended: float
    runs: tuple[Run, ...]
    read_committed: bool = False
    txn: int | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """A process begins to read these partitions there (None: it does not know where), and ends with the dropped ones.

    With `group`, each start is what the group had committed when it was asked; -1 when there was no commit.
    """

    process: str
    at: float
    starts: Mapping[str, Offset | None]
    dropped: tuple[str, ...] = ()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """Offsets committed for a group: of each partition the next one to read."""

    process: str
    group: str
    invoked: float
    ended: float
    outcome: Outcome
    offsets: Mapping[str, Offset]


@dataclass(frozen=True, slots=True)
class Txn:
    """How a transaction ended: committed (`ok`), aborted (`fail`), or nobody knows.

    `end_invoked` is when its end was asked for.
    """

    number: int
    process: str
    end_invoked: float
    ended: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Final:
    """After all was settled, this process read each partition from its first offset to this end."""

    process: str
    ends: Mapping[str, Offset]


Event = Send | Poll | Assign | Commit | Txn | Final


@dataclass(slots=True)
class History:
    """All of it. `first_offsets` says where the partitions began; 0 where it says nothing."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Poll | Assign] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    txns: dict[int, Txn] = field(default_factory=dict)
    finals: list[Final] = field(default_factory=list)
    first_offsets: dict[str, Offset] = field(default_factory=dict)
    taken: dict[str, dict[Offset, float]] = field(default_factory=dict)
    """Offsets that compaction took the record of, and from when on it may be missing."""

    def add(self, event: Event) -> None:
        """One more event, after those of its process."""
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
        """All events; those of one process and kind in their order."""
        yield from self.sends
        yield from self.reads
        yield from self.commits
        yield from self.txns.values()
        yield from self.finals

    def polls(self) -> Iterator[Poll]:
        """All polls."""
        return (each for each in self.reads if isinstance(each, Poll))

    def is_committed(self, txn: int | None) -> bool:
        """Whether what was sent in this transaction counts; what was sent in none always does."""
        return txn is None or (txn in self.txns and self.txns[txn].outcome is Outcome.OK)

    def is_aborted(self, txn: int | None) -> bool:
        """Whether this transaction certainly had no effect."""
        return txn is not None and txn in self.txns and self.txns[txn].outcome is Outcome.FAIL


def run(partition: str, records: Sequence[tuple[Offset, int]]) -> Run:
    """A run of (offset, value) pairs, in little memory."""
    return Run(partition, array("q", [offset for offset, _ in records]), array("q", [value for _, value in records]))
