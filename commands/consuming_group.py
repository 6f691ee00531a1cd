"""Implements `yak consume --group`: joins the group, commits printed records, and leaves gracefully."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yak.commands import interrupts
from yak.commands.consuming import Reading, Request
from yak.commands.units import parse_duration_ms
from yak.errors import UsageError
from yak.view.formats import counted, group_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yak.client.admin import Admin
    from yak.client.consume import Window
    from yak.client.filters import Filter
    from yak.client.groups.reading import CommitEvery, GroupReader
    from yak.client.groups.starting import Started
    from yak.commands.options import Globals
    from yak.commands.record_output import Decoder, RecordPrinter
    from yak.ids import Offset, TopicPartition

COMMIT_EVERY = "1s"
WAITING_S = 5.0
"""After this time without an assignment, a note tells what the member waits for."""
_SIGNALS = {130: "interrupted", 143: "terminated"}


def parse_commit_every(text: str) -> "CommitEvery":
    """`1000`, `5s`, or both as `1000,5s`. Raises UsageError (`usage`)."""
    from yak.client.groups.reading import CommitEvery

    records: int | None = None
    interval_ms: int | None = None
    for part in (each.strip() for each in text.split(",")):
        if part.isdigit() and int(part) > 0 and records is None:
            records = int(part)
            continue
        try:
            found_ms = parse_duration_ms(part)
        except UsageError:
            found_ms = 0
        if found_ms <= 0 or interval_ms is not None:
            raise UsageError(
                "usage",
                f'--commit-every "{text}" is neither a number of records, nor a duration, nor one of each',
                try_=("--commit-every 1000", "--commit-every 5s", "--commit-every 1000,5s"),
            )
        interval_ms = found_ms
    return CommitEvery(records, interval_ms)


@dataclass(frozen=True, slots=True)
class Member:
    """Settings of one group member: `windows` for all partitions of its topics; `every` None disables commits."""

    g: "Globals"
    request: Request
    admin: "Admin"
    topics: "Sequence[str]"
    windows: "dict[TopicPartition, Window]"
    until_ms: int | None
    every: "CommitEvery | None"


def run_member(member: Member, printer: "RecordPrinter", filters: "list[Filter]", decoder: "Decoder | None") -> int:
    """Join, read, commit, leave; return the exit code. Raises YakError."""
    from yak.client.groups.asking import GroupBrokers
    from yak.client.groups.reading import GroupReader

    g, request = member.g, member.request
    assert request.group is not None
    with GroupBrokers(member.admin) as brokers:
        brokers.coordinators([request.group])

    def marks(partitions: "Sequence[TopicPartition]") -> "dict[TopicPartition, tuple[Offset, Offset]]":
        return member.admin.watermarks(partitions)

    with interrupts.held() as held:
        reader = GroupReader(
            g.bootstrap_servers, request.group, member.topics, member.windows,
            marks=marks, flush=printer.flush, every=member.every, warn=g.out.warn, until_ms=member.until_ms,
            tell=lambda started: tell_start(g, request, started), timeout_s=g.timeout_ms / 1000,
            read_committed=request.read_committed, verbose=g.verbose,
        )  # fmt: skip
        try:
            return GroupReading(g, request, reader, printer, filters, decoder, None, member.until_ms, held=held).run()
        finally:
            reader.close()


class GroupReading(Reading):
    """The read loop of a member: a signal stops it gracefully, and it commits at its end."""

    def __init__(self, *arguments: Any, held: interrupts.Held) -> None:
        super().__init__(*arguments)
        self._held = held
        self._joining_since: float | None = None
        self._most_partitions = 0

    def run(self) -> int:
        """Read until a stop condition holds; return the exit code."""
        return super().run() or self._held.exit_code

    def _more(self) -> bool:
        now = time.monotonic()
        reader: GroupReader = self._reader  # type: ignore[assignment]
        if self._held.signal is not None:
            self._why = _SIGNALS[self._held.exit_code]
            return False
        if reader.is_joining:
            # Waiting for an assignment does not count as idle time.
            self._last_record = now
            if self._joining_since is None:
                self._joining_since = now
            elif 0 < self._joining_since < now - WAITING_S:
                self._joining_since = 0.0
                self._g.out.note(
                    f'waiting for group "{reader.group}": it is gathering its members; '
                    "one that was killed is given up after its session"
                )
            return True
        self._joining_since = None
        return super()._more()

    def _end(self) -> None:
        reader: GroupReader = self._reader  # type: ignore[assignment]
        reader.finish()

    def _where(self) -> str:
        return f'group "{self._request.group}"'


def tell_start(g: "Globals", request: Request, started: "Sequence[Started]") -> None:
    """Print a line about an assignment, and a warning for each committed offset outside its partition's log."""
    from yak.client.groups.places import partitions_text

    if not started:
        g.out.note(f'group "{request.group}": no partition for this member; the others have them all')
        return
    first = [each.partition for each in started if each.committed is None]
    goes_on = len(started) - len(first)
    words = []
    if goes_on:
        words.append(f"{group_digits(goes_on)} from the committed offset" if first else "from the committed offset")
    if first:
        words.append(f"{group_digits(len(first)) + ' ' if goes_on else ''}{_start_words(request)}")
    g.out.note(
        f'group "{request.group}": {counted(len(started), "partition")} '
        f"({partitions_text(each.partition for each in started)}): {', '.join(words)}"
    )
    given = _start_option(request)
    if goes_on and given is not None:
        g.out.note(
            f"{given} counts only where nothing is committed; yak groups reset {request.group} moves committed offsets"
        )
    for each in started:
        if each.trouble:
            g.out.warn(f"{each.partition}: {each.trouble}")


def _start_option(request: Request) -> str | None:
    """The option for the start position, if one is set."""
    given = {
        "--from-beginning": request.from_beginning,
        "--offset": bool(request.offsets),
        "--from": request.from_time is not None,
        "--tail": request.tail is not None,
    }
    return next((name for name, is_given in given.items() if is_given), None)


def _start_words(request: Request) -> str:
    given = _start_option(request)
    return "from the end, nothing being committed" if given is None else f"by {given}, nothing being committed"
