"""Bytes as one line of text for a cell: text, JSON or hex, never more than a cell holds. Pure.

Only the first few hundred bytes are looked at, whatever the size. A record must not be able to drive the terminal: control characters, and
those that turn the direction of writing, are shown as escapes.
"""

import codecs
from typing import Final, Literal

View = Literal["auto", "text", "hex"]
VIEWS: Final[tuple[View, ...]] = ("auto", "text", "hex")
"""`auto`: JSON on one line, other text with its line ends as escapes, and what is no text as hex."""
CELL_CHARACTERS: Final = 120
NULL: Final = "null"
_BYTES_LOOKED_AT: Final = 4 * CELL_CHARACTERS
_TURNING: Final = [0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
_ESCAPES: Final = (
    {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]}
    | {10: "\\n", 13: "\\r", 9: "\\t", 27: "\\e"}
    | {code: f"\\u{code:04x}" for code in _TURNING}
    # Halves of a pair cannot be written at all.
    | {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
)
_WITHOUT_LINES: Final = {code: escape for code, escape in _ESCAPES.items() if code not in (9, 10, 13)}


def safe(text: str) -> str:
    """One line: everything that would move the cursor or turn the text as an escape."""
    return text.translate(_ESCAPES)


def safe_lines(text: str) -> list[str]:
    """Its lines, tabs as spaces, everything else that would move the cursor as an escape."""
    return [line.expandtabs(4).translate(_WITHOUT_LINES) for line in text.replace("\r\n", "\n").split("\n")]


def decoded(data: bytes) -> str | None:
    """The text, when these bytes, perhaps cut in the middle of a character, are UTF-8."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None


def cell_text(data: bytes | None, view: View = "auto", limit: int = CELL_CHARACTERS) -> str:
    """One line of at most `limit` characters; what is left out is marked by `…`."""
    if data is None:
        return NULL
    if view == "hex":
        return _hex(data, limit)
    head = data[: min(_BYTES_LOOKED_AT, 4 * limit)]
    text = decoded(head)
    if text is None:
        if view == "auto":
            return _hex(data, limit)
        text = head.decode("utf-8", "replace")
    is_cut = len(head) < len(data)
    if view == "auto" and text[:1] in ("{", "["):
        text = _joined(text)
    return cut(safe(text), limit, is_cut=is_cut)


def _joined(text: str) -> str:
    """Indented JSON on one line: what is between lines goes."""
    return " ".join(part.strip() for part in text.splitlines())


def _hex(data: bytes, limit: int) -> str:
    shown = data[: max(1, limit // 3)]
    return cut(f"⟨hex⟩ {shown.hex(' ')}", limit, is_cut=len(shown) < len(data))


def cut(text: str, limit: int, *, is_cut: bool = False) -> str:
    """At most `limit` characters, with `…` at the end where something is missing."""
    if len(text) > limit:
        return text[: limit - 1] + "…"
    return f"{text[: limit - 1]}…" if is_cut else text


def hex_dump(data: bytes, *, width: int = 16) -> list[str]:
    """As hexdump -C prints it: `00000010  7b 22 74 6f 74 61 6c 22  3a 20 31 32 7d           |{"total": 12}|`."""
    lines = []
    half = width // 2
    for at in range(0, len(data), width):
        piece = data[at : at + width]
        left, right = piece[:half].hex(" "), piece[half:].hex(" ")
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{at:08x}  {left:<{half * 3 - 1}}  {right:<{half * 3 - 1}}  |{plain}|")
    return lines
