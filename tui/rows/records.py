"""Records as table rows, made on demand, and the state of a reading as text.

Pure, except for the store's lock.
"""

from collections.abc import Sequence
from typing import Final

from yak.tui.formatter import Formatter
from yak.tui.messages.detail import View, cell_text
from yak.tui.messages.reader import Phase, Status
from yak.tui.messages.store import BufferedRecord, Counts, Records
from yak.tui.messages.subscription import Subscription
from yak.tui.rows.cells import Cell, Column, Row, Tone
from yak.tui.state.picture import Picture
from yak.view.formats import format_rate

KEY_CHARACTERS: Final = 32
CACHED_ROWS: Final = 512


def record_columns(fmt: Formatter, *, with_topic: bool, is_narrow: bool = False) -> Sequence[Column]:
    """The columns. The topic only if there are several; in a narrow window less of the value."""
    zone = {"utc": "TIME (UTC)", "local": "TIME (LOCAL)", "relative": "AGE"}[fmt.zone]
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
    """A snapshot of records as rows; `freeze` takes the next snapshot. Rows are cached until their format changes."""

    def __init__(self) -> None:
        self._records: Records | None = None
        self._first = self._end = 0
        self._style: tuple[object, ...] = ()
        self._made: dict[int, Row] = {}
        self._fmt = Formatter()
        self._view: View = "auto"
        self._now_ms = 0
        self._with_topic = False

    def freeze(self, records: Records, fmt: Formatter, now_ms: int, *, view: View, with_topic: bool) -> None:
        self._records = records
        self._first, self._end = records.span()
        self._fmt, self._view, self._now_ms, self._with_topic = fmt, view, now_ms, with_topic
        style = (fmt, view, with_topic, now_ms // 1000 if fmt.zone == "relative" else now_ms // 3_600_000)
        if style != self._style or len(self._made) > CACHED_ROWS:
            self._style = style
            self._made.clear()

    def __len__(self) -> int:
        return self._end - self._first

    def record_at(self, index: int) -> BufferedRecord | None:
        return self._records.at(self._first + index) if self._records is not None else None

    def at(self, index: int) -> Row:
        """A row; an empty one if its record is gone since `freeze`."""
        record = self.record_at(index)
        if record is None:
            return Row("", *(Cell("") for _ in record_columns(self._fmt, with_topic=self._with_topic)))
        made = self._made.get(record.serial)
        if made is None:
            made = self._made[record.serial] = record_row(
                record, self._fmt, self._now_ms, view=self._view, with_topic=self._with_topic
            )
        return made

    def place_of(self, key: str) -> int | None:
        """The row of a record, by its serial as text."""
        if self._records is None or not key.isdigit():  # the key may be a topic, from the list of topics before
            return None
        place = self._records.place_of(int(key))
        return place - self._first if place is not None and self._first <= place < self._end else None


def record_row(record: BufferedRecord, fmt: Formatter, now_ms: int, *, view: View, with_topic: bool) -> Row:
    """One line."""
    is_null = record.value is None
    headers = ", ".join(f"{name}={cell_text(data, view, 24)}" for name, data in record.headers[:4])
    return Row(
        str(record.serial),
        *((Cell(record.topic),) if with_topic else ()),
        Cell(f"{record.partition}@{record.offset}"),
        Cell(fmt.moment(record.timestamp_ms if record.timestamp_ms >= 0 else None, now_ms), "dim"),
        Cell(cell_text(record.key, view, KEY_CHARACTERS), "dim" if record.key is None else "accent"),
        Cell(cell_text(record.value, view), "dim" if is_null else ""),
        Cell(cell_text(headers.encode(), "text", KEY_CHARACTERS) if headers else "", "dim"),
        Cell(fmt.size(record.payload_bytes), "dim"),
    )


TOPIC_CHOICE_COLUMNS: Final = (
    Column("TOPIC", least=8, most=60, flex=1),
    Column("PARTITIONS", least=5, is_right=True),
    Column("END OFFSETS", least=5, is_right=True),
    Column("IN", least=5, is_right=True),
)
BEHIND_WORTH_SAYING: Final = 100
"""In records; a smaller lag is normal."""
_PHASES: Final[dict[Phase, tuple[str, Tone, str]]] = {
    "opening": ("unknown", "dim", "opening"),
    "joining": ("unknown", "dim", "joining the group"),
    "reading": ("up", "good", "reading"),
    "paused": ("paused", "warn", "paused"),
    "full": ("warn", "warn", "full"),
    "done": ("good", "good", "all read"),
    "waiting": ("warn", "warn", "waiting for the cluster"),
    "failed": ("bad", "bad", "stopped"),
    "closed": ("down", "dim", "closed"),
}


def status_cells(status: Status, counts: Counts, wanted: Subscription, filter_text: str, fmt: Formatter) -> list[Cell]:
    """The cells of the status line, most important first: a narrow window cuts the end."""
    cells = [phase_cell(status, wanted, fmt)]
    if status.phase == "full":
        cells.append(Cell("m reads on, without the older half", "accent"))
    if status.phase == "reading" and (wanted.is_tail or status.rate):
        cells.append(rate_cell(status, fmt))
    cells += _count_cells(status, counts, filter_text, fmt)
    if status.behind is not None and status.behind > max(BEHIND_WORTH_SAYING, status.rate):
        cells.append(Cell(f"behind {fmt.number(status.behind)}", "warn"))
    if counts.dropped:
        cells.append(Cell(f"{fmt.number(counts.dropped)} older dropped", "dim"))
    if counts.left_out:
        cells.append(Cell(f"{fmt.number(counts.left_out)} hidden not kept", "dim"))
    return cells


def phase_cell(status: Status, wanted: Subscription, fmt: Formatter) -> Cell:
    """The phase as a sign and a word."""
    sign, tone, word = _PHASES[status.phase]
    if status.phase == "reading":
        if wanted.is_tail:
            word = "following"
        elif status.behind == 0:
            word = "at the end"
    return Cell(f"{fmt.sign(sign)} {word}", tone)


def rate_cell(status: Status, fmt: Formatter) -> Cell:
    """`9 842/s`, or `showing 1 of 20, 9 842/s`."""
    rate = f"{fmt.number(status.rate)}/s"
    return Cell(f"showing 1 of {fmt.number(status.every)}, {rate}", "warn") if status.every > 1 else Cell(rate)


def _count_cells(status: Status, counts: Counts, filter_text: str, fmt: Formatter) -> list[Cell]:
    if counts.filtering is not None:
        return [Cell(f"filtering {counts.filtering:.0%}", "accent")]
    if filter_text:
        return [
            Cell(f"/{filter_text}", "accent"),
            Cell(f"{fmt.number(counts.visible)} match, {fmt.number(status.scanned)} scanned"),
        ]
    if status.read == counts.visible or status.every > 1 or counts.dropped:
        return [Cell(f"{fmt.number(status.read)} read")]
    return [Cell(f"{fmt.number(counts.visible)} of {fmt.number(status.read)} read")]


def empty_text(status: Status, counts: Counts, wanted: Subscription, filter_text: str, fmt: Formatter) -> str:
    """Why no record is shown, and which key helps."""
    if status.error is not None:
        error = status.error
        lines = [error.message + (f": {error.why}" if error.why else ".")]
        if status.phase == "waiting":
            lines.append("It is retried every second.")
        else:
            lines += [f"Try {each}" for each in error.try_[:2]]
            lines.append("o reads something else.")
        return "\n".join(lines)
    notes = "\n".join(status.notes[-2:])
    if status.phase == "opening":
        return f"Opening {wanted.title} ..."
    if status.phase == "joining":
        return f"Waiting for the assignment from group {wanted.group} ...\n{notes}".strip()
    if counts.filtering is not None:
        return "Filtering ..."
    if filter_text:
        return f"No record matches {filter_text}. {fmt.number(status.scanned)} scanned. esc clears the filter."
    return f"{_nothing(status, wanted)}\n{notes}".strip()


def _nothing(status: Status, wanted: Subscription) -> str:
    title = wanted.title
    if wanted.group:
        return f"No new records in {title} for group {wanted.group}. New ones appear here."
    if wanted.is_tail:
        return f"No record in {title} yet. New ones appear here. p sends one; o reads from the beginning."
    if status.phase == "done" or status.behind == 0:
        return f"No record in {title}, {wanted.seek.description}. o goes elsewhere; p sends one."
    return f"Reading {title} ..."


def tile_status(
    status: Status, counts: Counts, wanted: Subscription, filter_text: str, fmt: Formatter, width: int
) -> str:
    """A short status for the edge of a tile: the parts that fit, most important first."""
    parts = [phase_cell(status, wanted, fmt).text]
    if status.every > 1:
        parts.append(f"1 of {status.every}")
    if status.behind is not None:
        parts.append(f"lag {fmt.number(status.behind)}")
    if status.uncommitted:
        parts.append(f"{fmt.number(status.uncommitted)} uncommitted")
    if filter_text:
        parts.append(f"/{filter_text}")
    if status.phase == "reading":
        parts.append(format_rate(status.rate))
    if filter_text:
        parts.append(f"{fmt.number(counts.visible)} match")
    elif status.read:
        parts.append(f"{fmt.number(status.read)} read")
    return fitting(parts, width)


def tile_title(letter: str, wanted: Subscription, width: int) -> str:
    """The title of a tile: `A orders  group audit`."""
    parts = [f"{letter} {wanted.title}", f"group {wanted.group}" if wanted.group else "no group"]
    if not wanted.group:
        parts.append(str(wanted.seek))
    return fitting(parts, width)


def fitting(parts: Sequence[str], width: int) -> str:
    """The whole parts that fit; always the first."""
    text = parts[0]
    for part in parts[1:]:
        if len(text) + 2 + len(part) > width:
            continue
        text += f"  {part}"
    return text


def topic_choice_rows(picture: Picture, fmt: Formatter) -> list[Row]:
    """Topics to choose from, internal ones last."""
    return [
        Row(
            topic,
            Cell(topic, "dim" if topic.startswith("__") else ""),
            Cell(fmt.number(len(partitions))),
            Cell(fmt.number(sum(each.high_watermark or 0 for each in partitions))),
            Cell(fmt.rate(sum(each.rate_in for each in partitions))),
        )
        for topic, partitions in sorted(picture.topics.items(), key=lambda each: (each[0].startswith("__"), each[0]))
    ]
