"""Reads a template, says where it is wrong, and fills it.

    text  {{field arguments:format}}  {{name=field arguments}}  {{name}}

A name kept with `=` gives the same value again wherever it stands later: key first, then value, then headers.
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
    """A template that cannot be read. `offset` counts characters from 0, `line` and `column` from 1."""

    def __init__(self, text: str, offset: int, why: str) -> None:
        self.offset = offset
        self.line, self.column = place_of(text, offset)
        self.why = why
        super().__init__(f"line {self.line}, column {self.column}: {why}")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: text as it stands, or a field; `start` is where it is in the template."""

    start: int
    text: str
    fill: Fill | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """A template filled once, with where each part of it begins here and in the template."""

    text: str
    starts: tuple[tuple[int, Part], ...]

    def source_offset(self, offset: int) -> int:
        """Where in the template a character of the text comes from; for what a field made, the field's beginning."""
        start, part = 0, Part(0, "")
        for begins, each in self.starts:
            if begins > offset:
                break
            start, part = begins, each
        return part.start if part.fill is not None else part.start + offset - start


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was read."""

    source: str
    parts: tuple[Part, ...]
    kept: frozenset[str]
    """Names that it gives a value."""

    @property
    def is_plain(self) -> bool:
        """Whether it is the same each time."""
        return all(part.fill is None for part in self.parts)

    def fill(self, moment: Moment) -> str:
        """The text for one message; what it keeps is put into `moment.kept`."""
        return "".join([part.text if part.fill is None else part.fill(moment) for part in self.parts])

    def filled(self, moment: Moment) -> Filled:
        """The same, with where everything comes from: for an error in what came out."""
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
    """Text that is taken as it stands, braces and all."""
    return Template(text, (Part(0, text),), frozenset())


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse_template(text: str, known: AbstractSet[str] = frozenset()) -> Template:
    """Read a template; `known` are names that an earlier one keeps. Raises TemplateError."""
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
    """The name that it keeps, if any, and what it becomes."""
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
    """What stands behind a field's last colon, and the field without it; a choice may have colons of its own."""
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
