"""Parses a template, reports the position of an error, and fills the template.

    text  {{field arguments:format}}  {{name=field arguments}}  {{name}}

A name assigned with `=` repeats its value in all later fields: key first, then value, then headers.
"""

import difflib
import re
import shlex
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from yak.client.templates.fields import FIELDS, BadField, Fill, Moment

_KEPT_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\s*=\s*(.*)", re.DOTALL)
_HEAD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FORMAT: Final = re.compile(r":([^\s:\"']*)$")
OPEN, CLOSE = "{{", "}}"


class TemplateError(Exception):
    """An invalid template. `offset` counts characters from 0, `line` and `column` from 1."""

    def __init__(self, text: str, offset: int, why: str) -> None:
        self.offset = offset
        self.line, self.column = place_of(text, offset)
        self.why = why
        super().__init__(f"line {self.line}, column {self.column}: {why}")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: literal text, or a field; `start` is its offset in the template."""

    start: int
    text: str
    fill: Fill | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled template, with the start of each part in the text and in the template."""

    text: str
    starts: tuple[tuple[int, Part], ...]

    def source_offset(self, offset: int) -> int:
        """The template's offset for a character of the text; for generated text, the start of its field."""
        start, part = 0, Part(0, "")
        for begins, each in self.starts:
            if begins > offset:
                break
            start, part = begins, each
        return part.start if part.fill is not None else part.start + offset - start


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    source: str
    parts: tuple[Part, ...]
    kept: frozenset[str]
    """The names that it assigns."""

    @property
    def is_plain(self) -> bool:
        """Whether it is the same each time."""
        return all(part.fill is None for part in self.parts)

    def fill(self, moment: Moment) -> str:
        """The text for one record; named values are stored in `moment.kept`."""
        return "".join([part.text if part.fill is None else part.fill(moment) for part in self.parts])

    def filled(self, moment: Moment) -> Filled:
        """As `fill`, with the source of each part: for errors in the generated text."""
        pieces: list[str] = []
        starts: list[tuple[int, Part]] = []
        at = 0
        for part in self.parts:
            piece = part.text if part.fill is None else part.fill(moment)
            starts.append((at, part))
            pieces.append(piece)
            at += len(piece)
        return Filled("".join(pieces), tuple(starts))


def plain(text: str) -> Template:
    """Literal text, including its braces."""
    return Template(text, (Part(0, text),), frozenset())


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse_template(text: str, known: AbstractSet[str] = frozenset()) -> Template:
    """Parse a template; `known` are names that an earlier template assigns. Raises TemplateError."""
    parts: list[Part] = []
    kept: set[str] = set()
    at = 0
    while (begins := text.find(OPEN, at)) >= 0:
        ends = text.find(CLOSE, begins + len(OPEN))
        if ends < 0:
            raise TemplateError(text, begins, "{{ without }}; two braces as they are: {{open}}")
        if begins > at:
            parts.append(Part(at, text[at:begins]))
        inside = text[begins + len(OPEN) : ends]
        try:
            name, fill = _field(inside, kept | known)
        except BadField as error:
            raise TemplateError(text, begins, str(error)) from None
        if name:
            kept.add(name)
        at = ends + len(CLOSE)
        parts.append(Part(begins, text[begins:at], fill))
    if at < len(text):
        parts.append(Part(at, text[at:]))
    return Template(text, tuple(parts), frozenset(kept))


def _field(inside: str, known: AbstractSet[str]) -> tuple[str, Fill]:
    """The name that the field assigns, if any, and its fill function."""
    written = inside.strip()
    keeps = _KEPT_NAME.fullmatch(written)
    if keeps is None:
        return "", _named(written, known)
    name, rest = keeps.groups()
    if name in FIELDS:
        raise BadField(f'"{name}" is a field and cannot be the name of a kept value')
    return name, _keeping(name, _named(rest, known))


def _named(written: str, known: AbstractSet[str]) -> Fill:
    spec, written = _format_of(written)
    try:
        words = shlex.split(written)
    except ValueError:
        raise BadField("a quote without its end") from None
    if not words:
        raise BadField("there is no field in it: {{i}}, {{uuid}}, {{int 1 100}} …")
    name, arguments = words[0], words[1:]
    if name in FIELDS:
        return FIELDS[name].make(arguments, spec)
    if name in known:
        if arguments or spec:
            raise BadField(f'"{name}" is a kept value: nothing stands behind it')
        return lambda moment: moment.kept[name]
    guesses = difflib.get_close_matches(name, [*FIELDS, *sorted(known)], n=1, cutoff=0.7)
    hint = f'; did you mean "{guesses[0]}"?' if guesses else f": there are {', '.join(FIELDS)}"
    raise BadField(f'"{name}" is no field{hint}')


def _format_of(written: str) -> tuple[str, str]:
    """The format after a field's last colon, and the field without it; choices may contain colons."""
    head = _HEAD.match(written)
    kind = FIELDS.get(head.group()) if head else None
    given = _FORMAT.search(written)
    if given is None or head is None or not (given.start() == head.end() or (kind is not None and kind.has_format)):
        return "", written
    if not given.group(1):
        raise BadField("nothing stands behind the colon; {{i:05}} has a width")
    return given.group(1), written[: given.start()]


def _keeping(name: str, fill: Fill) -> Fill:
    def keep(moment: Moment) -> str:
        moment.kept[name] = value = fill(moment)
        return value

    return keep
