"""Formats of the screen: numbers, sizes, times, signs. Pure.

Meaning is never in a colour alone: every state has a sign and a word, and with `is_ascii` the signs are letters too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, Literal

from yak.client.times import parse_time_ms
from yak.view.formats import counted, format_age, format_count, format_size, group_digits

Zone = Literal["utc", "local", "relative"]
ZONES: Final[tuple[Zone, ...]] = ("utc", "local", "relative")

GROUP: Final = "\N{NARROW NO-BREAK SPACE}"
_SIGNS: Final = {
    "good": ("✓", "[ok]"),
    "warn": ("▲", "[!]"),
    "bad": ("✗", "[x]"),
    "up": ("●", "[up]"),
    "down": ("○", "[--]"),
    "paused": ("‖", "[||]"),
    "unknown": ("?", "[?]"),
    "here": ("▶", ">"),
    "arrow": ("→", "->"),
    "crumb": ("›", ">"),
    "dot": ("·", "."),
    "mark": ("◆", "*"),
    "full": ("█", "#"),
    "empty": ("░", "."),
    "refresh": ("↻", "~"),
    "none": ("–", "-"),
}
DAY_MS: Final = 86_400_000
_BLOCKS: Final = "▁▂▃▄▅▆▇█"

ZONE_LABELS: Final[dict[Zone, str]] = {"utc": "in UTC", "local": "in local time", "relative": "how long ago"}


@dataclass(frozen=True, slots=True)
class Formatter:
    """Formats values as the user chose: time zone, letters instead of signs, all columns."""

    zone: Zone = "utc"
    is_ascii: bool = False
    is_wide: bool = False

    def sign(self, name: str) -> str:
        """The sign for a meaning. Raises KeyError for an unknown name."""
        return _SIGNS[name][1 if self.is_ascii else 0]

    def number(self, value: float | None) -> str:
        """`1 234 567` with narrow spaces; a dash for None, which is unknown."""
        if value is None:
            return self.sign("none")
        return group_digits(round(value), " " if self.is_ascii else GROUP)

    def counted(self, number: int, noun: str) -> str:
        """`1 record`, `1 842 records`."""
        return counted(number, noun, " " if self.is_ascii else GROUP)

    def size(self, value: float | None) -> str:
        """Bytes: `0 B`, `12.3 MiB`."""
        return self.sign("none") if value is None else format_size(value)

    def rate(self, value: float | None, what: str = "") -> str:
        """A rate per second: `0/s`, `840/s`, `12.4k/s`, `1.2M/s`."""
        return self.sign("none") if value is None else f"{format_count(value)}{what}/s"

    def size_rate(self, value: float | None) -> str:
        """Bytes per second: `1.2 MiB/s`."""
        return self.sign("none") if value is None else f"{self.size(value)}/s"

    def time(self, time_ms: float | None, now_ms: float, *, millis: bool = False) -> str:
        """A time of day, `12:03:04Z`, `14:03:04` in local time, or `4 s ago`."""
        moment = self._moment(time_ms, now_ms)
        if isinstance(moment, str) or time_ms is None:
            return str(moment)
        text = moment.strftime("%H:%M:%S") + (f".{int(time_ms) % 1000:03}" if millis else "")
        return text + ("Z" if self.zone == "utc" else "")

    def day_and_time(self, time_ms: float | None, now_ms: float) -> str:
        """A time with its date: `2026-11-20 12:03:04.120Z`."""
        moment = self._moment(time_ms, now_ms)
        if isinstance(moment, str) or time_ms is None:
            return str(moment)
        zone = "Z" if self.zone == "utc" else moment.strftime("%z")
        return f"{moment:%Y-%m-%d %H:%M:%S}.{int(time_ms) % 1000:03}{zone}"

    def moment(self, time_ms: float | None, now_ms: float) -> str:
        """The time of day with milliseconds within the last day; else with its date, without which it is ambiguous."""
        if time_ms is None or self.zone == "relative" or abs(now_ms - time_ms) < DAY_MS:
            return self.time(time_ms, now_ms, millis=True)
        return self.day_and_time(time_ms, now_ms)

    def parse_time_ms(self, text: str, now_ms: int) -> int:
        """A time as typed; one without a zone is local if times are shown so, else in UTC. Raises UsageError (`bad-time`)."""
        return parse_time_ms(text, now_ms=now_ms, zone=None if self.zone == "local" else UTC)

    def _moment(self, time_ms: float | None, now_ms: float) -> datetime | str:
        """The moment; as text if it is unknown, relative, or outside of the years 1 to 9999, as a timestamp may be."""
        if time_ms is None:
            return self.sign("none")
        if self.zone == "relative":
            return format_age(now_ms - time_ms)
        try:
            moment = datetime.fromtimestamp(time_ms / 1000, UTC)
            return moment if self.zone == "utc" else moment.astimezone()
        except (ValueError, OverflowError, OSError):
            return f"{time_ms:.0f} ms"

    def spark(self, values: Sequence[float], width: int) -> str:
        """Values as blocks, in at most `width` cells; if there are more values, a cell is a mean of several.

        In letters: the last and the largest value.
        """
        means = _means(list(values), width)
        if self.is_ascii:
            return f"{format_count(means[-1])} max {format_count(max(means))}" if means else ""
        top = max(means, default=0.0)
        if top <= 0:
            return _BLOCKS[0] * len(means)
        return "".join(_BLOCKS[min(7, int(max(value, 0.0) / top * 7.999))] for value in means)

    def bar(self, share: float, width: int) -> str:
        """A bar of `width` cells, filled by a share of 0 to 1.

        A share above 0 is never drawn empty, and one below 1 never full.
        """
        share = min(max(share, 0.0), 1.0)
        filled = round(share * width)
        if 0 < share < 1 and width > 1:
            filled = min(max(filled, 1), width - 1)
        return self.sign("full") * filled + self.sign("empty") * (width - filled)


def round_up(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is at least this."""
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power >= least:
                return step * power
        power *= 10


def _means(values: list[float], width: int) -> list[float]:
    if len(values) <= width:
        return values
    edges = [len(values) * number // width for number in range(width + 1)]
    return [sum(values[begin:end]) / (end - begin) for begin, end in pairwise(edges)]
