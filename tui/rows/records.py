"""Records as table rows, made on demand. Pure, except for the store's lock."""

from collections.abc import Sequence
from typing import Final, Protocol

from yak.tui.look import Look
from yak.tui.messages.kept import Kept
from yak.tui.messages.views import View, cell_text
from yak.tui.rows.cells import Cell, Column, Row

KEY_CHARACTERS: Final = 32
SAME_DAY_MS: Final = 20 * 3_600_000
"""For older records a time of day alone would be ambiguous."""
CACHED_ROWS: Final = 512


class Records(Protocol):
    """Records by position: a Store, or several merged."""

    def span(self) -> tuple[int, int]:
        """The first position, and the one after the last."""

    def at(self, place: int) -> Kept | None:
        """The record there; None if it is gone."""

    def place_of(self, serial: int) -> int | None:
        """The position of a record."""


def record_columns(look: Look, *, with_topic: bool, is_narrow: bool = False) -> Sequence[Column]:
    """The columns. The topic only if there are several; in a narrow window less of the value."""
    zone = {"utc": "TIME (UTC)", "local": "TIME (LOCAL)", "relative": "AGE"}[look.zone]
    return (
        *((Column("TOPIC", least=5, most=24),) if with_topic else ()),
        Column("OFFSET", least=6, most=20, is_right=True),
        Column(zone, least=8, most=28, rank=2),
        Column("KEY", least=3, most=24, rank=1 if is_narrow else 0),
        Column("VALUE", least=16 if is_narrow else 34, most=120, flex=1),
        Column("HEADERS", least=7, most=28, rank=4),
        Column("SIZE", least=4, most=9, is_right=True, rank=3),
    )


class RecordRows:
    """A snapshot of records as rows; `freeze` takes the next snapshot.

    Rows are cached until their format changes.
    """

    def __init__(self) -> None:
        self._records: Records | None = None
        self._first = self._end = 0
        self._style: tuple[object, ...] = ()
        self._made: dict[int, Row] = {}
        self._look = Look()
        self._view: View = "auto"
        self._now_ms = 0
        self._with_topic = False

    def freeze(self, records: Records, look: Look, now_ms: int, *, view: View, with_topic: bool) -> None:
        """Take a snapshot of these records."""
        self._records = records
        self._first, self._end = records.span()
        self._look, self._view, self._now_ms, self._with_topic = look, view, now_ms, with_topic
        style = (look, view, with_topic, now_ms // 1000 if look.zone == "relative" else now_ms // 3_600_000)
        if style != self._style or len(self._made) > CACHED_ROWS:
            self._style = style
            self._made.clear()

    def __len__(self) -> int:
        return self._end - self._first

    def record_at(self, index: int) -> Kept | None:
        """The record of a row; None if it is gone since `freeze`."""
        return self._records.at(self._first + index) if self._records is not None else None

    def at(self, index: int) -> Row:
        """A row; an empty one if its record is gone since `freeze`."""
        record = self.record_at(index)
        if record is None:
            return Row("", tuple(Cell("") for _ in record_columns(self._look, with_topic=self._with_topic)))
        made = self._made.get(record.serial)
        if made is None:
            made = self._made[record.serial] = record_row(
                record, self._look, self._now_ms, view=self._view, with_topic=self._with_topic
            )
        return made

    def place_of(self, key: str) -> int | None:
        """The row of a record, by its serial as text."""
        if self._records is None or not key.isdigit():  # the key may be a topic, from the list of topics before
            return None
        place = self._records.place_of(int(key))
        return place - self._first if place is not None and self._first <= place < self._end else None


def record_row(record: Kept, look: Look, now_ms: int, *, view: View, with_topic: bool) -> Row:
    """One line."""
    is_null = record.value is None
    headers = ", ".join(f"{name}={cell_text(data, view, 24)}" for name, data in record.headers[:4])
    return Row(
        str(record.serial),
        (
            *((Cell(record.topic),) if with_topic else ()),
            Cell(f"{record.partition}@{record.offset}"),
            Cell(_time(record.timestamp_ms, look, now_ms), "dim"),
            Cell(cell_text(record.key, view, KEY_CHARACTERS), "dim" if record.key is None else "accent"),
            Cell(cell_text(record.value, view), "dim" if is_null else ""),
            Cell(cell_text(headers.encode(), "text", KEY_CHARACTERS) if headers else "", "dim"),
            Cell(look.size(record.payload_bytes), "dim"),
        ),
    )


def _time(timestamp_ms: int, look: Look, now_ms: int) -> str:
    if timestamp_ms < 0:
        return look.sign("none")
    if abs(now_ms - timestamp_ms) > SAME_DAY_MS:
        return look.day_and_time(timestamp_ms, now_ms)
    return look.time(timestamp_ms, now_ms, millis=True)
