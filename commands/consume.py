"""`yak consume`."""

import re
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from yak.client.numbers import parse_long
from yak.commands import interrupts
from yak.commands.app import OUTPUT, START, STOP, WHAT, Bundle, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.commands.produce import DEFAULT_TOPIC, ensure_topic, parse_separator
from yak.commands.shell_completion import complete_group, complete_topic
from yak.commands.units import parse_duration_ms, parse_time_ms
from yak.errors import UsageError, WaitTimeout, YakError
from yak.ids import TopicPartition
from yak.view.formats import counted, format_duration, format_size, group_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yak.client.admin import Admin
    from yak.client.consume import PartitionReader, Window
    from yak.client.consumer import ConsumerRecord
    from yak.client.filters import Filter
    from yak.client.groups.group_reader import CommitEvery, GroupReader, Started
    from yak.client.metadata import ClusterMetadata, Topic
    from yak.client.offset_spec import Position, Range
    from yak.commands.record_output import Decoder, RecordPrinter

APACHE_FIELDS = ("timestamp", "partition", "offset", "headers", "key")
"""The field order of Apache's console consumer."""
GROUP = "As a group"


@dataclass(frozen=True, slots=True)
class Request(Bundle):
    """The options of one `yak consume`, as typed."""

    topics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    read_committed: bool = False
    separator: str = "\t"
    with_value: bool = True
    partitions: str | None = flag("--partitions", "Only these partitions.", WHAT, metavar="0,2")
    group: str | None = flag(
        "--group, -g",
        "Read as a member of this group, and commit printed records.",
        GROUP,
        metavar="GROUP",
        autocompletion=complete_group,
    )
    commit_every: str | None = flag(
        "--commit-every",
        "Commit after N records, a time, or the first of both: 1000, 5s, 1000,5s; 1s if not given. Also at the end.",
        GROUP,
        metavar="N|DURATION",
    )
    no_commit: bool = flag("--no-commit", "Join the group, but commit nothing.", GROUP, default=False)
    filters: tuple[str, ...] = flag(
        "--filter",
        "Show only k:TEXT, v:~REGEX, h:NAME=TEXT or 'v:.a > 1'; repeatable.",
        WHAT,
        default=(),
        metavar="EXPR",
    )
    from_beginning: bool = flag("--from-beginning", "From the first record.", START, default=False)
    offsets: tuple[str, ...] = flag(
        "--offset", "start end 42 +10 -10 10:20 :end @TIME @TIME:TIME.", START, default=(), metavar="SPEC"
    )
    from_time: str | None = flag("--from", "From this time on: ISO-8601, epoch, -15m.", START, metavar="TIME")
    tail: int | None = flag("--tail", "The last N records of each partition.", START, min=0)
    exit_at_end: bool = flag("--exit, -e", "Stop at the current end.", STOP, default=False)
    to_time: str | None = flag("--to", "Stop at this time, or at end.", STOP, metavar="TIME")
    max_messages: int | None = flag("--max-messages, -n", "Stop after N records.", STOP, min=1)
    idle_ms: int | None = flag("--timeout-ms", "Stop when no record arrived for this long.", STOP, min=1)
    fields: str | None = flag(
        "--print", "Also: topic,partition,offset,timestamp,key,headers.", OUTPUT, metavar="FIELDS"
    )
    format: str | None = flag("--format", "kcat's: %t %p %o %T %k %v %h %K %S, \\n.", OUTPUT, metavar="FORMAT")
    json_value: bool = flag("--json-value", "Embed values that are JSON in -o json.", OUTPUT, default=False)
    decoder: str | None = flag("--decoder", "Pass each value through this program.", OUTPUT, metavar="COMMAND")
    skip_errors: bool = flag("--skip-message-on-error", "Continue when the decoder fails.", OUTPUT, default=False)
    stats: bool = flag("--stats", "Count records on stderr every second.", OUTPUT, default=False)

    def with_properties(self, properties: tuple[str, ...]) -> "Request":
        """Translate Apache's `--property print.key=true` and similar ones to options of yak."""
        fields: list[str] = []
        changed = self
        for text in properties:
            name, equals, value = text.partition("=")
            field = name.removeprefix("print.")
            if equals and name == "key.separator":
                changed = replace(changed, separator=parse_separator(value).decode("utf-8", "surrogateescape"))
            elif equals and name == "print.value":
                changed = replace(changed, with_value=value.lower() == "true")
            elif equals and name.startswith("print.") and field in APACHE_FIELDS:
                if value.lower() == "true":
                    fields.append(field)
            else:
                raise UsageError(
                    "bad-property",
                    f'"{text}" is not a property of consume',
                    why=f"known are print.value, key.separator, {', '.join('print.' + each for each in APACHE_FIELDS)}",
                    try_=("--print key,timestamp",),
                )
        if fields:
            changed = replace(changed, fields=",".join(each for each in APACHE_FIELDS if each in fields))
        return changed

    @property
    def positions(self) -> list[str]:
        """The arguments that name partitions or an offset: `orders:0,2`, `orders:0@42`, `orders@42`."""
        return [] if self.patterns else [each for each in self.topics if ":" in each or "@" in each]

    @property
    def start_options(self) -> list[str]:
        """The options given for the start position; no more than one once it is checked."""
        options = {
            "--from-beginning": self.from_beginning,
            "--offset": bool(self.offsets),
            "--from": self.from_time is not None,
            "--tail": self.tail is not None,
        }
        return [name for name, is_given in options.items() if is_given]

    def check(self) -> None:
        """Raise UsageError for several start positions, or formats that exclude each other."""
        if len(given := self.start_options) > 1:
            raise UsageError("usage", f"{given[0]} and {given[1]} exclude each other", why="both say where to start")
        self._check_group()

        if self.partitions is not None and any(parse_long(each.strip()) is None for each in self.partitions.split(",")):
            raise UsageError("usage", f'"{self.partitions}" is not a list of partitions', try_=("--partitions 0,2",))
        if self.partitions is not None and self.positions:
            raise UsageError(
                "usage",
                f"--partitions and {self.positions[0]} exclude each other",
                why="both say which partitions to read",
            )

    def _check_group(self) -> None:
        if self.group is None:
            for name, is_given in (("--commit-every", self.commit_every is not None), ("--no-commit", self.no_commit)):
                if is_given:
                    raise UsageError("usage", f"{name} needs --group", why="without a group nothing is committed")
        elif not self.group:
            raise UsageError("bad-group-id", "a group needs a name", try_=("--group audit",))
        elif self.partitions is not None:
            raise UsageError(
                "usage",
                "--group and --partitions exclude each other",
                why="the group shares the partitions among its members",
                try_=("leave out --partitions", "leave out --group, to read without committing"),
            )
        elif self.positions:
            raise UsageError(
                "usage",
                f"--group and {self.positions[0]} exclude each other",
                why="the group shares the partitions among its members, and they start at its committed offsets",
                try_=(re.split("[:@]", self.positions[0])[0], "leave out --group, to read without committing"),
            )
        elif self.no_commit and self.commit_every is not None:
            raise UsageError("usage", "--commit-every and --no-commit exclude each other")


def run(g: "Globals", request: Request) -> int:
    """Consume; return the exit code. Raises YakError."""
    from yak.client.consume import PartitionReader
    from yak.client.filters import parse_filter
    from yak.client.reach import require_advertised
    from yak.commands.record_output import Decoder, RecordPrinter

    request.check()
    every = _commits(g, request)
    wanted = _range(g, request)
    filters = [parse_filter(text) for text in request.filters]
    printer = RecordPrinter(
        g, request.fields, request.format, request.json_value, request.separator, with_value=request.with_value
    )
    decoder = Decoder(request.decoder, skip_errors=request.skip_errors) if request.decoder else None
    admin = g.admin()
    topics = _topics(g, request, admin)
    require_advertised(admin.metadata().leaders_of(topics), admin.answered)
    windows = _windows(g, request, admin, topics, wanted)
    until_ms = _until_ms(wanted)
    if request.group is None:
        reader = PartitionReader(
            g.bootstrap_servers, windows, read_committed=request.read_committed, verbose=g.out.verbose
        )
        with closing(reader):
            loop = ConsumeLoop(g, request, reader, printer, filters, decoder, len(windows), until_ms, admin=admin)
            return loop.run()
    from yak.client.groups.group_brokers import GroupBrokers
    from yak.client.groups.group_reader import GroupReader

    with GroupBrokers(admin) as brokers:
        brokers.coordinators([request.group])
    with interrupts.held() as held:
        member = GroupReader(
            g.bootstrap_servers, request.group, [topic.name for topic in topics], windows,
            marks=admin.watermarks, flush=printer.flush, every=every, warn=g.out.warn, until_ms=until_ms,
            on_start=lambda started: print_start(g, request, started), timeout_s=g.timeout_s,
            read_committed=request.read_committed, verbose=g.out.verbose,
        )  # fmt: skip
        with closing(member):
            return GroupReading(
                g, request, member, printer, filters, decoder, None, until_ms, held=held, admin=admin
            ).run()


def _commits(g: "Globals", request: Request) -> "CommitEvery | None":
    """When to commit; None means never."""
    if request.group is None:
        return None

    g.must_not_be_readonly(f'joining group "{request.group}"')
    return None if request.no_commit else parse_commit_every(request.commit_every or COMMIT_EVERY)


def _range(g: "Globals", request: Request) -> "Range":
    from yak.client.offset_spec import END, START, Range, parse_edge, parse_range

    def parse_time(text: str) -> int:
        return parse_time_ms(text, now_ms=g.now_ms(), zone=g.zone)

    if request.offsets:
        wanted = parse_range(list(request.offsets), parse_time)
    elif request.from_time is not None:
        wanted = Range(parse_edge(request.from_time, parse_time))
    else:
        wanted = Range(START if request.from_beginning else END)
    if request.to_time is not None:
        if wanted.stop is not None:
            raise UsageError("usage", "--to excludes an --offset with an end", why="both say where to stop")
        wanted = replace(wanted, stop=parse_edge(request.to_time, parse_time))
    return wanted


def _until_ms(wanted: "Range") -> int | None:
    return wanted.stop.number if wanted.stop is not None and wanted.stop.kind == "time" else None


def _topics(g: "Globals", request: Request, admin: "Admin") -> "list[Topic]":
    metadata = admin.metadata()
    if request.patterns:
        return _matching(request.patterns, metadata)
    names = [re.split("[:@]", each)[0] for each in request.topics] or [DEFAULT_TOPIC]
    if DEFAULT_TOPIC in names and DEFAULT_TOPIC not in metadata.topics and not g.readonly:
        ensure_topic(g, admin, DEFAULT_TOPIC)
        metadata = admin.metadata()
    return [metadata.require_topic(name) for name in dict.fromkeys(names)]


def _matching(patterns: tuple[str, ...], metadata: "ClusterMetadata") -> "list[Topic]":
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise UsageError("usage", f"{pattern} is not a regular expression", why=str(error)) from None
    found = [
        topic
        for name, topic in metadata.topics.items()
        if not topic.is_internal and any(pattern.search(name) for pattern in compiled)
    ]
    if not found:
        raise UsageError(
            "no-topic-matches", f"no topic matches {', '.join(patterns)}", why="the patterns were matched once, at the start",
            try_=("yak topics list",),
        )  # fmt: skip
    return found


def _partitions(
    request: Request, topics: "list[Topic]", metadata: "ClusterMetadata"
) -> "dict[TopicPartition, Position | None]":
    """The partitions to read, each with the start that its argument names."""
    if positions := request.positions:
        return _placed([*positions, *(each for each in request.topics if each not in positions)], metadata)
    every = [TopicPartition(topic.name, each.number) for topic in topics for each in topic.partitions]
    if request.partitions is None:
        return dict.fromkeys(every)
    numbers = {int(part) for part in request.partitions.split(",")}
    missing = sorted(numbers - {each.partition for each in every})
    if missing:
        most = max((each.partition for each in every), default=-1)
        raise UsageError(
            "unknown-partition",
            f"{', '.join(topic.name for topic in topics)}: no partition {missing[0]}",
            why=f"partitions are 0 to {most}",
            try_=(f"--partitions 0,{most}" if most > 0 else "--partitions 0",),
        )
    return dict.fromkeys(each for each in every if each.partition in numbers)


def _placed(texts: "Sequence[str]", metadata: "ClusterMetadata") -> "dict[TopicPartition, Position | None]":
    """The partitions of `orders`, `orders:0,2` and `orders:0@42`; the first word of a partition says its start."""
    from yak.client.groups.partition_syntax import parse_partitions
    from yak.client.offset_spec import parse_start

    found: dict[TopicPartition, Position | None] = {}
    for word in texts:
        place, at, offset = word.partition("@")
        start = parse_start(offset) if at else None
        for each in parse_partitions([place], metadata):
            found.setdefault(each, start)
    return found


def _windows(
    g: "Globals", request: Request, admin: "Admin", topics: "list[Topic]", wanted: "Range"
) -> "dict[TopicPartition, Window]":
    from yak.client.consume import check_ranges, resolve_windows, tail_starts

    starts_named = _partitions(request, topics, admin.metadata())
    partitions = list(starts_named)
    windows: dict[TopicPartition, Window] = {}
    for named in dict.fromkeys(starts_named.values()):
        windows |= resolve_windows(
            admin,
            [each for each in partitions if starts_named[each] == named],
            wanted if named is None else replace(wanted, start=named),
            exit_at_end=request.exit_at_end,
            read_committed=request.read_committed,
            now_ms=g.now_ms(),
        )
    marks = admin.watermarks(partitions, read_committed=request.read_committed)
    if request.tail:
        starts = tail_starts(
            g.bootstrap_servers,
            {each: marks[each] for each in partitions if starts_named[each] is None},
            request.tail,
            read_committed=request.read_committed,
            timeout_s=g.timeout_s,
        )
        for each, start in starts.items():
            windows[each].start = start
    for note in check_ranges(windows, marks):
        g.out.note(note)
    return windows


UNTIL = "reached time"
LATE_MS = 500
"""How late a record may be written that has a time before `--to`."""


class ConsumeLoop:
    """The read loop of one `yak consume`, with its counters."""

    def __init__(
        self,
        g: "Globals",
        request: Request,
        reader: "PartitionReader | GroupReader",
        printer: "RecordPrinter",
        filters: "list[Filter]",
        decoder: "Decoder | None",
        partitions: int | None,
        until_ms: int | None,
        *,
        admin: "Admin",
    ) -> None:
        self._admin = admin
        self._g = g
        self._request = request
        self._reader = reader
        self._printer = printer
        self._filters = filters
        self._decoder = decoder
        self._partitions = partitions
        self._until_ms = until_ms
        self._end = "reached end"
        self.read = 0
        self.printed = 0
        self._bytes = 0
        self._started = time.monotonic()
        self._last_record = self._started
        self._stats_at = self._started
        self._why = ""
        self._has_noted_wait = False

    def run(self) -> int:
        """Read until a stop condition holds; return the exit code. Raises WaitTimeout."""
        code = 0
        try:
            for record in self._reader.records(more=self._more):
                if record is None:
                    self._printer.flush()
                    self._wait()
                else:
                    self._take(record)
                self._print_stats()
            self._why = self._why or self._end
        except (KeyboardInterrupt, SystemExit, SystemError) as stop:
            if self._request.group is not None:
                raise  # a member's second signal ends it at once, without a commit
            code = interrupts.code_after(stop)
            self._why = _SIGNALS[code]
        except Exception:
            self._printer.flush()  # the records before the error
            raise
        self._printer.flush()
        self._finish()
        took = format_duration((time.monotonic() - self._started) * 1000)
        not_filtered = f", {group_digits(self.printed)} shown" if self.printed != self.read else ""
        self._g.out.note(
            f"read {counted(self.read, 'record')} ({self._where()}){not_filtered} in {took}; stopped: {self._why}"
        )
        if self._decoder is not None and self._decoder.failed:
            self._g.out.warn(f"{counted(self._decoder.failed, 'record')} skipped: the decoder failed")
            code = code or 1
        if self._why == "timeout" and not self.printed:
            raise WaitTimeout(
                "nothing-in-time",
                f"no record came in {self._request.idle_ms} ms",
                why="the topics are empty from there on" if not self.read else "the filters let none through",
                try_=("--from-beginning", "a longer --timeout-ms"),
            )
        return code

    def _wait(self) -> None:
        """No record is there: say so once on a terminal, and end when the reader of a pipe is gone."""
        out = self._g.out
        out.require_reader()
        if not self._has_noted_wait and not self._request.exit_at_end and out.stderr.isatty():
            self._has_noted_wait = True
            out.note("waiting for records; Ctrl+C ends")

    def _finish(self) -> None:
        """Called after the last record is written; does nothing without a group."""

    def _where(self) -> str:
        return counted(self._partitions or 0, "partition")

    def _more(self) -> bool:
        request, now = self._request, time.monotonic()
        if request.max_messages is not None and self.printed >= request.max_messages:
            self._why = counted(request.max_messages, "record")
        elif request.idle_ms is not None and (now - self._last_record) * 1000 >= request.idle_ms:
            self._why = "timeout"
        elif self._until_ms is not None and self._end != UNTIL and self._g.now_ms() > self._until_ms + LATE_MS:
            self._end = UNTIL
            self._stop_at_until(self._until_ms)
        return not self._why

    def _stop_at_until(self, until_ms: int) -> None:
        """Read up to the offsets of that time, which the brokers know now: after a pause there may be more records."""
        from yak.client.consume import stops_at

        is_committed = self._request.read_committed
        self._reader.stop_at(stops_at(self._admin, self._reader.followed, until_ms, read_committed=is_committed))

    def _take(self, record: "ConsumerRecord") -> None:
        self._last_record = time.monotonic()
        if self._until_ms is not None and record.timestamp_ms >= self._until_ms:
            return
        self.read += 1
        self._bytes += len(record.value or b"") + len(record.key or b"")
        if not all(holds(record) for holds in self._filters):
            return
        if self._decoder is not None and record.value is not None:
            decoded = self._decoder.decode(record)
            if decoded is None:
                return
            record.value = decoded
        self.printed += 1
        self._printer.show(record)

    def _print_stats(self) -> None:
        now = time.monotonic()
        if not self._request.stats or now - self._stats_at < 1.0:
            return
        self._stats_at = now
        took_s = now - self._started
        self._g.out.note(
            f"{group_digits(self.read)} records, {group_digits(round(self.read / took_s))}/s, "
            f"{format_size(self._bytes / took_s)}/s"
        )


COMMIT_EVERY = "1s"
WAITING_S = 5.0
"""After this time without an assignment, a note names what the member waits for."""
_SIGNALS = {129: "the terminal was closed", 130: "interrupted", 143: "terminated"}


def parse_commit_every(text: str) -> "CommitEvery":
    """`1000`, `5s`, or both as `1000,5s`. Raises UsageError (`usage`)."""
    from yak.client.groups.group_reader import CommitEvery

    records: int | None = None
    interval_ms: int | None = None
    for part in (each.strip() for each in text.split(",")):
        number = parse_long(part)
        if number and records is None:
            records = number
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


class GroupReading(ConsumeLoop):
    """The read loop of a member: a signal stops it gracefully, and it commits at its end."""

    _reader: "GroupReader"

    def __init__(self, *arguments: Any, held: interrupts.DeferredSignal, admin: "Admin") -> None:
        super().__init__(*arguments, admin=admin)
        self._held = held
        self._joining_since: float | None = None

    def run(self) -> int:
        """Read until a stop condition holds; return the exit code."""
        return super().run() or self._held.exit_code

    def _more(self) -> bool:
        now, reader = time.monotonic(), self._reader
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
                self._g.out.note(f'waiting for group "{reader.group}": {obstacle_of(reader.group, self._admin)}')
            return True
        self._joining_since = None
        return super()._more()

    def _finish(self) -> None:
        self._reader.finish()

    def _where(self) -> str:
        return f'group "{self._request.group}"'


def obstacle_of(group: str, admin: "Admin") -> str:
    """Why a group may give its members no partitions: it cannot store the assignment, or it waits for a member."""
    from yak.core.placement import partition_of
    from yak.groups.offsets import OFFSETS_TOPIC
    from yak.view.partition_state import Replication

    with suppress(YakError, LookupError):
        offsets = admin.metadata().topics[OFFSETS_TOPIC]
        partition = offsets.partitions[partition_of(group, len(offsets.partitions))]
        found = Replication.of(partition, admin.min_isrs([OFFSETS_TOPIC])[OFFSETS_TOPIC])
        if found.is_under_min_isr:
            return (
                f"it cannot store its assignment: {OFFSETS_TOPIC}-{partition.number} has "
                f"{counted(found.isr, 'in-sync replica')} and needs {found.needed}; see yak isr {OFFSETS_TOPIC}"
            )
    return "it is rebalancing; a killed member is removed when its session expires"


def print_start(g: "Globals", request: Request, started: "Sequence[Started]") -> None:
    """Print a line about an assignment, and a warning for each committed offset outside its partition's log."""
    from yak.client.groups.partition_syntax import partitions_text

    if not started:
        g.out.note(f'group "{request.group}": no partition for this member; the others have them all')
        return
    first = [each.partition for each in started if each.committed is None]
    goes_on = len(started) - len(first)
    starts = []
    if goes_on:
        starts.append(f"{group_digits(goes_on)} from the committed offset" if first else "from the committed offset")
    if first:
        starts.append(f"{group_digits(len(first)) + ' ' if goes_on else ''}{_start_text(request)}")
    g.out.note(
        f'group "{request.group}": {counted(len(started), "partition")} '
        f"({partitions_text(each.partition for each in started)}): {', '.join(starts)}"
    )
    if goes_on and request.start_options:
        given = request.start_options[0]
        g.out.note(
            f"{given} counts only where nothing is committed; yak groups reset {request.group} moves committed offsets"
        )
    for each in started:
        if each.trouble:
            g.out.warn(f"{each.partition}: {each.trouble}")


def _start_text(request: Request) -> str:
    given = request.start_options
    return f"by {given[0]} (no committed offset)" if given else "from the end (no committed offset)"


Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]


@command(
    examples=(
        "yak consume --from-beginning",
        "yak consume orders --from-beginning --exit -o json | jq .value",
        "yak consume orders:1@42 --exit",
        "yak consume orders payments --from -15m --filter k:u1 --filter 'v:.total > 10'",
        "yak consume orders --group audit --from-beginning --commit-every 1000,5s",
    )
)
def consume(
    g: Globals,
    topics: Annotated[
        list[str] | None,
        argument(
            "TOPIC",
            "Topics, or partitions and a start: orders:0,2 or orders:1@42; yak when none is given.",
            autocompletion=complete_topic,
        ),
    ] = None,
    topic: list[str] | None = flag("--topic, -t", "Topic, as an option; repeatable.", WHAT, metavar="TOPIC"),
    regex: bool = flag("--regex, -r", "The topics are regular expressions.", WHAT, default=False),
    *,
    request: Request,
    isolation: Isolation | None = flag(
        "--isolation",
        "read_committed leaves out records of open and aborted transactions; read_uncommitted if not given.",
        WHAT,
        metavar="LEVEL",
    ),
    read_committed: bool = flag("--read-committed", "", WHAT, default=False, hidden=True),
    isolation_level: Isolation | None = flag("--isolation-level", "", WHAT, hidden=True),
    properties: list[str] | None = flag("--property", "", WHAT, hidden=True),
    partition_alias: str | None = flag("--partition", "", WHAT, hidden=True),
    include: str | None = flag("--include", "", WHAT, hidden=True),
) -> int:
    """Read records from topics.

    Without --group, offsets are not committed. By default it starts at the end and runs until Ctrl+C.

    With --group, the members of the group share the partitions and start at the committed offsets. Start options
    apply only to partitions without a committed offset.
    """
    names = (*(topics or ()), *(topic or ()))
    request = replace(
        request,
        topics=names,
        patterns=(names if regex else ()) + ((f"^(?:{include})$",) if include else ()),
        partitions=partition_alias if request.partitions is None else request.partitions,
        read_committed=read_committed or (isolation or isolation_level) == "read_committed",
    )
    return run(g, request.with_properties(tuple(properties or ())))
