"""The growing history of a run, recorded from many threads, and the counters for display."""

import itertools
import struct
import threading
import time
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Final

from yak.sim.history_checker.history import UNREADABLE, Assign, Commit, Event, History, Outcome, Poll, Run, Send, Txn
from yak.sim.history_checker.history import Final as FinalRead

_HEAD: Final = struct.Struct(">QI")
_WRITER_BITS: Final = 32


def value_of(writer: int, sequence: int) -> int:
    """The unique number of a writer's record."""
    return writer << _WRITER_BITS | sequence


def encode(value: int, size_bytes: int) -> bytes:
    """The record's value: the number, its CRC-32, and zeros up to the size."""
    return _HEAD.pack(value, zlib.crc32(value.to_bytes(8, "big"))).ljust(size_bytes, b"\0")


def decode(content: bytes | None) -> int:
    """The number; UNREADABLE when no client of the run can have written this value."""
    if content is None or len(content) < _HEAD.size or any(content[_HEAD.size :]):
        return UNREADABLE
    value, check = _HEAD.unpack_from(content)
    return int(value) if zlib.crc32(content[:8]) == check else UNREADABLE


_DEFINITE: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "RECORD_LIST_TOO_LARGE")
"""Errors that guarantee that nothing was appended, also by earlier tries."""


class Acks:
    """The sorted times of acknowledgements, by partition."""

    def __init__(self, history: History) -> None:
        self.by_partition: dict[str, list[float]] = {}
        for send in history.sends:
            if send.outcome is Outcome.OK:
                self.by_partition.setdefault(send.partition, []).append(send.ended)
        for times in self.by_partition.values():
            times.sort()

    def longest_pause(self, began_s: float, ended_s: float, *, inside: bool = False) -> float:
        """The longest time between two acknowledgements of one partition that overlaps this interval, in seconds.

        With `inside`, pauses that end after the interval are ignored.
        """
        longest = 0.0
        for times in self.by_partition.values():
            first = max(0, bisect_right(times, began_s) - 1)
            last = min(len(times) - 1, bisect_left(times, ended_s) - inside)
            longest = max(longest, max((times[n + 1] - times[n] for n in range(first, last)), default=0.0))
        return round(longest, 3)

    def end(self) -> float:
        return max((times[-1] for times in self.by_partition.values()), default=0.0)


class Recorder:
    """Records the history; times are seconds since `began`, a `time.monotonic()`, by default its creation.

    `content` is the number of a record by its value.
    """

    def __init__(self, content: Callable[[bytes | None], int] = decode, *, began: float | None = None) -> None:
        self._began = time.monotonic() if began is None else began
        self._content = content
        self._lock = threading.Lock()
        self._history = History()
        self._under_way: dict[int, tuple[str, str, float, int | None]] = {}
        self._open: dict[int, tuple[str, float | None]] = {}
        """Transactions that have not ended, with their process, and the time of the request to commit."""
        self._transactions = 0
        self.acknowledged = 0
        self.refused = 0
        self.unknown = 0
        self.hung_calls = 0
        """Calls of librdkafka that did not return; their producers were replaced."""
        self.polled = 0
        self.last_ack_at: dict[str, float] = {}
        """By partition: when a send was last acknowledged."""
        self.out_of_range: list[str] = []
        """Out-of-range errors of consumers."""
        self.last_errors: dict[str, str] = {}

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def sending(self, process: str, partition: str, value: int, txn: int | None = None) -> None:
        with self._lock:
            self._under_way[value] = (process, partition, self.now(), txn)

    def never_sent(self, value: int) -> None:
        with self._lock:
            self._under_way.pop(value, None)

    def delivered(self, value: int, error: Any, message: Any) -> None:
        if error is None:
            offset = message.offset()
            self.sent(value, Outcome.OK, offset if offset is not None and offset >= 0 else None)
        else:
            self.sent(value, Outcome.FAIL if error.name() in _DEFINITE else Outcome.INFO, None, str(error.str()))

    def sent(self, value: int, outcome: Outcome, offset: int | None, error: str = "") -> None:
        with self._lock:
            found = self._under_way.pop(value, None)
            if found is None:
                return  # its client died earlier, and the outcome stays unknown
            process, partition, invoked, txn = found
            ended = self.now()
            self._history.add(Send(process, partition, value, invoked, ended, outcome, offset, txn))
            if outcome is Outcome.OK:
                self.acknowledged += 1
                self.last_ack_at[partition] = ended
            elif outcome is Outcome.FAIL:
                self.refused += 1
            elif txn is None:
                self.unknown += 1
                self.last_errors[process] = error

    def begin(self, process: str) -> int:
        """Record the start of a transaction; return its number."""
        with self._lock:
            self._transactions += 1
            self._open[self._transactions] = (process, None)
            return self._transactions

    def committing(self, txn: int) -> bool:
        """Record that the client is about to request the commit of a transaction; False if it died before."""
        with self._lock:
            if txn in self._open:
                self._open[txn] = (self._open[txn][0], self.now())
            return txn in self._open

    def ended(self, txn: int, *, is_committed: bool) -> Outcome:
        """Record the end of a transaction: without a request to commit it, it is certainly aborted."""
        with self._lock:
            process, requested_at = self._open.pop(txn, ("", 0.0))
            outcome = Outcome.OK if is_committed else Outcome.FAIL if requested_at is None else Outcome.INFO
            if process:
                now = self.now()
                self._history.add(Txn(txn, process, now if requested_at is None else requested_at, now, outcome))
            return outcome

    def gave_up(self, process: str) -> None:
        """Record that a client died: the outcome of its sends in flight is unknown."""
        with self._lock:
            values = [value for value, (owner, *_) in self._under_way.items() if owner == process]
            transactions = [txn for txn, (owner, _) in self._open.items() if owner == process]
        for value in values:
            self.sent(value, Outcome.INFO, None, "the client died")
        for txn in transactions:
            self.ended(txn, is_committed=False)

    def polled_messages(
        self, process: str, invoked: float, messages: list[Any], *,
        txn: int | None = None, read_committed: bool = True,
    ) -> None:  # fmt: skip
        """Record the records of one poll, and the transaction that processes them."""
        found: dict[str, tuple[array[int], array[int]]] = {}
        for message in messages:
            name = f"{message.topic()}-{message.partition()}"
            offsets, values = found.setdefault(name, (array("q"), array("q")))
            offsets.append(message.offset())
            values.append(self._content(message.value()))
        runs = tuple(Run(name, *columns) for name, columns in found.items())
        if runs:
            with self._lock:
                self.polled += sum(len(run.offsets) for run in runs)
            self.add(Poll(process, invoked, self.now(), runs, read_committed, txn))

    def assigned(
        self, process: str, starts: Mapping[str, int | None], dropped: tuple[str, ...] = (), *,
        group: str | None = None, requested_at: float | None = None,
    ) -> None:  # fmt: skip
        """Record a consumer's assignment with its start offsets, and the revoked partitions."""
        self.add(Assign(process, self.now() if requested_at is None else requested_at, dict(starts), dropped, group))

    def committed(self, process: str, group: str, invoked: float, offsets: Mapping[str, int], outcome: Outcome) -> None:
        self.add(Commit(process, group, invoked, self.now(), outcome, dict(offsets)))

    def read_to_the_end(self, process: str, ends: Mapping[str, int]) -> None:
        """Record that this process read everything up to these ends after all was settled."""
        self.add(FinalRead(process, dict(ends)))

    def add(self, event: Event) -> None:
        with self._lock:
            self._history.add(event)

    def acks(self) -> Acks:
        with self._lock:
            return Acks(self._history)

    def acknowledged_since(self, moment: float) -> list[Send]:
        """The acknowledged records that were sent after a moment: not those whose answer came late."""
        with self._lock:
            later = itertools.takewhile(lambda send: send.ended > moment, reversed(self._history.sends))
            return [send for send in later if send.outcome is Outcome.OK and send.invoked > moment]

    def first_ack_after(self, moment: float) -> float | None:
        """When the first record that was sent after a moment was acknowledged."""
        return min((send.ended for send in self.acknowledged_since(moment)), default=None)

    def history(self) -> History:
        """The complete history; sends in flight end with an unknown outcome."""
        with self._lock:
            left = [each[0] for each in self._under_way.values()] + [each[0] for each in self._open.values()]
        for process in dict.fromkeys(left):
            self.gave_up(process)
        with self._lock:
            self._history.sends.sort(key=lambda send: (send.invoked, send.value))
            return self._history
