"""What to read, its notation, and the fields of the forms that select it. Pure.

orders  orders,payments  orders:0,2  orders:0-3 payments     topics, optionally with partitions
start  end  last 100  42  +10  -10  @TIME  -15m  10:20        where to start (and stop), as in `yak consume --offset`
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from yak.client.filters import parse_filter
from yak.client.offset_spec import END, START, Position, parse_edge, parse_range
from yak.client.times import format_time
from yak.errors import UsageError

_LAST = re.compile(r"(?:last|tail)\s*([0-9]{1,18})", re.IGNORECASE)
_NUMBERS = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_OFFSETS = re.compile(r"(start|end|\d+|[+-]\d+)?(:(start|end|\d+|[+-]\d+)?)?|@.+|[se]@.+", re.IGNORECASE)
MAX_LAST: Final = 100_000
PARTITIONS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Choice:
    """One topic and its partitions; without partitions all, including those added later."""

    topic: str
    partitions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}:{','.join(map(str, self.partitions))}" if self.partitions else self.topic


@dataclass(frozen=True, slots=True)
class Seek:
    """Where to start and stop.

    `last` above 0 overrides `start`: begin that many records before each partition's end.
    """

    start: Position = END
    stop: Position | None = None
    last: int = 0

    @property
    def is_tail(self) -> bool:
        """Whether the end is followed: then the oldest rows are dropped, else reading stops when the buffer is full."""
        return self.stop is None and (self.last > 0 or self.start == END)

    @property
    def begin(self) -> str:
        """The start as typed: `last 100`, `42`."""
        return f"last {self.last}" if self.last else _written(self.start)

    @property
    def end(self) -> str:
        """The stop as typed; empty without one."""
        return "" if self.stop is None else _written(self.stop)

    @property
    def description(self) -> str:
        """As text: `last 100 of each partition`, `from start to @2026-11-20T12:00:00.000Z`."""
        begin = f"{self.begin} of each partition" if self.last else f"from {self.begin}"
        return f"{begin} to {self.end}" if self.end else begin

    def __str__(self) -> str:
        return f"{self.begin} to {self.end}" if self.end else self.begin


@dataclass(frozen=True, slots=True)
class Subscription:
    """Everything read together.

    With a group, its members share the partitions, and `seek` applies only without a committed offset.
    """

    choices: tuple[Choice, ...]
    seek: Seek = Seek()
    group: str = ""
    read_committed: bool = False

    @property
    def title(self) -> str:
        """`orders, payments:0`."""
        return ", ".join(map(str, self.choices))

    @property
    def is_tail(self) -> bool:
        """Whether it runs for ever and keeps only the newest records.

        True for groups: they do not read a record twice.
        """
        return self.seek.is_tail or bool(self.group)

    def command(self, filter_text: str = "") -> str:
        """The equivalent `yak consume`; one for each topic if their partitions differ."""
        wanted = {choice.partitions for choice in self.choices}
        if len(wanted) > 1:
            return "; ".join(
                Subscription((choice,), self.seek, self.group, self.read_committed).command(filter_text)
                for choice in self.choices
            )
        argv = ["yak", "consume", *(choice.topic for choice in self.choices)]
        (partitions,) = wanted
        if partitions:
            argv += ["--partitions", ",".join(map(str, partitions))]
        if self.group:
            argv += ["--group", self.group, "--no-commit"]
        argv += self._seek_arguments()
        if self.read_committed:
            argv += ["--isolation", "read_committed"]
        for each in filter_parts(filter_text):
            argv += ["--filter", each]
        return shlex.join(argv)

    def _seek_arguments(self) -> list[str]:
        start, stop = self.seek.start, self.seek.stop
        if stop is not None and stop.kind not in ("time", "end"):
            if start.kind == "time":
                return ["--offset", f":{_written(stop)}", "--offset", f"s{_written(start)}"]
            return ["--offset", f"{_written(start)}:{_written(stop)}"]
        if self.seek.last:
            argv = ["--tail", str(self.seek.last)]
        elif start == START:
            argv = ["--from-beginning"]
        elif start.kind == "time":
            argv = ["--from", _written(start)[1:]]
        else:
            argv = [] if start == END else ["--offset", _written(start)]
        if stop is not None:
            argv += ["--exit"] if stop.kind == "end" else ["--to", _written(stop)[1:]]
        return argv


def parse_topics(text: str) -> tuple[Choice, ...]:
    """Topics separated by commas or spaces, each with its partitions after a colon.

    Raises UsageError (`bad-topics`).
    """
    found: dict[str, list[int]] = {}
    current = ""
    for word in re.split(r"[,\s]+", text.strip()):
        name, colon, rest = word.partition(":")
        if current and not colon and _NUMBERS.fullmatch(word):
            found[current] += _numbers(word, text)
            continue
        if not name:
            if not word:
                continue
            raise _bad_topics(text, f'"{word}" names no topic')
        found.setdefault(name, [])
        current = name if colon else ""
        if colon and rest:
            found[name] += _numbers(rest, text)
    if not found:
        raise _bad_topics(text, "no topic is named")
    return tuple(Choice(name, tuple(sorted(set(numbers)))) for name, numbers in found.items())


def _numbers(word: str, whole: str) -> list[int]:
    match = _NUMBERS.fullmatch(word)
    if match is None:
        raise _bad_topics(whole, f'"{word}" is not the number of a partition')
    first, last = int(match.group(1)), int(match.group(2) or match.group(1))
    if last < first or last - first >= PARTITIONS_MAX:
        raise _bad_topics(whole, f'"{word}" is not a range of partitions')
    return list(range(first, last + 1))


def _bad_topics(text: str, why: str) -> UsageError:
    return UsageError(
        "bad-topics", f'"{text.strip()}" is not a list of topics', why=why, try_=(":messages orders,payments:0,2",)
    )


def parse_seek(start_text: str, stop_text: str, parse_time: Callable[[str], int]) -> Seek:
    """From two fields of a form: an empty start is the end, an empty stop is "go on".

    Raises UsageError (`bad-offset`, `bad-time`).
    """
    begin = start_text.strip() or "end"
    last = _LAST.fullmatch(begin)
    stop = _edge(stop_text.strip(), parse_time) if stop_text.strip() else None
    if last is not None:
        count = int(last.group(1))
        if not 0 < count <= MAX_LAST:
            raise UsageError(
                "bad-offset", f'"{begin}" cannot be shown', why=f"last takes 1 to {MAX_LAST}", try_=("last 100",)
            )
        if stop is not None and stop.kind not in ("time", "end"):
            raise UsageError(
                "bad-offset",
                f'"{begin}" up to offset {_written(stop)} cannot be read',
                why="the last records are counted from the end",
                try_=("last 100", f"+0 to {_written(stop)}"),
            )
        return Seek(END, stop, count)
    if _OFFSETS.fullmatch(begin):
        wanted = parse_range([begin], parse_time)
        return Seek(wanted.start, stop or wanted.stop)
    return Seek(parse_edge(begin, parse_time), stop)


def _edge(text: str, parse_time: Callable[[str], int]) -> Position:
    if text.startswith("@"):
        return parse_edge(text[1:], parse_time)
    if _OFFSETS.fullmatch(text) and ":" not in text:
        return parse_range([text], parse_time).start
    return parse_edge(text, parse_time)


def _written(position: Position) -> str:
    written = {
        "start": "start",
        "end": "end",
        "offset": str(position.number),
        "after_start": f"+{position.number}",
        "before_end": f"-{position.number}",
        "time": f"@{format_time(position.number)}",
    }
    return written[position.kind]


def filter_parts(text: str) -> Sequence[str]:
    """The expressions of a filter line, separated by ` && `; all must match."""
    return [part.strip() for part in re.split(r"\s&&\s", text) if part.strip()]


FROM_HINT = "start, end, last 100, 42, -15m, @2026-11-20T12:00"
TO_HINT = "go on; or end, an offset, a time"
GROUP_HINT = "none: nothing is committed"
FILTER_HINT = "k:u1 && v:.total > 10 && !h:test"


def subscription_of(values: Mapping[str, str], parse_time: Callable[[str], int], *, is_readonly: bool) -> Subscription:
    """The subscription from the form. Raises UsageError."""
    group = values.get("group", "").strip()
    choices = parse_topics(values["topics"])
    if group:
        if is_readonly:
            raise UsageError(
                "readonly", f'group "{group}" cannot be joined here', why="yak ui was started with --readonly"
            )
        if any(choice.partitions for choice in choices):
            raise UsageError(
                "usage", "a group and partitions exclude each other", why="the group shares the partitions out"
            )
    for part in filter_parts(values.get("filter", "")):
        parse_filter(part)
    return Subscription(
        choices,
        parse_seek(values.get("from", ""), values.get("to", ""), parse_time),
        group,
        read_committed=values.get("committed") == "true",
    )


def fields_of(wanted: Subscription) -> dict[str, str]:
    """The fields for a subscription."""
    return {
        "topics": wanted.title,
        "from": wanted.seek.begin,
        "to": wanted.seek.end,
        "group": wanted.group,
        "committed": "true" if wanted.read_committed else "false",
    }
