"""JSON as lines that can be folded. Pure.

{                          every non-empty object and array has a line, its contents are indented
  "total": 12,             a folded one shows its size: "lines": [ … 3 ]
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from yak.plain_text import json_text

Kind = Literal["key", "text", "number", "word", "sign", "fold"]
"""The kind of a span: a name, a string, a number, true false null, punctuation, the size of a folded element."""
INDENT: Final = 2
MAX_DEPTH: Final = 200
"""Deeper elements are always folded. Python's own JSON fails not much deeper."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line in spans. `path` names the element that starts here, `.lines[0]`; `is_foldable` if it has contents."""

    path: str
    indent: int
    spans: tuple[tuple[str, Kind], ...]
    is_foldable: bool = False
    is_folded: bool = False

    @property
    def text(self) -> str:
        """The line as text."""
        return " " * self.indent + "".join(text for text, _ in self.spans)


def parse(data: bytes) -> tuple[bool, Any]:
    """Whether the bytes are JSON, and the parsed value. Only objects and arrays count as JSON."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False, None
    try:
        return True, json.loads(data)
    except (ValueError, RecursionError):
        return False, None


def lines(value: Any, folded: Collection[str] = frozenset()) -> Iterator[Line]:
    """The lines of a parsed value, without the contents of folded paths. Lazy: a caller may stop early."""
    yield from _lines(value, "", 0, (), "", folded)


def _lines(
    value: Any, path: str, depth: int, name: tuple[tuple[str, Kind], ...], comma: str, folded: Collection[str]
) -> Iterator[Line]:
    end: tuple[tuple[str, Kind], ...] = ((comma, "sign"),) if comma else ()
    indent = depth * INDENT
    if not isinstance(value, dict | list) or not value:
        yield Line(path, indent, (*name, _scalar(value), *end))
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if path in folded or depth >= MAX_DEPTH:
        held: tuple[tuple[str, Kind], ...] = ((opening, "sign"), (f" … {len(value)} ", "fold"), (closing, "sign"))
        yield Line(path, indent, (*name, *held, *end), is_foldable=depth < MAX_DEPTH, is_folded=True)
        return
    yield Line(path, indent, (*name, (opening, "sign")), is_foldable=True)
    last = len(value) - 1
    if isinstance(value, dict):
        for place, (key, each) in enumerate(value.items()):
            label: tuple[tuple[str, Kind], ...] = ((_quoted(key), "key"), (": ", "sign"))
            yield from _lines(each, f"{path}.{key}", depth + 1, label, "," if place < last else "", folded)
    else:
        for place, each in enumerate(value):
            yield from _lines(each, f"{path}[{place}]", depth + 1, (), "," if place < last else "", folded)
    yield Line(path, indent, ((closing, "sign"), *end))


def _scalar(value: Any) -> tuple[str, Kind]:
    if isinstance(value, str):
        return _quoted(value), "text"
    if isinstance(value, bool) or value is None:
        return json.dumps(value), "word"
    if isinstance(value, int | float):
        return json.dumps(value), "number"
    return ("{}" if isinstance(value, dict) else "[]"), "sign"


def _quoted(text: str) -> str:
    return json_text(json.dumps(text, ensure_ascii=False))
