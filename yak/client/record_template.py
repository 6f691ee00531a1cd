"""Records with placeholders, filled again for each record: the same seed gives the same records."""

import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from yak.client.produce import Outgoing

OPEN: Final = "{{"
PLACEHOLDERS: Final = "{{i}}, {{uuid}}, {{now}}, {{now ms}}, {{now s}}, {{int 1 100}}"
"""A counter from 0, a UUID, the time in ISO 8601 or since the epoch, a random whole number with both ends included."""
_FIELD: Final = re.compile(r"\{\{(.*?)(\}\}|\n|\Z)")
_INT: Final = re.compile(r"int +(-?[0-9]{1,18}) +(-?[0-9]{1,18})")


class TemplateError(Exception):
    """A placeholder that cannot be filled. `line` and `column` count from 1; `part` is set by `RecordTemplate`."""

    def __init__(self, text: str, offset: int, why: str, part: str = "") -> None:
        self.text, self.offset, self.why, self.part = text, offset, why, part
        self.line, self.column = place_of(text, offset)
        super().__init__(f"line {self.line}, column {self.column}: {why}")


@dataclass(slots=True)
class TemplateInputs:
    """The inputs of one record: its number from 0, the random source, the time."""

    i: int
    rng: random.Random
    now_ms: int


Fill = Callable[[TemplateInputs], str]


@dataclass(frozen=True, slots=True)
class Template:
    """A text with placeholders. `shape` is as long, with a stand-in of digits or letters for each placeholder."""

    source: str
    parts: tuple[str | Fill, ...]
    shape: str

    @property
    def is_plain(self) -> bool:
        """Whether it has no placeholder."""
        return all(isinstance(part, str) for part in self.parts)

    def fill(self, moment: TemplateInputs) -> str:
        """The text for one record."""
        return "".join([part if isinstance(part, str) else part(moment) for part in self.parts])


def plain(text: str) -> Template:
    """Literal text, including its braces."""
    return Template(text, (text,), text)


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse_template(text: str) -> Template:
    """Parse a template. Raises TemplateError."""
    parts: list[str | Fill] = []
    shape: list[str] = []
    at = 0
    for found in _FIELD.finditer(text):
        if found[2] != "}}":
            raise TemplateError(text, found.start(), "{{ without }} on its line")
        name = found[1].strip()
        try:
            fill = _fill(name)
        except ValueError as error:
            raise TemplateError(text, found.start(), str(error)) from None
        before = text[at : found.start()]
        parts += [before, fill]
        shape += [before, ("x" if name in ("uuid", "now") else "1") * len(found[0])]
        at = found.end()
    return Template(text, (*parts, text[at:]), "".join([*shape, text[at:]]))


def _fill(name: str) -> Fill:
    simple: dict[str, Fill] = {
        "i": lambda moment: str(moment.i),
        "uuid": lambda moment: str(uuid.UUID(int=moment.rng.getrandbits(128), version=4)),
        "now": lambda moment: _iso(moment.now_ms),
        "now ms": lambda moment: str(moment.now_ms),
        "now s": lambda moment: str(moment.now_ms // 1000),
    }
    if name in simple:
        return simple[name]
    if bounds := _INT.fullmatch(name):
        low, high = int(bounds[1]), int(bounds[2])
        if low > high:
            raise ValueError(f"{low} is more than {high}: the lower bound comes first")
        return lambda moment: str(moment.rng.randint(low, high))
    raise ValueError(f'"{name}" is no placeholder; use {PLACEHOLDERS}')


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


@dataclass(frozen=True, slots=True)
class RecordTemplate:
    """The templates of one record. A key, value or header of None is null."""

    key: Template | None
    value: Template | None
    headers: tuple[tuple[str, Template | None], ...] = ()

    @classmethod
    def parse(
        cls, key: str | None, value: str | None, headers: Sequence[tuple[str, str | None]] = ()
    ) -> "RecordTemplate":
        """Parse the parts. Raises TemplateError."""

        def read(part: str, text: str | None) -> Template | None:
            try:
                return None if text is None else parse_template(text)
            except TemplateError as error:
                raise TemplateError(error.text, error.offset, error.why, part) from None

        return cls(
            read("key", key),
            read("value", value),
            tuple((name, read(f"header {name}", text)) for name, text in headers),
        )

    @property
    def is_plain(self) -> bool:
        """Whether all records are the same."""
        return all(
            each is None or each.is_plain for each in (self.key, self.value, *(part for _, part in self.headers))
        )

    def records(self, now_ms: Callable[[], int], *, seed: int | None = None, partition: int = -1) -> Iterator[Outgoing]:
        """Generate records without end. `now_ms` is read for each."""
        moment = TemplateInputs(0, random.Random(seed), 0)  # noqa: S311  (nothing secret)

        def fill(template: Template | None) -> bytes | None:
            return None if template is None else encoded(template.fill(moment))

        while True:
            moment.now_ms = now_ms()
            key, value = fill(self.key), fill(self.value)
            headers = [(name, fill(template)) for name, template in self.headers]
            yield Outgoing(value=value, key=key, headers=headers, partition=partition)
            moment.i += 1


def encoded(text: str) -> bytes:
    """UTF-8; undecodable bytes of a command line are restored."""
    return text.encode("utf-8", "surrogateescape")
