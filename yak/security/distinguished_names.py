"""The distinguished name of a certificate as text, as Java's `X500Principal.getName()` writes it (RFC 2253).

Kafka's principals and mapping rules are written for that form: the last attribute of the certificate comes first, and
an attribute without a keyword in RFC 2253 is its number with the value in hexadecimal.
"""

from collections.abc import Iterator
from typing import Final

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_ID: Final = 0x06
_ENCODINGS: Final = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}
"""ASN.1's string types in names: UTF8, Printable, Teletex, IA5, Universal, BMP."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""RFC 2253, section 2.3."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def rfc2253(name: bytes) -> str:
    """The text of a DER-encoded name. Raises ValueError for bytes that are no name."""
    tag, content, _ = _element(name, 0)
    if tag != _SEQUENCE:
        raise ValueError("a name is a sequence")
    return ",".join("+".join(_attributes(part)) for _, part, _ in reversed(list(_elements(content))))


def _attributes(relative_name: bytes) -> Iterator[str]:
    for _, attribute, _ in _elements(relative_name):
        parts = list(_elements(attribute))
        if len(parts) != 2 or parts[0][0] != _OBJECT_ID:
            raise ValueError("an attribute is an identifier and a value")
        number = _object_id(parts[0][1])
        tag, value, encoded = parts[1]
        keyword = _KEYWORDS.get(number)
        if keyword is None or tag not in _ENCODINGS:
            yield f"{keyword or number}=#{encoded.hex()}"
        else:
            yield f"{keyword}={_escaped(value.decode(_ENCODINGS[tag]))}"


def _escaped(text: str) -> str:
    start = len(text) - len(text.lstrip(" "))
    end = len(text.rstrip(" "))
    found = []
    for index, character in enumerate(text):
        if character == "\0":
            found.append("\\00")
        elif character in _ESCAPED or (character == " " and not start <= index < end):
            found.append(f"\\{character}")
        else:
            found.append(character)
    return "".join(found)


def _object_id(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an identifier has a number")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, whole encoding) of each element."""
    at = 0
    while at < len(content):
        tag, inner, end = _element(content, at)
        yield tag, inner, content[at:end]
        at = end


def _element(data: bytes, at: int) -> tuple[int, bytes, int]:
    """Tag, content and end of the DER element at a position."""
    try:
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[at : at + size], "big")
            at += size
    except IndexError:
        raise ValueError("the name ends early") from None
    if at + length > len(data):
        raise ValueError("the name ends early")
    return tag, data[at : at + length], at + length
