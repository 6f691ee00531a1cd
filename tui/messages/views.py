"""Bytes as one line of text for a cell: text, JSON or hex. Pure.

Only the first few hundred bytes are decoded, whatever the size.
"""

import codecs
from typing import Final, Literal

from yak.plain_text import one_line

View = Literal["auto", "text", "hex"]
VIEWS: Final[tuple[View, ...]] = ("auto", "text", "hex")
"""`auto`: JSON on one line, other text with escaped line ends, binary data as hex."""
CELL_CHARACTERS: Final = 120
NULL: Final = "null"
_BYTES_LOOKED_AT: Final = 4 * CELL_CHARACTERS


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
    head = data[: min(_BYTES_LOOKED_AT, 4 * limit)]
    text = decoded(head)
    if text is None:
        if view == "auto":
            return _hex(data, limit)
        text = head.decode("utf-8", "replace")
    is_cut = len(head) < len(data)
    if view == "auto" and text[:1] in ("{", "["):
        text = _joined(text)
    return cut(one_line(text), limit, is_cut=is_cut)


def _joined(text: str) -> str:
    """Indented JSON on one line, without its indentation."""
    return " ".join(part.strip() for part in text.splitlines())


def _hex(data: bytes, limit: int) -> str:
    shown = data[: max(1, limit // 3)]
    return cut(f"⟨hex⟩ {shown.hex(' ')}", limit, is_cut=len(shown) < len(data))


def cut(text: str, limit: int, *, is_cut: bool = False) -> str:
    """At most `limit` characters, with `…` at the end if something is missing."""
    if len(text) > limit:
        return text[: limit - 1] + "…"
    return f"{text[: limit - 1]}…" if is_cut else text


def hex_dump(data: bytes, *, width: int = 16) -> list[str]:
    """The format of hexdump -C: `00000010  7b 22 74 6f 74 61 6c 22  3a 20 31 32 7d           |{"total": 12}|`."""
    lines = []
    half = width // 2
    for at in range(0, len(data), width):
        piece = data[at : at + width]
        left, right = piece[:half].hex(" "), piece[half:].hex(" ")
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{at:08x}  {left:<{half * 3 - 1}}  {right:<{half * 3 - 1}}  |{plain}|")
    return lines
