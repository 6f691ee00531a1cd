"""A bounded buffer of records (by number and bytes), which knows which of them match the filter.

A hundred thousand records are held as plain tuples, which become objects when they are read. Python's garbage collector
skips tuples of bytes, texts and numbers; walking through objects would stop everything for a tenth of a second.

The reader's thread writes, the screen's thread reads: visible state changes under a lock that is held for microseconds.
Hidden records stay while there is room, so that another filter can find them; they are dropped first. A new filter
tests all records in slices, and takes effect at once at the end. Several stores are displayed as one by bisection over the
serials, which all stores share: nothing is copied or sorted.
"""

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from sys import intern
from typing import Any, Final, TypeAlias

from yak.client.consumer import TIMESTAMP_TYPES, ConsumerRecord, headers_of

OVERHEAD_BYTES: Final = 340
"""Python's memory for a record beside its bytes: the tuple, two `bytes`, three numbers (measured: 325)."""
HEADER_BYTES: Final = 180

Packed: TypeAlias = tuple[
    str, int, int, int, str, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None, int
]
"""Topic, partition, offset, timestamp in ms, its type, key, value, headers, leader epoch, serial."""


@dataclass(slots=True)
class BufferedRecord(ConsumerRecord):
    """A record with its `serial`, which orders records by arrival: it only increases and is never reused."""

    serial: int = 0

    @property
    def id(self) -> str:
        """The record's position in the cluster: `orders-0@42`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def payload_bytes(self) -> int:
        """The size of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        for name, data in self.headers:
            size += len(name) + len(data or b"")
        return size


def pack(message: Any, serial: int) -> Packed:
    """Pack librdkafka's message, which holds its own copy of everything."""
    kind, timestamp_ms = message.timestamp()
    return (
        intern(message.topic()),
        message.partition(),
        message.offset(),
        timestamp_ms if kind else -1,
        TIMESTAMP_TYPES.get(kind, "NotAvailable"),
        message.key(),
        message.value(),
        tuple(headers_of(message)),
        message.leader_epoch(),
        serial,
    )


def unpack(of: Packed) -> BufferedRecord:
    """The record."""
    topic, partition, offset, timestamp_ms, kind, key, value, headers, epoch, serial = of
    return BufferedRecord(topic, partition, offset, timestamp_ms, kind, key, value, list(headers), epoch, serial)


def serial_of(of: Packed) -> int:
    """The record's serial."""
    return of[9]


def held_bytes(of: Packed) -> int:
    """Its approximate size in memory."""
    size = OVERHEAD_BYTES + len(of[5] or b"") + len(of[6] or b"")
    for name, data in of[7]:
        size += HEADER_BYTES + len(name) + len(data or b"")
    return size


MAX_ROWS: Final = 100_000
MAX_BYTES: Final = 64 << 20

Test = Callable[[ConsumerRecord], bool]


@dataclass(frozen=True, slots=True)
class Counts:
    """The buffer's counters.

    `dropped` were visible once; `left_out` were hidden by the filter and are no longer buffered.
    """

    visible: int
    hidden: int
    held_bytes: int
    dropped: int
    left_out: int
    filtering: float | None
    """The share of the rows that a new filter has tested; None if it is complete."""


@dataclass(slots=True)
class _Scan:
    """A new filter while it tests all rows."""

    test: Test | None
    rows: list[Packed]
    at: int = 0
    hidden_bytes: int = 0
    visible: deque[Packed] = field(default_factory=deque)
    hidden: deque[Packed] = field(default_factory=deque)


class Store:
    """See the module.

    A full ring drops its oldest record; without `is_ring`, `has_room` becomes false and visible records stay.
    """

    def __init__(self, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES, is_ring: bool = False) -> None:
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.test: Test | None = None
        """The filter by which records for `add` are split."""
        self.left_out = 0
        """The number of hidden records that were dropped."""
        self._is_ring = is_ring
        self._lock = threading.Lock()
        self._visible: deque[Packed] = deque()
        self._hidden: deque[Packed] = deque()
        self._visible_bytes = 0
        self._hidden_bytes = 0
        self._dropped = 0
        self._version = 0
        self._scan: _Scan | None = None

    # -- the reader's side ---------------------------------------------------------------------------------------------

    def add(self, visible: Sequence[Packed], hidden: Sequence[Packed] = ()) -> None:
        """Add records split by the filter, ordered by serial. Not while a new filter is tested (`is_scanning`)."""
        assert self._scan is None, "a new filter is still being tried"
        visible_bytes, hidden_bytes = _weight(visible), _weight(hidden)
        with self._lock:
            self._visible.extend(visible)
            self._hidden.extend(hidden)
            self._visible_bytes += visible_bytes
            self._hidden_bytes += hidden_bytes
            self._version += 1
            self._make_room(1.0)

    def _make_room(self, share: float) -> None:
        """Shrink to a share of the limits. Hidden rows go first, then the oldest: in a ring, or for a share below 1.

        At least one row stays, however large it is.
        """
        rows, size = int(self.max_rows * share), self.max_bytes * share
        while self._hidden and self._is_over(rows, size):
            self._hidden_bytes -= held_bytes(self._hidden.popleft())
            self.left_out += 1
        if not self._is_ring and share == 1.0:
            return
        while len(self._visible) > 1 and self._is_over(rows, size):
            self._visible_bytes -= held_bytes(self._visible.popleft())
            self._dropped += 1

    def _is_over(self, rows: int, size: float) -> bool:
        return len(self._visible) + len(self._hidden) > rows or self._visible_bytes + self._hidden_bytes > size

    @property
    def has_room(self) -> bool:
        """Whether more may be read: always in a ring. Hidden rows do not count, as they are dropped first."""
        return self._is_ring or (len(self._visible) < self.max_rows and self._visible_bytes < self.max_bytes)

    def forget_half(self) -> None:
        with self._lock:
            self._make_room(0.5)
            self._version += 1

    def clear(self) -> None:
        """Drop all records and reset the counters; the filter stays."""
        with self._lock:
            if self._scan is not None:
                self.test, self._scan = self._scan.test, None
            self._visible.clear()
            self._hidden.clear()
            self._visible_bytes = self._hidden_bytes = self._dropped = self.left_out = 0
            self._version += 1

    def begin_filter(self, test: Test | None) -> None:
        """Set a filter, None for all. `scan` tests the buffered records."""
        rows = sorted([*self._visible, *self._hidden], key=serial_of) if self._hidden else list(self._visible)
        with self._lock:
            self._scan = _Scan(test, rows)
            self._version += 1
        if not rows:
            self.scan(1)

    @property
    def is_scanning(self) -> bool:
        return self._scan is not None

    def scan(self, limit: int) -> None:
        """Test up to `limit` more rows; after the last one the filter takes effect."""
        scan = self._scan
        if scan is None:
            return
        for record in islice(scan.rows, scan.at, scan.at + limit):
            if scan.test is None or scan.test(unpack(record)):
                scan.visible.append(record)
            else:
                scan.hidden.append(record)
                scan.hidden_bytes += held_bytes(record)
        scan.at += limit
        with self._lock:
            self._version += 1
            if scan.at >= len(scan.rows):
                self.test, self._visible, self._hidden, self._scan = scan.test, scan.visible, scan.hidden, None
                self._visible_bytes += self._hidden_bytes - scan.hidden_bytes
                self._hidden_bytes = scan.hidden_bytes

    # -- the screen's side ---------------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        with self._lock:
            scan = self._scan
            return Counts(
                len(self._visible),
                len(self._hidden),
                self._visible_bytes + self._hidden_bytes,
                self._dropped,
                self.left_out,
                None if scan is None else min(scan.at / max(len(scan.rows), 1), 1.0),
            )

    @property
    def version(self) -> tuple[int, ...]:
        """Another one whenever the visible rows change."""
        return id(self), self._version

    def __len__(self) -> int:
        return len(self._visible)

    def span(self) -> tuple[int, int]:
        """The first position, and the one after the last.

        A record keeps its position while older ones are dropped, until the filter changes.
        """
        with self._lock:
            return self.first, self.first + len(self._visible)

    def at(self, place: int) -> BufferedRecord | None:
        """The visible record at a position; None if it is gone, or has not arrived."""
        with self._lock:
            return self.peek(place)

    def place_of(self, serial: int) -> int | None:
        """The position of a visible record; None if it is not visible."""
        with self._lock:
            return None if self.with_serial(serial) is None else self.first + self.rank(serial)

    # for callers that hold `frozen`, as the merged view does

    @property
    def first(self) -> int:
        """The position of the oldest visible record."""
        return self._dropped

    def peek(self, place: int) -> BufferedRecord | None:
        index = place - self.first
        return unpack(self._visible[index]) if 0 <= index < len(self._visible) else None

    def rank(self, serial: int) -> int:
        """The number of visible records before this serial."""
        return bisect_left(self._visible, serial, key=serial_of)

    def ends(self) -> tuple[int, int] | None:
        """The serials of the oldest and the newest visible record; None if there are none."""
        return (serial_of(self._visible[0]), serial_of(self._visible[-1])) if self._visible else None

    def with_serial(self, serial: int) -> BufferedRecord | None:
        index = self.rank(serial)
        if index == len(self._visible) or serial_of(self._visible[index]) != serial:
            return None
        return unpack(self._visible[index])

    def frozen(self) -> threading.Lock:
        """The lock: `with store.frozen():` nothing changes. Hold it for microseconds only."""
        return self._lock

    def pieces(self, size: int) -> Iterator[list[BufferedRecord]]:
        """All visible records, oldest first, in pieces, without holding the lock for long.

        Records dropped meanwhile are left out.
        """
        next_serial = -1
        while True:
            with self._lock:
                start = self.rank(next_serial)
                piece = list(islice(self._visible, start, start + size))
            if not piece:
                return
            yield [unpack(each) for each in piece]
            next_serial = serial_of(piece[-1]) + 1


def _weight(records: Sequence[Packed]) -> int:
    return sum(held_bytes(record) for record in records)


class MergedStore:
    """A view of stores, with the positions of a Store."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = tuple(stores)

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        with ExitStack() as locks:
            for store in self.stores:
                locks.enter_context(store.frozen())
            yield

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(number for store in self.stores for number in store.version)

    def span(self) -> tuple[int, int]:
        with self._frozen():
            first = self._first()
            return first, first + sum(len(store) for store in self.stores)

    def at(self, place: int) -> BufferedRecord | None:
        with self._frozen():
            index = place - self._first()
            ends = [each for store in self.stores if (each := store.ends()) is not None]
            if not ends or not 0 <= index < sum(len(store) for store in self.stores):
                return None
            low, high = min(oldest for oldest, _ in ends), max(newest for _, newest in ends)
            while low < high:
                middle = (low + high) // 2
                if sum(store.rank(middle + 1) for store in self.stores) > index:
                    high = middle
                else:
                    low = middle + 1
            return self._with_serial(low)

    def place_of(self, serial: int) -> int | None:
        with self._frozen():
            if self._with_serial(serial) is None:
                return None
            return self._first() + sum(store.rank(serial) for store in self.stores)

    def _first(self) -> int:
        return sum(store.first for store in self.stores)

    def _with_serial(self, serial: int) -> BufferedRecord | None:
        return next((found for store in self.stores if (found := store.with_serial(serial)) is not None), None)


Records: TypeAlias = Store | MergedStore
PIECE: Final = 500
BREATH_S: Final = 0.0005
"""The sleep after each piece of work in a thread, so that the interface's thread can run."""


def find(records: Records, start: int, step: int, holds: Callable[[BufferedRecord], bool]) -> BufferedRecord | None:
    """The first match after `start` in the direction of `step` (1 or -1), wrapping around; None if there is none."""
    first, end = records.span()
    count = end - first
    for tried in range(1, count + 1):
        if tried % PIECE == 0:
            time.sleep(BREATH_S)
        record = records.at(first + (start - first + step * tried) % count)
        if record is not None and holds(record):
            return record
    return None
