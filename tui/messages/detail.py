"""All details of one record, as lines for the pane beside the list. Pure.

Only the first 2 KiB of a large value are shown until the rest is requested: laying out megabytes takes time.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from yak.plain_text import lines, one_line
from yak.tui.look import Look
from yak.tui.messages import json_tree
from yak.tui.messages.kept import Kept
from yak.tui.messages.views import NULL, View, decoded, hex_dump
from yak.tui.rows.cells import Tone

BIG_BYTES: Final = 32 << 10
SHOWN_BYTES: Final = 2 << 10
_LABEL: Final = 11
_TONES: Final[dict[json_tree.Kind, Tone]] = {
    "key": "accent",
    "text": "good",
    "number": "warn",
    "word": "strong",
    "sign": "dim",
    "fold": "dim",
}


@dataclass(frozen=True, slots=True)
class DetailLine:
    """A line in spans. `path` names its foldable element; `load` is set if enter loads the rest."""

    spans: tuple[tuple[str, Tone], ...]
    path: str | None = None
    is_folded: bool = False
    load: bool = False

    @property
    def text(self) -> str:
        """The line without tones."""
        return "".join(text for text, _ in self.spans)


def detail_lines(
    record: Kept,
    look: Look,
    now_ms: int,
    *,
    view: View = "auto",
    folded: Collection[str] = frozenset(),
    is_whole: bool = False,
) -> list[DetailLine]:
    """The lines. `folded` has paths of the value's JSON; `is_whole` shows all of a large value."""
    lines = list(_facts(record, look, now_ms))
    lines += _part("key", record.key, view, look, frozenset(), is_whole=False)
    if record.headers:
        lines.append(_heading(f"headers ({len(record.headers)})"))
        for name, data in record.headers:
            lines += _header(name, data, view)
    return lines + list(_part("value", record.value, view, look, folded, is_whole=is_whole))


def _facts(record: Kept, look: Look, now_ms: int) -> Iterator[DetailLine]:
    yield _fact("topic", record.topic)
    yield _fact("partition", str(record.partition))
    yield _fact("offset", look.number(record.offset))
    if record.timestamp_ms >= 0:
        yield _fact("time", look.day_and_time(record.timestamp_ms, now_ms))
        yield _fact("", f"{record.timestamp_ms} ms, {record.timestamp_type}", "dim")
    else:
        yield _fact("time", "none", "dim")
    yield _fact("epoch", str(record.leader_epoch) if record.leader_epoch is not None else "not told")
    yield _fact("size", f"{look.size(record.payload_bytes)} ({_sizes(record, look)})")


def _sizes(record: Kept, look: Look) -> str:
    parts = [
        f"{name} {look.size(len(data)) if data is not None else NULL}"
        for name, data in (("key", record.key), ("value", record.value))
    ]
    if record.headers:
        size = sum(len(name) + len(data or b"") for name, data in record.headers)
        parts.append(f"headers {look.size(size)}")
    return ", ".join(parts)


def _fact(label: str, text: str, tone: Tone = "") -> DetailLine:
    return DetailLine(((f"{label:<{_LABEL}}", "dim"), (one_line(text), tone)))


def _heading(text: str) -> DetailLine:
    return DetailLine(((text, "strong"),))


def _header(name: str, data: bytes | None, view: View) -> Iterator[DetailLine]:
    label: tuple[tuple[str, Tone], ...] = (("  ", ""), (one_line(name), "accent"), (" = ", "dim"))
    if data is None:
        yield DetailLine((*label, (NULL, "dim")))
        return
    shown = data[:SHOWN_BYTES]
    text = decoded(shown)
    if text is None or view == "hex":
        yield DetailLine((*label, (f"⟨hex⟩ {shown.hex(' ')}", "")))
        return
    first, *others = _lines(text)
    yield DetailLine((*label, (first, "")))
    for line in others:
        yield DetailLine((("    ", ""), (line, "")))


def _part(
    what: str, data: bytes | None, view: View, look: Look, folded: Collection[str], *, is_whole: bool
) -> Iterator[DetailLine]:
    if data is None:
        yield DetailLine(((f"{what} ", "strong"), (NULL, "dim")))
        return
    if not data:
        yield DetailLine(((f"{what} ", "strong"), ("empty", "dim")))
        return
    is_cut = len(data) > BIG_BYTES and not is_whole
    shown = data[:SHOWN_BYTES] if is_cut else data
    is_json, document = (False, None) if view != "auto" or is_cut else json_tree.parse(data)
    text = None if view == "hex" or is_json else decoded(shown)
    form = "JSON" if is_json else "hex" if text is None else "text"
    yield DetailLine(((f"{what} ", "strong"), (f"{form}, {look.size(len(data))}", "dim")))
    if is_json:
        for line in json_tree.lines(document, folded):
            spans = ((" " * (line.indent + 2), ""), *((part, _TONES[kind]) for part, kind in line.spans))
            yield DetailLine(spans, line.path if line.is_foldable else None, line.is_folded)
    else:
        for shown_line in hex_dump(shown) if text is None else _lines(text):
            yield DetailLine((("  ", ""), (shown_line, "")))
    if is_cut:
        words = f"shown {look.size(len(shown))} of {look.size(len(data))}: enter loads all"
        yield DetailLine((("  ", ""), (words, "warn")), load=what == "value")


def _lines(text: str) -> list[str]:
    """Lines for the screen, with tabs as spaces."""
    return [line.expandtabs(4) for line in lines(text).split("\n")]
