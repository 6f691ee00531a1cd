"""A record as text: one line for a cell, or all details as lines for the pane beside the list. Pure.

Only the first few hundred bytes are decoded for a cell, and the first 2 KiB of a large value for the pane until the
rest is requested: laying out megabytes takes time.
"""

import codecs
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rich.cells import cell_len, get_character_cell_size

from yak.plain_text import json_text, lines, one_line
from yak.tui.formatter import Formatter
from yak.tui.messages.store import BufferedRecord
from yak.tui.rows.cells import Tone

View = Literal["auto", "text", "hex"]
VIEWS: Final[tuple[View, ...]] = ("auto", "text", "hex")
"""`auto`: JSON on one line, other text with escaped line ends, binary data as hex."""
CELL_CHARACTERS: Final = 120
NULL: Final = "null"
_CELL_BYTES: Final = 4 * CELL_CHARACTERS


def decoded(data: bytes) -> str | None:
    """The text if the bytes are UTF-8, possibly cut within a character."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def cell_text(data: bytes | None, view: View = "auto", limit: int = CELL_CHARACTERS) -> str:
    """One line of at most `limit` characters; a cut is marked by `…`."""
    if data is None:
        return NULL
    if view == "hex":
        return _hex(data, limit)
    head = data[: min(_CELL_BYTES, 4 * limit)]
    text = decoded(head)
    if text is None:
        if view == "auto":
            return _hex(data, limit)
        text = head.decode("utf-8", "replace")
    is_cut = len(head) < len(data)
    if view == "auto" and text[:1] in ("{", "["):
        text = " ".join(part.strip() for part in text.splitlines())  # indented JSON
    return cut(one_line(text), limit, is_cut=is_cut)


def _hex(data: bytes, limit: int) -> str:
    head = data[: max(1, limit // 3)]
    return cut(f"⟨hex⟩ {head.hex(' ')}", limit, is_cut=len(head) < len(data))


def cut(text: str, limit: int, *, is_cut: bool = False) -> str:
    """At most `limit` characters, with `…` at the end if something is missing."""
    if len(text) > limit:
        return text[: limit - 1] + "…"
    return f"{text[: limit - 1]}…" if is_cut else text


def hex_dump(data: bytes, width: int = 80) -> list[str]:
    """The format of hexdump -C: `00000010  7b 22 74 6f 74 61 6c 22  3a 20 31 32 7d           |{"total": 12}|`.

    Lines of 16 bytes have 78 columns; a smaller width gets lines of 8 bytes, of 45 columns, which are not wrapped.
    """
    lines = []
    count = 16 if width >= 78 else 8
    for at in range(0, len(data), count):
        piece = data[at : at + count]
        halves = [f"{piece[start : start + 8].hex(' '):<23}" for start in range(0, count, 8)]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append("  ".join((f"{at:08x}", *halves, f"|{plain}|")))
    return lines


Span = tuple[str, Tone]
INDENT: Final = 2
MAX_DEPTH: Final = 200
"""Deeper elements are always folded. Python's own JSON fails not much deeper."""


@dataclass(frozen=True, slots=True)
class DetailLine:
    """A line in spans. `path` names its foldable element, `.1.0`; `load` is set if enter loads the rest.

    A path has positions in place of names: each line has one, and a name may have megabytes.
    """

    spans: tuple[Span, ...]
    path: str | None = None
    load: bool = False

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def parse_json(data: bytes) -> tuple[bool, Any]:
    """Whether the bytes are JSON, and the parsed value. Only objects and arrays count as JSON."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False, None
    try:
        return True, json.loads(data)
    except (ValueError, RecursionError):
        return False, None


def json_lines(
    value: Any,
    folded: Collection[str] = frozenset(),
    path: str = "",
    depth: int = 0,
    name: tuple[Span, ...] = (),
    comma: tuple[Span, ...] = (),
) -> Iterator[DetailLine]:
    """The lines of a parsed value, without the contents of folded paths. Lazy: a caller may stop early."""
    indent: Span = (" " * INDENT * (depth + 1), "")
    if not isinstance(value, dict | list) or not value:
        yield DetailLine((indent, *name, _scalar(value), *comma))
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if path in folded or depth >= MAX_DEPTH:
        short: tuple[Span, ...] = ((opening, "dim"), (f" … {len(value)} ", "dim"), (closing, "dim"))
        yield DetailLine((indent, *name, *short, *comma), path if depth < MAX_DEPTH else None)
        return
    yield DetailLine((indent, *name, (opening, "dim")), path)
    last = len(value) - 1
    for place, each in enumerate(value):
        label: tuple[Span, ...] = ((_quoted(each), "accent"), (": ", "dim")) if isinstance(value, dict) else ()
        inner = value[each] if isinstance(value, dict) else each
        between: tuple[Span, ...] = ((",", "dim"),) if place < last else ()
        yield from json_lines(inner, folded, f"{path}.{place}", depth + 1, label, between)
    yield DetailLine((indent, (closing, "dim"), *comma))


def _scalar(value: Any) -> Span:
    if isinstance(value, str):
        return _quoted(value), "good"
    if isinstance(value, bool) or value is None:
        return json.dumps(value), "strong"
    if isinstance(value, int | float):
        return json.dumps(value), "warn"
    return ("{}" if isinstance(value, dict) else "[]"), "dim"


def _quoted(text: str) -> str:
    return json_text(json.dumps(text, ensure_ascii=False))


BIG_BYTES: Final = 32 << 10
PREVIEW_BYTES: Final = 2 << 10
_LABEL: Final = 11


def detail_lines(
    record: BufferedRecord,
    fmt: Formatter,
    now_ms: int,
    *,
    view: View = "auto",
    folded: Collection[str] = frozenset(),
    is_whole: bool = False,
    is_low: bool = False,
    width: int = 80,
) -> list[DetailLine]:
    """The lines. `folded` has paths of the value's JSON; `is_whole` shows all of a large record; `width` fits hex to it.

    With `is_low`, for a low window, facts beside time and size follow the value, so that the value is in sight.
    """
    facts = list(_facts(record, fmt, now_ms))
    if is_low:
        first = [line for line in facts if line.text.startswith(("time", "size"))]
        facts, later = first, [line for line in facts if line not in first]
    else:
        later = []
    lines = facts
    lines += _part("key", record.key, view, fmt, frozenset(), width, is_whole=is_whole)
    if record.headers:
        lines.append(DetailLine(((f"headers ({len(record.headers)})", "strong"),)))
        for name, data in record.headers:
            lines += _header(name, data, view, fmt, is_whole=is_whole)
    return [*lines, *_part("value", record.value, view, fmt, folded, width, is_whole=is_whole), *later]


def _facts(record: BufferedRecord, fmt: Formatter, now_ms: int) -> Iterator[DetailLine]:
    yield _fact("topic", record.topic)
    yield _fact("partition", str(record.partition))
    yield _fact("offset", fmt.number(record.offset))
    if record.timestamp_ms >= 0:
        yield _fact("time", fmt.day_and_time(record.timestamp_ms, now_ms))
        yield _fact("", f"{record.timestamp_ms} ms, {record.timestamp_type}", "dim")
    else:
        yield _fact("time", "none", "dim")
    yield _fact("epoch", str(record.leader_epoch) if record.leader_epoch is not None else "unknown")
    yield _fact("size", f"{fmt.size(record.payload_bytes)} ({_sizes(record, fmt)})")


def _sizes(record: BufferedRecord, fmt: Formatter) -> str:
    parts = [
        f"{name} {fmt.size(len(data)) if data is not None else NULL}"
        for name, data in (("key", record.key), ("value", record.value))
    ]
    if record.headers:
        size = sum(len(name) + len(data or b"") for name, data in record.headers)
        parts.append(f"headers {fmt.size(size)}")
    return ", ".join(parts)


def _fact(label: str, text: str, tone: Tone = "") -> DetailLine:
    return DetailLine(((f"{label:<{_LABEL}}", "dim"), (one_line(text), tone)))


def _header(name: str, data: bytes | None, view: View, fmt: Formatter, *, is_whole: bool) -> Iterator[DetailLine]:
    label: tuple[Span, ...] = (("  ", ""), (one_line(name), "accent"), (" = ", "dim"))
    if data is None:
        yield DetailLine((*label, (NULL, "dim")))
        return
    head = data if is_whole else data[:PREVIEW_BYTES]
    text = decoded(head)
    first, *others = [f"⟨hex⟩ {head.hex(' ')}"] if text is None or view == "hex" else _lines(text)
    yield DetailLine((*label, (first, "")))
    for line in others:
        yield DetailLine((("    ", ""), (line, "")))
    yield from _rest(head, data, fmt)


def _rest(head: bytes, data: bytes, fmt: Formatter) -> Iterator[DetailLine]:
    """The line by which enter loads what is not shown."""
    if len(head) < len(data):
        note = f"shown {fmt.size(len(head))} of {fmt.size(len(data))}: enter loads all"
        yield DetailLine((("  ", ""), (note, "warn")), load=True)


def _part(
    what: str, data: bytes | None, view: View, fmt: Formatter, folded: Collection[str], width: int, *, is_whole: bool
) -> Iterator[DetailLine]:
    if data is None:
        yield DetailLine(((f"{what} ", "strong"), (NULL, "dim")))
        return
    if not data:
        yield DetailLine(((f"{what} ", "strong"), ("empty", "dim")))
        return
    is_cut = len(data) > BIG_BYTES and not is_whole
    head = data[:PREVIEW_BYTES] if is_cut else data
    is_json, document = (False, None) if view != "auto" or is_cut else parse_json(data)
    text = None if view == "hex" or is_json else decoded(head)
    form = "JSON" if is_json else "hex" if text is None else "text"
    yield DetailLine(((f"{what} ", "strong"), (f"{form}, {fmt.size(len(data))}", "dim")))
    if is_json:
        yield from json_lines(document, folded)
    else:
        for text_line in hex_dump(head, width - INDENT) if text is None else _lines(text):
            yield DetailLine((("  ", ""), (text_line, "")))
    yield from _rest(head, data, fmt)


def _lines(text: str) -> list[str]:
    """Lines for the screen, with tabs as spaces."""
    return [line.expandtabs(4) for line in lines(text).split("\n")]


HANGING = 2
"""The indentation of a wrapped line's rest."""


def wrapped(lines: Iterable[DetailLine], width: int) -> Iterator[DetailLine]:
    """Lines of at most `width` cells. The rest of a wrapped line has the same path."""
    for line in lines:
        if sum(cell_len(text) for text, _ in line.spans) <= width:
            yield line
        else:
            yield from _broken(line, max(width, HANGING + 2))


def _broken(line: DetailLine, width: int) -> Iterator[DetailLine]:
    indent = len(line.text) - len(line.text.lstrip(" "))
    hanging = " " * min(indent + HANGING, width // 2)
    row: list[Span] = []
    room = width
    for text, tone in line.spans:
        rest = text
        while rest:
            head, rest = _split(rest, room)
            if head:
                row.append((head, tone))
                room -= cell_len(head)
            if rest:
                yield replace(line, spans=tuple(row))
                row, room = [(hanging, "")], width - len(hanging)
    if row:
        yield replace(line, spans=tuple(row))


def _split(text: str, width: int) -> tuple[str, str]:
    """The part that fits, and the rest."""
    if text.isascii():
        return text[:width], text[width:]
    used = 0
    for place, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > width:
            return text[:place], text[place:]
    return text, ""
