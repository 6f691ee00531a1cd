"""Whole records from templates of key, value and headers: the same seed gives the same records."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from yak.client.produce import Outgoing
from yak.client.templates.fields import Moment
from yak.client.templates.template import Template, TemplateError, parse_template


class BadPart(Exception):
    """An invalid template, and its part: `key`, `value`, or `header NAME`."""

    def __init__(self, part: str, error: TemplateError) -> None:
        super().__init__(f"{part}: {error}")
        self.part = part
        self.error = error


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """The templates of one record. A key or value of None is null; a header's kept values are known only after it."""

    key: Template | None
    value: Template | None
    headers: tuple[tuple[str, Template | None], ...] = ()

    @classmethod
    def parse(
        cls, key: str | None, value: str | None, headers: Sequence[tuple[str, str | None]] = ()
    ) -> "MessageTemplate":
        """Parse the parts in the order of filling. Raises BadPart."""
        known: frozenset[str] = frozenset()

        def read(part: str, text: str | None) -> Template | None:
            nonlocal known
            if text is None:
                return None
            try:
                template = parse_template(text, known)
            except TemplateError as error:
                raise BadPart(part, error) from None
            known |= template.kept
            return template

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

    def make(self, moment: Moment, *, partition: int = -1) -> Outgoing:
        """Generate one record."""
        key = None if self.key is None else encoded(self.key.fill(moment))
        value = None if self.value is None else encoded(self.value.fill(moment))
        headers = [(name, None if text is None else encoded(text.fill(moment))) for name, text in self.headers]
        return Outgoing(value=value, key=key, headers=headers, partition=partition)


class Maker:
    """Generates records. It reads `now_ms` for each, so that `{{now}}` is the time of its generation."""

    def __init__(
        self, template: MessageTemplate, now_ms: Callable[[], int], *, seed: int | None = None, partition: int = -1
    ) -> None:
        self._template = template
        self._now_ms = now_ms
        self._partition = partition
        self._rng = random.Random(seed)  # noqa: S311  (nothing secret)
        self._i = 0

    def __call__(self) -> Outgoing:
        """The next record."""
        moment = Moment(self._i, self._rng, self._now_ms())
        self._i += 1
        return self._template.make(moment, partition=self._partition)


def encoded(text: str) -> bytes:
    """UTF-8; undecodable bytes of a command line are restored."""
    return text.encode("utf-8", "surrogateescape")
