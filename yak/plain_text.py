"""Text that came from a client, made harmless for a terminal, a log and a spreadsheet: the one place that does it.

A group id, a client id or an error message of a broker may hold anything. Escape sequences (ESC, and C1 such as U+009B)
drive the terminal, line ends forge lines, and bidirectional overrides (U+202E) turn what is read. All of them are shown
as escapes; text without them is the same object.
"""

import json
import re
from typing import Final

_NAMED: Final = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_CONTROLS: Final = [*range(0x20), *range(0x7F, 0xA0)]
_TURNING: Final = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Marks, embeddings, overrides and isolates of the Unicode bidirectional algorithm (UAX 9)."""
_UNSEEN: Final = [0x00AD, 0x180E, 0x200B, 0x2028, 0x2029, *range(0x2060, 0x2065), *range(0x206A, 0x2070), 0xFEFF]
_TAGS: Final = [*range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080)]
_SURROGATES: Final = range(0xD800, 0xE000)
"""Halves of a pair, which no encoding can write."""


class _Escapes(dict[int, str]):
    """A table for `str.translate`. The 2,048 surrogates are computed when asked for, since every command loads this."""

    def __missing__(self, code: int) -> str:
        if code in _SURROGATES:
            return f"\\u{code:04x}"
        raise LookupError(code)


_ESCAPES: Final = _Escapes({code: f"\\x{code:02x}" for code in _CONTROLS} | _NAMED | {
    code: f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in (*_TURNING, *_UNSEEN, *_TAGS)
})  # fmt: skip
_WITHOUT_TABS: Final = _Escapes({code: words for code, words in _ESCAPES.items() if code != 0x09})
_WITHOUT_LINES: Final = _Escapes({code: words for code, words in _WITHOUT_TABS.items() if code != 0x0A})
_IN_JSON: Final = _Escapes({code: json.dumps(chr(code))[1:-1] for code in _ESCAPES if code >= 0x7F})

_HIDDEN_IN_JSON: Final = re.compile(f"[{''.join(map(chr, _IN_JSON))}\ud800-\udfff]")

_RUN_BY_SPREADSHEETS: Final = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?%?")


def one_line(text: str) -> str:
    """The text as one line: whatever moves the cursor, drives the terminal or turns the writing as an escape."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def one_line_with_tabs(text: str) -> str:
    """`one_line`, except that tabs stay: they are what separates fields."""
    return text if text.isprintable() else text.translate(_WITHOUT_TABS)


def lines(text: str) -> str:
    """The text with its tabs and line ends (CRLF as LF), everything else as in `one_line`."""
    return text if text.isprintable() else text.replace("\r\n", "\n").translate(_WITHOUT_LINES)


def bytes_as_lines(data: bytes) -> str:
    """`lines` of bytes; those that are not UTF-8 as `\\xNN`."""
    return lines(data.decode("utf-8", "backslashreplace"))


def json_text(document: str) -> str:
    """A JSON document with the same content, in which such characters are written as \\uNNNN; C0 must be so already."""
    return document.translate(_IN_JSON) if _HIDDEN_IN_JSON.search(document) else document


def is_plain(text: str) -> bool:
    """Whether `lines` would change nothing."""
    return lines(text) == text


def spreadsheet_cell(text: str) -> str:
    """A cell that a spreadsheet shows and does not run: behind an apostrophe where it begins as a formula does.

    Numbers stay as they are (OWASP, "CSV Injection").
    """
    return f"'{text}" if text.startswith(_RUN_BY_SPREADSHEETS) and not _NUMBER.fullmatch(text) else text
