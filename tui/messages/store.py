"""The records that are kept, bounded in number and in bytes, and which of them the filter lets through.

One thread writes (the reader's), another reads (the screen's): whatever the second can see changes under a lock that is held for microseconds.
Records that the filter hides stay as long as there is room, so that another filter finds them; they are the first to go. A new filter is
tried on everything in slices, and what is seen changes at once when it is through.
"""

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from yak.client.received import Received
from yak.tui.messages.kept import Kept, Packed, held_bytes, serial_of, unpack

MAX_ROWS: Final = 100_000
MAX_BYTES: Final = 64 << 20

Test = Callable[[Received], bool]


@dataclass(frozen=True, slots=True)
class Counts:
    """What is there. `dropped` were shown once and had to go, `left_out` were hidden by the filter and are not kept."""

    shown: int
    hidden: int
    held_bytes: int
    dropped: int
    left_out: int
    is_full: bool
    filtering: float | None
    """The share of the rows that a new filter has been tried on; None when it is through."""
    version: int
    """Grows whenever what is seen changes."""


@dataclass(slots=True)
class _Scan:
    """A new filter on its way through all rows."""

    test: Test | None
    rows: list[Packed]
    at: int = 0
    hidden_bytes: int = 0
    shown: deque[Packed] = field(default_factory=deque)
    hidden: deque[Packed] = field(default_factory=deque)


class Store:
    """See the module. With `is_ring` the oldest goes when there is no room; else `has_room` becomes false, and what is shown stays."""

    def __init__(self, *, max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES, is_ring: bool = False) -> None:
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self._is_ring = is_ring
        self._lock = threading.Lock()
        self._shown: deque[Packed] = deque()
        self._hidden: deque[Packed] = deque()
        self._shown_bytes = 0
        self._hidden_bytes = 0
        self._dropped = 0
        self._left_out = 0
        self._version = 0
        self._test: Test | None = None
        self._scan: _Scan | None = None

    # -- the reader's side ---------------------------------------------------------------------------------------------

    def add(self, shown: Sequence[Packed], hidden: Sequence[Packed] = ()) -> None:
        """Keep these, each in the order of its serials, already parted by the filter; not while a new one is tried (`is_scanning`)."""
        assert self._scan is None, "a new filter is still being tried"
        shown_bytes, hidden_bytes = _weight(shown), _weight(hidden)
        with self._lock:
            self._shown.extend(shown)
            self._hidden.extend(hidden)
            self._shown_bytes += shown_bytes
            self._hidden_bytes += hidden_bytes
            self._version += 1
            self._make_room(1.0)

    def _make_room(self, share: float) -> None:
        """Back under a share of the bounds: hidden rows go first, then, in a ring or when asked for less than all, the oldest.

        One row stays, however large it is.
        """
        rows, size = int(self.max_rows * share), self.max_bytes * share
        while self._hidden and self._is_over(rows, size):
            self._hidden_bytes -= held_bytes(self._hidden.popleft())
            self._left_out += 1
        if not self._is_ring and share == 1.0:
            return
        while len(self._shown) > 1 and self._is_over(rows, size):
            self._shown_bytes -= held_bytes(self._shown.popleft())
            self._dropped += 1

    def _is_over(self, rows: int, size: float) -> bool:
        return len(self._shown) + len(self._hidden) > rows or self._shown_bytes + self._hidden_bytes > size

    @property
    def has_room(self) -> bool:
        """Whether more may be read: always in a ring. Hidden rows make room for others."""
        return self._is_ring or (len(self._shown) < self.max_rows and self._shown_bytes < self.max_bytes)

    @property
    def test(self) -> Test | None:
        """What `add` is to be parted by."""
        return self._test

    @property
    def left_out(self) -> int:
        """How many were hidden and are not kept."""
        return self._left_out

    def forget_half(self) -> None:
        """Make room for as much again as there is, by giving up the older half."""
        with self._lock:
            self._make_room(0.5)
            self._version += 1

    def clear(self) -> None:
        """Give up everything, and the counts; the filter stays."""
        with self._lock:
            if self._scan is not None:
                self._test, self._scan = self._scan.test, None
            self._shown.clear()
            self._hidden.clear()
            self._shown_bytes = self._hidden_bytes = self._dropped = self._left_out = 0
            self._version += 1

    def begin_filter(self, test: Test | None) -> None:
        """Let only through what this holds for; it is tried by `scan` on what is there. None: everything."""
        rows = sorted([*self._shown, *self._hidden], key=serial_of) if self._hidden else list(self._shown)
        with self._lock:
            self._scan = _Scan(test, rows)
            self._version += 1
        if not rows:
            self.scan(1)

    @property
    def is_scanning(self) -> bool:
        """Whether a new filter is still being tried."""
        return self._scan is not None

    def scan(self, limit: int) -> None:
        """Try the new filter on so many rows more; after the last one it counts."""
        scan = self._scan
        if scan is None:
            return
        for record in islice(scan.rows, scan.at, scan.at + limit):
            if scan.test is None or scan.test(unpack(record)):
                scan.shown.append(record)
            else:
                scan.hidden.append(record)
                scan.hidden_bytes += held_bytes(record)
        scan.at += limit
        with self._lock:
            self._version += 1
            if scan.at >= len(scan.rows):
                self._test, self._shown, self._hidden, self._scan = scan.test, scan.shown, scan.hidden, None
                self._shown_bytes += self._hidden_bytes - scan.hidden_bytes
                self._hidden_bytes = scan.hidden_bytes

    # -- the screen's side ---------------------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """What is there now."""
        with self._lock:
            scan = self._scan
            return Counts(
                len(self._shown),
                len(self._hidden),
                self._shown_bytes + self._hidden_bytes,
                self._dropped,
                self._left_out,
                not self.has_room,
                None if scan is None else min(scan.at / max(len(scan.rows), 1), 1.0),
                self._version,
            )

    def __len__(self) -> int:
        return len(self._shown)

    def span(self) -> tuple[int, int]:
        """The first place, and the one after the last. A record keeps its place while older ones go, until the filter changes."""
        with self._lock:
            return self.first, self.first + len(self._shown)

    def at(self, place: int) -> Kept | None:
        """The shown record at a place; None when it is gone, or not there yet."""
        with self._lock:
            return self.peek(place)

    def place_of(self, serial: int) -> int | None:
        """Where a record is among those shown; None when it is not."""
        with self._lock:
            return None if self.with_serial(serial) is None else self.first + self.rank(serial)

    # for who holds `frozen`, which is how several stores are seen as one

    @property
    def first(self) -> int:
        """The place of the oldest that is shown."""
        return self._dropped

    def peek(self, place: int) -> Kept | None:
        """As `at`."""
        index = place - self.first
        return unpack(self._shown[index]) if 0 <= index < len(self._shown) else None

    def rank(self, serial: int) -> int:
        """How many of those shown now came before this serial."""
        return bisect_left(self._shown, serial, key=serial_of)

    def ends(self) -> tuple[int, int] | None:
        """The serials of the oldest and the newest that are shown; None when none is."""
        return (serial_of(self._shown[0]), serial_of(self._shown[-1])) if self._shown else None

    def with_serial(self, serial: int) -> Kept | None:
        """The shown record with this serial, if there is one."""
        index = self.rank(serial)
        if index == len(self._shown) or serial_of(self._shown[index]) != serial:
            return None
        return unpack(self._shown[index])

    def frozen(self) -> threading.Lock:
        """The lock: `with store.frozen():` nothing changes. For microseconds."""
        return self._lock

    def pieces(self, size: int) -> Iterator[list[Kept]]:
        """All that is shown now, oldest first, in pieces: for who must not hold the lock for long. What goes meanwhile is left out."""
        next_serial = -1
        while True:
            with self._lock:
                start = self.rank(next_serial)
                piece = list(islice(self._shown, start, start + size))
            if not piece:
                return
            yield [unpack(each) for each in piece]
            next_serial = serial_of(piece[-1]) + 1


def _weight(records: Sequence[Packed]) -> int:
    return sum(held_bytes(record) for record in records)
