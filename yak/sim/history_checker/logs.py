"""Each partition's log as all clients together know it: its version order, in Jepsen's terms.

An offset is known from an acknowledgement or a poll. Gaps are allowed: transaction markers and compacted records have
offsets too.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from yak.ids import Offset
from yak.sim.history_checker.history import UNREADABLE, History, Outcome, Send


@dataclass(slots=True)
class KnownLog:
    """One partition as its clients know it."""

    name: str
    sent: dict[int, Send] = field(default_factory=dict)
    at: dict[Offset, int] = field(default_factory=dict)
    """The first value that was seen at an offset."""
    disputed: dict[Offset, set[int]] = field(default_factory=dict)
    """Offsets at which different values were seen."""
    first_offset: dict[int, Offset] = field(default_factory=dict)
    """The first offset at which a value was seen."""
    all_offsets: dict[int, set[Offset]] = field(default_factory=dict)
    """Values that were seen at different offsets."""
    polled: set[int] = field(default_factory=set)
    polled_end: Offset = 0
    """One above the highest offset that was polled."""
    visible: Sequence[Offset] = ()
    """Offsets of records that no reader may skip while they are there, sorted."""
    taken: Mapping[Offset, float] = field(default_factory=dict)
    """Offsets that compaction removed, and from when on the record may be missing."""
    forgotten: Offset = 0
    """A leader may not know batches below it."""

    def learn(self, offset: Offset, value: int) -> None:
        """A client saw this value at this offset."""
        known = self.at.setdefault(offset, value)
        if known != value:
            self.disputed.setdefault(offset, {known}).add(value)
        first = self.first_offset.setdefault(value, offset)
        if first != offset and value != UNREADABLE:
            self.all_offsets.setdefault(value, {first}).add(offset)

    def between(self, low: Offset, high: Offset, at: float) -> Offset | None:
        """The first offset from `low` to below `high` that no reader may skip at that time; None if there is none."""
        for index in range(bisect_left(self.visible, low), len(self.visible)):
            offset = self.visible[index]
            if offset >= high:
                break
            if self.taken.get(offset, math.inf) > at:
                return offset
        return None

    def acknowledged(self) -> Iterator[Send]:
        return (send for send in self.sent.values() if send.outcome is Outcome.OK)


def known_logs(history: History) -> dict[str, KnownLog]:
    """The log of every partition that a client wrote to or read."""
    logs: dict[str, KnownLog] = {}

    def log_of(name: str) -> KnownLog:
        return logs.setdefault(name, KnownLog(name))

    for send in history.sends:
        log = log_of(send.partition)
        log.sent[send.value] = send
        if send.outcome is Outcome.OK and send.offset is not None:
            log.learn(send.offset, send.value)
    for poll in history.polls():
        for run in poll.runs:
            log = log_of(run.partition)
            for offset, value in zip(run.offsets, run.values, strict=True):
                log.learn(offset, value)
            log.polled.update(run.values)
            log.polled_end = max(log.polled_end, max(run.offsets, default=-1) + 1)
    committed = read_as_committed(history)
    for log in logs.values():
        log.visible = sorted(_visible(history, log, committed))
        log.taken = history.taken.get(log.name, {})
        log.forgotten = history.forgotten.get(log.name, 0)
    return logs


def read_as_committed(history: History) -> set[int]:
    """Values that `read_committed` consumers read."""
    return {
        value
        for poll in history.polls()
        if poll.read_committed and history.txns
        for run in poll.runs
        for value in run.values
    }


def _visible(history: History, log: KnownLog, committed: set[int]) -> Iterator[Offset]:
    for offset, value in log.at.items():
        send = log.sent.get(value)
        if (
            send is None
            or send.txn is None
            or history.is_committed(send.txn)
            or (value in committed and not history.is_aborted(send.txn))
        ):
            yield offset
