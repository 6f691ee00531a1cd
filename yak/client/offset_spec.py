"""Start and stop positions of a read, as users type them: the grammar of rpk and kcl, and kcat's names.

start end            the log's start, its end now         (also beginning, earliest, oldest; latest, newest)
42 +10 -10           offset 42; 10 after the start; 10 before the end
10:20 10: :20 :end   from and until (the second is exclusive; `:end` is the end now)
@T @T1:T2            the first record at or after time T; between two times
s@T e@T              kcat's forms of the same two, which may be given together
"""

from collections.abc import Callable
from dataclasses import dataclass

from yak.client.numbers import parse_long
from yak.errors import UsageError
from yak.ids import Offset

START_NAMES = ("start", "beginning", "earliest", "oldest")
END_NAMES = ("end", "latest", "newest")


@dataclass(frozen=True, slots=True)
class Position:
    """One edge of a range: `kind` is start, end, offset, after_start, before_end or time (ms)."""

    kind: str
    number: int = 0

    def resolve(self, low: Offset, high: Offset) -> Offset:
        """The offset in a partition whose log is [low, high); times are resolved by the broker, not here."""
        assert self.kind != "time"
        found = {
            "start": low,
            "end": high,
            "offset": self.number,
            "after_start": low + self.number,
            "before_end": high - self.number,
        }[self.kind]
        return max(low, min(found, high)) if self.kind in ("after_start", "before_end") else found


START = Position("start")
END = Position("end")


@dataclass(frozen=True, slots=True)
class Range:
    """The range to read of each partition; `stop` None means no end."""

    start: Position
    stop: Position | None = None


def parse_range(texts: list[str], parse_time: Callable[[str], int]) -> Range:
    """One range of one or more specs, as kcat allows `-o s@… -o e@…`. Raises UsageError (`bad-offset`)."""
    start: Position | None = None
    stop: Position | None = None
    for text in texts:
        found_start, found_stop = _parse(text.strip(), parse_time)
        start, stop = found_start or start, found_stop or stop
    return Range(start or START, stop)


def parse_edge(text: str, parse_time: Callable[[str], int]) -> Position:
    """A value of `--from` or `--to`: start, end, or a time."""
    lowered = text.strip().lower()
    if lowered in START_NAMES:
        return START
    if lowered in END_NAMES:
        return END
    return Position("time", parse_time(text))


def parse_start(text: str) -> Position:
    """One offset: start, end, 42, +10 or -10. Raises UsageError (`bad-offset`)."""
    try:
        return _position(text.strip(), text)
    except UsageError as error:
        error.why, error.try_ = "behind @ stands start, end, 42, +10 or -10", ("--offset @-15m",)
        raise


def _parse(text: str, parse_time: Callable[[str], int]) -> tuple[Position | None, Position | None]:
    if text[:2] in ("s@", "e@"):
        position = Position("time", parse_time(text[2:]))
        return (position, None) if text[0] == "s" else (None, position)
    if text.startswith("@"):
        return _times(text, parse_time)
    first, colon, second = text.partition(":")
    if not text or ":" in second:
        raise _bad(text)
    start = _position(first, text) if first else START
    stop = _position(second, text) if second else None
    return start, stop if colon else None


def _position(word: str, whole: str) -> Position:
    lowered = word.lower()
    if lowered in START_NAMES:
        return START
    if lowered in END_NAMES:
        return END
    kind = {"+": "after_start", "-": "before_end"}.get(lowered[:1])
    number = parse_long(lowered[1:] if kind else lowered)
    if number is None:
        raise _bad(whole)
    return Position(kind or "offset", number)


def _times(text: str, parse_time: Callable[[str], int]) -> tuple[Position, Position | None]:
    """Split at the colon with a valid time on both sides, since times contain colons."""
    body = text[1:]
    try:
        return parse_edge(body, parse_time), None
    except UsageError:
        pass
    for index in (index for index, character in enumerate(body) if character == ":"):
        before, after = body[:index], body[index + 1 :].removeprefix("@")
        try:
            return parse_edge(before, parse_time), parse_edge(after, parse_time) if after else None
        except UsageError:
            continue
    raise _bad(text)


def _bad(text: str) -> UsageError:
    return UsageError(
        "bad-offset",
        f'"{text}" is not an offset',
        why="offsets are start, end, 42, +10, -10, 10:20, :end, @TIME or @TIME:TIME",
        try_=("--offset start", "--offset -10", "--offset @-15m"),
    )
