"""The fields of templates: their names, arguments and values.

One table, `FIELDS`, serves the parser, the errors and the help. A field gets its values from `Moment`: the caller
supplies the count, the random source and the time, so the same seed gives the same records.
"""

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from yak.client.templates.words import NAMES, WORDS

TEXT_LENGTH_MAX: Final = 1_000_000
"""Characters of one `{{text}}` or `{{hex}}`: as much as a broker accepts in one record by default."""

WHOLE_MAX: Final = 2**63 - 1


class BadField(Exception):
    """An error in a field; the parser adds its position."""


@dataclass(slots=True)
class Moment:
    """The inputs of one record: its number from 0, the random source, the time, and the values kept by name so far."""

    i: int
    rng: random.Random
    now_ms: int
    kept: dict[str, str] = field(default_factory=dict)


Fill = Callable[[Moment], str]


@dataclass(frozen=True, slots=True)
class FieldKind:
    """One field: its syntax, its description, and `make(arguments, format)`, which raises BadField."""

    name: str
    form: str
    becomes: str
    make: Callable[[list[str], str], Fill]
    has_format: bool = False


def _counter(arguments: list[str], spec: str) -> Fill:
    _at_most(arguments, 2, "{{i}}, {{i 1000}} or {{i 1000 10}}")
    start = _whole(arguments[0], "the start") if arguments else 0
    step = _whole(arguments[1], "the step") if len(arguments) > 1 else 1
    width = _width(spec)
    return lambda moment: f"{start + moment.i * step:{width}d}"


def _int(arguments: list[str], spec: str) -> Fill:
    low, high = _two(arguments, "{{int 1 100}}")
    first, last = _whole(low, "the least"), _whole(high, "the most")
    if first > last:
        raise BadField(f"{first} is more than {last}: the least comes first")
    width = _width(spec)
    return lambda moment: f"{moment.rng.randint(first, last):{width}d}"


def _float(arguments: list[str], spec: str) -> Fill:
    low, high = _two(arguments, "{{float 0 1}}")
    first, last = _number(low), _number(high)
    if first > last:
        raise BadField(f"{low} is more than {high}: the least comes first")
    digits = _decimals(spec)
    return lambda moment: f"{moment.rng.uniform(first, last):.{digits}f}"


def _choice(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    if not arguments:
        raise BadField("nothing to choose from: {{choice red green blue}}")
    return lambda moment: moment.rng.choice(arguments)


def _uuid(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _none(arguments)
    return lambda moment: str(uuid.UUID(int=moment.rng.getrandbits(128), version=4))


def _now(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _at_most(arguments, 1, "{{now}}, {{now ms}} or {{now s}}")
    unit = arguments[0] if arguments else "iso"
    forms: Mapping[str, Fill] = {
        "iso": lambda moment: _iso(moment.now_ms),
        "ms": lambda moment: str(moment.now_ms),
        "s": lambda moment: str(moment.now_ms // 1000),
    }
    if unit not in forms:
        raise BadField(
            f'"{unit}" is no form of time: {{{{now}}}} is ISO 8601, {{{{now ms}}}} and {{{{now s}}}} are epochs'
        )
    return forms[unit]


def _name(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _none(arguments)
    return lambda moment: moment.rng.choice(NAMES)


def _text(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    length = _length(arguments, "{{text 20}}")
    return lambda moment: _words(moment.rng, length)


def _hex(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    length = _length(arguments, "{{hex 16}}")
    return lambda moment: f"{moment.rng.getrandbits(4 * length):0{length}x}"


def _bool(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _none(arguments)
    return lambda moment: moment.rng.choice(("true", "false"))


def _ip(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _none(arguments)
    return lambda moment: "10." + ".".join(str(moment.rng.randint(1, 254)) for _ in range(3))


def _open(arguments: list[str], spec: str) -> Fill:
    _no_format(spec)
    _none(arguments)
    return lambda _moment: "{{"


FIELDS: Final[dict[str, FieldKind]] = {
    kind.name: kind
    for kind in (
        FieldKind(
            "i",
            "{{i}}  {{i:05}}  {{i 1000 10}}",
            "the number from 0; padded; from 1000 by 10",
            _counter,
            has_format=True,
        ),
        FieldKind("int", "{{int 1 100}}", "a whole number, both ends included", _int, has_format=True),
        FieldKind(
            "float",
            "{{float 0 1}}  {{float 0 9:.2}}",
            "with 3 decimals, or as many as said",
            _float,
            has_format=True,
        ),
        FieldKind("choice", '{{choice a b "c d"}}', "one of these", _choice),
        FieldKind("uuid", "{{uuid}}", "a random UUID (version 4)", _uuid),
        FieldKind("now", "{{now}}  {{now ms}}  {{now s}}", "the time: ISO in UTC, or an epoch", _now),
        FieldKind("name", "{{name}}", "a first name", _name),
        FieldKind("text", "{{text 20}}", "words, this many characters in all", _text),
        FieldKind("hex", "{{hex 16}}", "this many hexadecimal digits", _hex),
        FieldKind("bool", "{{bool}}", "true or false", _bool),
        FieldKind("ip", "{{ip}}", "an address in 10.0.0.0/8", _ip),
        FieldKind("open", "{{open}}", "two opening braces as they are", _open),
    )
}
"""All fields, in the order of the help."""

KEEP_FORM: Final = ("{{user=int 1 100}} … {{user}}", "kept under a name, used again later")


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def _words(rng: random.Random, length: int) -> str:
    parts: list[str] = []
    have = 0
    while have <= length:
        word = rng.choice(WORDS)
        parts.append(word)
        have += len(word) + 1
    text = " ".join(parts)[:length]
    return text[:-1] + "s" if text.endswith(" ") else text


def _whole(text: str, what: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadField(f'{what}, "{text}", is not a whole number') from None
    if abs(value) > WHOLE_MAX:
        raise BadField(f"{what}, {text}, is beyond 64 bits")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadField(f'"{text}" is not a number') from None
    if value != value or abs(value) == float("inf"):
        raise BadField(f'"{text}" is not a number with an end')
    return value


def _two(arguments: list[str], form: str) -> tuple[str, str]:
    if len(arguments) != 2:
        raise BadField(f"the least and the most are needed: {form}")
    return arguments[0], arguments[1]


def _length(arguments: list[str], form: str) -> int:
    if len(arguments) != 1:
        raise BadField(f"a length is needed: {form}")
    length = _whole(arguments[0], "the length")
    if not 1 <= length <= TEXT_LENGTH_MAX:
        raise BadField(f"the length is from 1 to {TEXT_LENGTH_MAX}")
    return length


def _none(arguments: list[str]) -> None:
    if arguments:
        raise BadField(f'nothing stands behind this one; here is "{arguments[0]}"')


def _at_most(arguments: list[str], most: int, form: str) -> None:
    if len(arguments) > most:
        raise BadField(f"too much behind the name: {form}")


def _no_format(spec: str) -> None:
    if spec:
        raise BadField(f'":{spec}" is for numbers')


def _width(spec: str) -> str:
    """`05` or `5` as a width of Python's format; widths over 99 are refused."""
    if spec and not (spec.isascii() and spec.isdigit() and int(spec) <= 99):
        raise BadField(f'":{spec}" is not a width such as :05')
    return spec


def _decimals(spec: str) -> int:
    digits = spec.removeprefix(".")
    if not spec:
        return 3
    if not (spec.startswith(".") and digits.isascii() and digits.isdigit() and int(digits) <= 15):
        raise BadField(f'":{spec}" is not a number of decimals such as :.2')
    return int(digits)
