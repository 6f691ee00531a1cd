"""`yak produce`."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import count, islice
from typing import IO, TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TypeAlias, cast

from yak.attempts import attempts
from yak.commands import interrupts
from yak.commands.app import OUTPUT, START, WHAT, Bundle, command, flag
from yak.commands.options import Globals
from yak.commands.parameters import argument
from yak.commands.shell_completion import complete_topic
from yak.commands.units import parse_duration_ms, parse_size_bytes, parse_time_ms
from yak.errors import UsageError, YakError
from yak.private_files import is_stream
from yak.view.formats import counted, format_duration, group_digits

if TYPE_CHECKING:
    from yak.client.checkpoint import Checkpoint
    from yak.client.inputs import CsvMapping, Row
    from yak.client.produce import Failed, Outgoing, RecordSender
    from yak.client.record_template import RecordTemplate
    from yak.client.rejects import Rejects
    from yak.commands.output import Progress

Format: TypeAlias = Literal["lines", "json", "csv"]
Codec: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks: TypeAlias = Literal["0", "1", "all", "-1"]
BY_EXTENSION = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class Source:
    """The rows of one run, with the options for all rows applied."""

    def __init__(self, g: "Globals", request: "Request", topic: str) -> None:
        from yak.client.rejects import rejects_path

        self._g = g
        self._request = request
        self._columns: tuple[str, ...] = ()
        self._rejects: Rejects | None = None
        self._skipped = 0
        self.rejected = 0
        self.first_reason = ""
        """Of the rejected rows, with the place in the file."""
        self.saved_rows = 0
        self.is_tee = request.tee
        self.format = _format_of(request)
        if request.key_separator is not None and self.format != "lines":
            raise UsageError(
                "usage",
                f"--key-separator splits lines, and the format is {self.format}",
                why="a column or a field names the key there",
                try_=("--csv-key COLUMN", "--format lines"),
            )
        name = request.file if request.file not in (None, "-") else "stdin"
        self.rejected_path = rejects_path(str(name))
        self.sent: SentRows | None = None
        self.checkpoint: Checkpoint | None = None
        if request.resume is not None and request.file is not None:
            from yak.client.checkpoint import Checkpoint as ResumeFile
            from yak.client.csv_files import readable_file

            with readable_file(request.file):
                self.checkpoint = ResumeFile(request.resume, request.file, topic)
        self._headers = [_header(text) for text in request.headers]
        self._separator = None if request.key_separator is None else parse_separator(request.key_separator)
        self._null = None if request.null_value is None else request.null_value.encode()
        self._timestamp_ms = (
            0 if request.timestamp is None else parse_time_ms(request.timestamp, now_ms=g.now_ms(), zone=g.zone)
        )

    def skip(self, rows: int) -> None:
        self._skipped = self.saved_rows = rows
        if rows:
            self._g.out.note(f"resuming after row {rows}")

    def keep(self, settled: int) -> None:
        """Write the checkpoint: the number of rows that this run has settled, from its first row."""
        self.saved_rows = self._skipped + settled
        if self.checkpoint is not None:
            if self._rejects is not None:
                self._rejects.keep()
            self.checkpoint.write(self.saved_rows)

    def total_rows(self) -> int | None:
        """The number of rows, counted by lines; None if it is unknown, or progress is not displayed."""
        request = self._request
        if request.repeat == 0:
            return None
        if request.messages:
            return len(request.messages) * request.repeat
        if reads_a_stream(request) or not sys.stderr.isatty():
            return None
        from yak.client.csv_files import count_lines

        assert request.file is not None
        return max(count_lines(request.file) * request.repeat - self._skipped, 1)

    def rows(self) -> "Iterator[Row]":
        """All rows, including repetitions, without the skipped ones."""
        if self._request.template:
            yield from self._made()
            return
        for turn in range(self._request.repeat) if self._request.repeat else count():
            row = None
            for row in islice(self._once(), self._skipped if turn == 0 else 0, None):
                if row.record is not None:
                    self._dress(row.record)
                yield row
            if row is None:
                return  # nothing to repeat

    def _made(self) -> "Iterator[Row]":
        """Rows of templates: -m, -k and -H are evaluated again for each row."""
        from yak.client.inputs import Row

        partition = -1 if self._request.partition is None else self._request.partition
        sources = [
            template.records(self._g.now_ms, partition=partition) for template in record_templates(self._request)
        ]
        turns = range(self._request.repeat) if self._request.repeat else count()
        for number, source in enumerate(source for _ in turns for source in sources):
            record = next(source)
            record.timestamp_ms = self._timestamp_ms
            yield Row(number, record)

    def _once(self) -> "Iterator[Row]":
        from yak.client.inputs import json_rows, line_rows, message_rows

        if self._request.messages:
            given = (text.encode("utf-8", "surrogateescape") for text in self._request.messages)
            yield from message_rows(given, key_separator=self._separator, null_value=self._null)
            return
        with _opened(self._request.file) as file:
            if self.format == "csv":
                yield from self._csv(file)
            elif self.format == "json":
                yield from json_rows(file)
            else:
                yield from line_rows(file, key_separator=self._separator, null_value=self._null)

    def _csv(self, file: IO[bytes]) -> "Iterator[Row]":
        from yak.client.csv_files import TextLines, check_encoding
        from yak.client.inputs import CsvSource

        name = self._request.file or "stdin"
        encoding = check_encoding(self._request.csv_encoding)
        source = CsvSource(
            TextLines(cast("BinaryIO", file), encoding, os.path.basename(name)),
            _mapping(self._request),
            os.path.basename(name),
        )
        source.require_distinct()
        first_time = not self._columns
        self._columns = source.columns
        if first_time:
            delimiter = {"\t": "tab"}.get(source.delimiter, f'"{source.delimiter}"')
            self._g.out.note(f"{os.path.basename(name)}: delimiter {delimiter}, columns {', '.join(source.columns)}")
        yield from source.rows()

    def _dress(self, record: "Outgoing") -> None:
        """Apply -k, -H, -p and --timestamp, which override the input's values."""
        request = self._request
        if request.key is not None:
            record.key = request.key.encode("utf-8", "surrogateescape")
        if self._headers:
            record.headers = [*record.headers, *self._headers]
        if request.partition is not None:
            record.partition = request.partition
        if self._timestamp_ms:
            record.timestamp_ms = self._timestamp_ms

    def reject(self, row: "Row") -> None:
        from yak.client.rejects import Rejects

        self.rejected += 1
        if not self.first_reason:
            self.first_reason = f"{f'line {row.line}' if row.line else f'row {row.number + 1}'}: {row.problem}"
        if self._rejects is None:
            self._rejects = Rejects(self.rejected_path, is_resumed=self._skipped > 0)
        self._rejects.add(row, self._columns)

    def close(self) -> None:
        if self._rejects is not None:
            self._rejects.close()


class SentRows:
    """The rows of a run with a checkpoint that are sent and not settled.

    A row that the cluster refuses for its contents is rejected. Else the checkpoint would stay before it, and each resumed run
    would send the rows behind it again.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: dict[int, Row] = {}
        self.settle: Callable[[int], None] = lambda _number: None
        """`settle_rejected` of the sender."""

    def add(self, number: int, row: "Row") -> None:
        self._rows[number] = row

    def acknowledged(self, number: int, _latency_ns: int) -> None:
        self._rows.pop(number, None)

    def failed(self, failure: "Failed") -> None:
        from yak.client.rejects import is_of_the_row

        row = self._rows.pop(failure.number, None)
        if row is None or row.record is None or not is_of_the_row(failure.error):
            return
        row.problem = failure.reason
        row.cells = row.cells or (_readable(row.record.value) or "",)
        self._source.reject(row)
        self.settle(failure.number)


@contextmanager
def open_source(g: "Globals", request: "Request", topic: str) -> Iterator[Source]:
    """Provide a source and close it at the end. Raises YakError (`file`) when the input cannot be opened."""
    if request.file not in (None, "-"):
        from yak.client.csv_files import open_binary

        assert request.file is not None
        if not reads_a_stream(request):
            open_binary(request.file).close()
    elif not request.messages and sys.stdin.isatty():
        g.out.note("reading records from the terminal, one a line; Ctrl+D ends")
    source = Source(g, request, topic)
    try:
        yield source
    finally:
        source.close()


def reads_a_stream(request: "Request") -> bool:
    """Whether the records come from stdin, a pipe or a device: a second reader would find none of them."""
    if request.file in (None, "-"):
        return not request.messages
    assert request.file is not None
    return is_stream(request.file)


@contextmanager
def _opened(path: str | None) -> Iterator[IO[bytes]]:
    if path in (None, "-"):
        yield sys.stdin.buffer
        return
    assert path is not None
    with open(path, "rb") as file:
        yield file


def _format_of(request: "Request") -> str:
    if request.format is not None:
        return request.format
    if request.csv_options:
        return "csv"
    if request.key_separator is not None:
        return "lines"
    return BY_EXTENSION.get(os.path.splitext(request.file or "")[1].lower(), "lines")


def _mapping(request: "Request") -> "CsvMapping":
    from yak.client.inputs import CsvMapping

    named = (text.partition("=") for text in request.csv_headers)
    return CsvMapping(
        key=request.csv_key,
        value=request.csv_value,
        headers={column: name if equals else column for column, equals, name in named},
        columns=tuple(each.strip() for each in (request.csv_columns or "").split(",") if each.strip()),
        null_value=request.null_value,
        partition=request.csv_partition,
        delimiter=_delimiter(request.csv_delimiter),
    )


def _delimiter(text: str | None) -> str | None:
    character = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if character is not None and (len(character) != 1 or character in '"\r\n\0'):
        raise UsageError(
            "usage",
            f'--csv-delimiter "{text}" is not one character',
            try_=("--csv-delimiter ';'", "--csv-delimiter tab"),
        )
    return character


def record_templates(request: "Request") -> "list[RecordTemplate]":
    """-m, -k and -H as templates. Raises UsageError (`bad-template`) with the position of an error."""
    from yak.client.record_template import PLACEHOLDERS, RecordTemplate, TemplateError

    headers: list[tuple[str, str | None]] = []
    for text in request.headers:
        name, value = _header(text)
        headers.append((name, None if value is None else value.decode("utf-8", "surrogateescape")))
    try:
        return [
            RecordTemplate.parse(request.key, None if value == request.null_value else value, headers)
            for value in request.messages
        ]
    except TemplateError as error:
        raise UsageError(
            "bad-template",
            f"the template of the {error.part} cannot be read",
            why=str(error),
            try_=(f"use {PLACEHOLDERS}", "leave --template out to send braces as they are"),
        ) from None


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError("usage", f'header "{text}" has no name', try_=("-H NAME=VALUE",))
    name.encode()  # librdkafka's binding would crash on text that is not UTF-8
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def parse_separator(text: str) -> bytes:
    r"""A separator with `\t`, `\n`, `\xNN` and `\\` decoded; several bytes are allowed. Raises UsageError (`usage`)."""
    if not text:
        raise UsageError("usage", "--key-separator is empty", try_=("--key-separator :",))
    try:
        return text.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise UsageError("usage", f'--key-separator "{text}" cannot be read', why=str(error)) from None


DEFAULT_TOPIC = "yak"
DRY_RUN_RECORDS = 5
CHECKPOINT_EVERY_S = 0.5
LATE_S_MAX = 1.0
"""How much of a pause `--rate` catches up."""


FILE = "From a file"
SENDING = "How to send"


@dataclass(frozen=True, slots=True)
class Request(Bundle):
    """The options of one `yak produce`, as typed."""

    topic: str | None = None
    messages: tuple[str, ...] = flag("--message, -m", "A value to send; repeatable.", WHAT, default=())
    key: str | None = flag("--key, -k", "Key of the records.", WHAT)
    headers: tuple[str, ...] = flag(
        "--header, -H", "Header of the records; repeatable.", WHAT, default=(), metavar="NAME=VALUE"
    )
    partition: int | None = flag("--partition, -p", "Send to this partition.", WHAT, min=0)
    template: bool = flag(
        "--template", "Fill {{i}}, {{uuid}}, {{now}}, {{int 1 9}} in -m, -k and -H.", WHAT, default=False
    )
    timestamp: str | None = flag(
        "--timestamp", "Timestamp of the records: ISO-8601, epoch, -15m.", WHAT, metavar="TIME"
    )
    file: str | None = flag("--file, -f", "Read records from a file; - is stdin.", FILE, metavar="PATH")
    format: Format | None = flag(
        "--format", "lines, json or csv; by the file's name if not given.", FILE, metavar="FORMAT"
    )
    key_separator: str | None = flag("--key-separator, -K", "Split lines into key and value here.", FILE)
    null_value: str | None = flag("--null-value", "This text is a null value (a tombstone).", FILE)
    csv_key: str | None = flag("--csv-key", "Column that becomes the key.", FILE, metavar="COLUMN")
    csv_value: str = flag(
        "--csv-value",
        "Column of the value; json: all other columns; json:A,B: these.",
        FILE,
        default="json",
        metavar="COLUMN|json",
    )
    csv_headers: tuple[str, ...] = flag(
        "--csv-header", "Column that becomes a header; repeatable.", FILE, default=(), metavar="COLUMN=NAME"
    )
    csv_columns: str | None = flag("--csv-columns", "Names for a file without a header row.", FILE, metavar="A,B,C")
    csv_partition: str | None = flag("--csv-partition", "Column with the partition.", FILE, metavar="COLUMN")
    csv_delimiter: str | None = flag(
        "--csv-delimiter", "One character, or tab; found if not given.", FILE, metavar="CHARACTER"
    )
    csv_encoding: str = flag("--csv-encoding", "Encoding of the file.", FILE, default="utf-8", metavar="NAME")
    resume: str | None = flag(
        "--resume", "Checkpoint file: continue from it, and update it.", FILE, metavar="CHECKPOINT"
    )
    acks: Acks = flag("--acks", "Acknowledged by: 0, 1 or all.", SENDING, default="all", metavar="ACKS")
    compression: Codec = flag(
        "--compression-type, -z", "none, gzip, snappy, lz4 or zstd.", SENDING, default="none", metavar="CODEC"
    )
    batch_size: str | None = flag("--batch-size", "Largest batch, such as 64KiB.", SENDING, metavar="SIZE")
    linger: str | None = flag("--linger", "Wait this long to fill a batch.", SENDING, metavar="DURATION")
    transactional: bool = flag(
        "--transactional", "All records in one transaction: written together or not at all.", SENDING, default=False
    )
    transactional_id: str | None = flag(
        "--transactional-id", "The same with this id; fences an earlier producer of it.", SENDING, metavar="ID"
    )
    rate: float | None = flag("--rate", "Records a second, at most.", SENDING, min=0.001)
    repeat: int = flag("--repeat", "Send it all N times; 0: until Ctrl+C.", SENDING, default=1, min=0)
    create: bool = flag("--create", "Create the topic if it does not exist.", START, default=False)
    dry_run: bool = flag("--dry-run", "Show the first 5 records without sending.", OUTPUT, default=False)
    tee: bool = flag("--tee, -T", "Copy the values to stdout too.", OUTPUT, default=False)

    def with_properties(self, properties: tuple[str, ...]) -> "Request":
        """Translate Apache's `--property parse.key=true --property key.separator=:` to options of yak."""
        given: dict[str, str] = {}
        for text in properties:
            name, equals, value = text.partition("=")
            if not equals or name not in ("parse.key", "key.separator", "null.marker"):
                raise UsageError(
                    "bad-property",
                    f'"{text}" is not a property of produce',
                    why="known are parse.key=true, key.separator=TEXT and null.marker=TEXT",
                    try_=("--key-separator TEXT",),
                )
            given[name] = value
        changed = self
        if given.get("parse.key", "").lower() == "true":
            changed = replace(changed, key_separator=given.get("key.separator", "\\t"))
        if "null.marker" in given:
            changed = replace(changed, null_value=given["null.marker"])
        return changed

    @property
    def csv_options(self) -> list[str]:
        """The given options that say how a CSV file is read."""
        named = ((each, each.metadata.get("names", "")) for each in fields(self))
        return [name for each, name in named if name.startswith("--csv-") and getattr(self, each.name) != each.default]

    def check(self) -> None:
        """Raise UsageError for contradicting options, or impossible values."""
        if self.messages and self.file is not None:
            raise UsageError("usage", "-m and --file exclude each other", why="both say what to send")
        of_files = [*(["--format"] if self.messages and self.format else []), *self.csv_options]
        if of_files and (self.messages or self.format not in (None, "csv")):
            what = f"{of_files[0]} and {'-m' if self.messages else f'--format {self.format}'} exclude each other"
            raise UsageError("usage", what, why="it says how a file is read" if self.messages else "it is of CSV files")
        if self.resume is not None and (self.messages or reads_a_stream(self) or self.repeat != 1):
            raise UsageError(
                "usage", "--resume needs --file PATH", why="only a file can be read again from where it stopped"
            )
        if self.template and (not self.messages or self.key_separator is not None):
            raise UsageError("usage", "--template needs -m", why="files, stdin and split lines are sent as they are")
        if self.repeat != 1 and reads_a_stream(self):
            raise UsageError("usage", "--repeat needs a file or -m", why="stdin and pipes can be read only once")
        if self.transactional:
            self._check_transactional()

    def _check_transactional(self) -> None:
        if self.transactional_id == "":
            raise UsageError("usage", "--transactional-id is empty", try_=("--transactional",))
        if self.acks != "all":
            raise UsageError("usage", "--transactional needs --acks all", why="transactions are idempotent")
        if self.resume is not None:
            raise UsageError(
                "usage",
                "--transactional and --resume exclude each other",
                why="a transaction has no part to go on from",
            )
        if self.repeat == 0:
            raise UsageError("usage", "--transactional needs an end", why="Ctrl+C aborts it, and --repeat 0 ends so")


def run(g: "Globals", request: Request) -> int:
    """Produce; return the exit code. Raises YakError when nothing could be started."""
    from yak.client.produce import RecordSender

    request.check()
    topic = DEFAULT_TOPIC if request.topic is None else request.topic
    with open_source(g, request, topic) as source:
        if request.dry_run:
            if source.checkpoint is not None:
                source.skip(source.checkpoint.read())
            return _show(g, source, topic)
        g.must_not_be_readonly(f"writing to {topic}")
        _prepare_topic(g, request, topic)
        if source.checkpoint is not None:
            source.checkpoint.topic_id = _topic_id(g, topic)
            source.skip(source.checkpoint.read())
            source.sent = SentRows(source)
        producer = _open_producer(g, request)
        sender = RecordSender(topic, producer, acks=request.acks, observer=source.sent)
        if source.sent is not None:
            source.sent.settle = sender.settle_rejected
        started = time.monotonic()
        if request.transactional:
            return _send_in_transaction(g, request, source, sender, producer, started)
        signal_code = _send_all(g, request, source, sender)
        return _print_statistics(g, source, sender, time.monotonic() - started, signal_code)


def _send_in_transaction(
    g: "Globals", request: Request, source: Source, sender: "RecordSender", producer: Any, started: float
) -> int:
    """Send all rows in one transaction; commit it if every one was acknowledged, else abort it."""
    from yak.client.produce import ProducerTransaction

    transaction = ProducerTransaction(producer, timeout_s=_delivery_timeout_ms(g) / 1000)
    try:
        signal_code = _send_all(g, request, source, sender)
    except BaseException:
        _end(transaction.abort)
        raise
    counts = sender.counts
    if not (signal_code or source.rejected or counts.acknowledged < counts.sent):
        _end(transaction.commit)
        return _print_statistics(g, source, sender, time.monotonic() - started, signal_code)
    _end(transaction.abort)
    if signal_code:
        g.out.note("interrupted: the transaction was aborted")
        return signal_code
    reasons = [f"{reason} (x{count})" for reason, count in counts.reasons.most_common(3)]
    if source.rejected:
        reasons.append(f"{counted(source.rejected, 'bad row')}: {source.rejected_path}: {source.first_reason}")
    raise YakError(
        "transaction-aborted",
        f"the transaction of {counted(counts.sent, 'record')} was aborted",
        why="; ".join(reasons) or "not all records were acknowledged in time",
        try_=("correct it, and send all again",),
    )


def _end(end: Callable[[], None]) -> None:
    """Commit or abort. A signal has no effect meanwhile: its exit code would hide the outcome, or leave the transaction open."""
    with interrupts.held():
        end()


def _prepare_topic(g: "Globals", request: Request, topic: str) -> None:
    """Ensure that the topic exists: create the default topic, and with --create any topic."""
    from yak.client.produce import require_target
    from yak.client.reach import require_advertised

    admin = g.admin()
    ensure_topic(g, admin, topic, create=request.create)
    found = require_target(admin, topic, request.partition)
    require_advertised(admin.metadata().leaders_of([found]), admin.answered)


def _topic_id(g: "Globals", topic: str) -> str | None:
    """The topic's id; None of a broker without topic ids (Kafka before 2.8)."""
    found: str | None = g.admin().topic_ids([topic]).get(topic)
    return found


def ensure_topic(g: "Globals", admin: Any, topic: str, *, create: bool = False) -> None:
    """Create a missing topic: `yak` with one partition, others only with `create`; otherwise the caller handles it."""
    if topic in admin.metadata().topics or not (create or topic == DEFAULT_TOPIC):
        return
    g.must_not_be_readonly(f"creating topic {topic}")
    try:
        admin.create_topic(topic, partitions=1 if topic == DEFAULT_TOPIC else -1)
        g.out.note(f"created topic {topic}")
    except YakError as error:
        if error.code != "topic-exists":  # another client created it first
            raise
    for _ in attempts(g.timeout_s, 0.05):
        found = admin.metadata().topics.get(topic)
        if found is not None and found.partitions and all(each.leader >= 0 for each in found.partitions):
            return


def _open_producer(g: "Globals", request: Request) -> Any:
    from yak.client.produce import open_producer, producer_settings, transaction_settings

    settings = producer_settings(
        g.bootstrap_servers,
        acks=request.acks,
        compression=request.compression,
        batch_size_bytes=parse_size_bytes(request.batch_size) if request.batch_size else None,
        linger_ms=parse_duration_ms(request.linger, bare_unit="ms") if request.linger else None,
        delivery_timeout_ms=_delivery_timeout_ms(g),
        verbose=g.out.verbose,
    )
    return open_producer(settings | (transaction_settings(request.transactional_id) if request.transactional else {}))


def _delivery_timeout_ms(g: "Globals") -> int:
    return g.timeout_ms if g.timeout_given else 30_000


def _send_all(g: "Globals", request: Request, source: Source, sender: "RecordSender") -> int:
    """Send every row; return the exit code of the signal that interrupted, else 0."""
    with g.out.progress("sending", source.total_rows()) as bar:
        try:
            _send_rows(g, request, source, sender, bar)
            sender.finish(_delivery_timeout_ms(g) / 1000 + 5)
        except (KeyboardInterrupt, SystemExit, SystemError) as stop:
            sender.finish(2.0)
            sender.give_up()
            return interrupts.code_after(stop)
        except Exception:
            sender.finish(_delivery_timeout_ms(g) / 1000)
            if sender.counts.sent and not request.transactional:
                written = counted(sender.counts.acknowledged, "record")
                g.out.note(f"{written} of {group_digits(sender.counts.sent)} acknowledged before the error")
            raise
        finally:
            source.keep(sender.prefix.length)
    return 0


def _send_rows(g: "Globals", request: Request, source: Source, sender: "RecordSender", bar: "Progress") -> None:
    saved_at = time.monotonic()
    for place, row in enumerate(_paced(source.rows(), request.rate, sender)):
        if sender.fatal is not None:
            return
        if row.record is None:
            source.reject(row)
            sender.settle_rejected(place)
        else:
            if source.sent is not None:
                source.sent.add(place, row)
            sender.send(row.record, place)
            if request.tee and not _copied(g, row.record.value or b""):
                raise YakError(
                    "system",
                    "stdout was closed: the rest of the input was not sent",
                    why="--tee copies the records to it, and its reader has ended",
                    try_=("leave --tee out", "--resume CHECKPOINT     to send the rest of a file"),
                )
        if place % 256 == 0:
            bar.update(place + 1, counted(source.rejected, "bad row") if source.rejected else "")
            if source.checkpoint is not None and time.monotonic() - saved_at > CHECKPOINT_EVERY_S:
                source.keep(sender.prefix.length)
                saved_at = time.monotonic()


def _copied(g: "Globals", value: bytes) -> bool:
    """Copy a value to stdout; False when the reader of stdout has ended."""
    try:
        g.out.stdout.buffer.write(value + b"\n")
    except BrokenPipeError:
        return False
    return True


def _paced(rows: "Iterator[Row]", rate: float | None, sender: "RecordSender") -> "Iterator[Row]":
    """The rows, at most `rate` per second, and after a pause of the input or the cluster those of a second at once.

    Processes delivery reports while it waits.
    """
    if rate is None:
        yield from rows
        return
    due_s = time.monotonic()
    for row in rows:
        while (wait_s := due_s - time.monotonic()) > 0:
            sender.serve(min(wait_s, 0.1))
        yield row
        due_s = max(due_s + 1 / rate, time.monotonic() - LATE_S_MAX)


def _show(g: "Globals", source: Source, topic: str) -> int:
    """Print the first records as they would be sent; return the exit code."""
    rows: list[dict[str, Any]] = []
    bad = 0
    for row in source.rows():
        if row.record is None:
            bad += 1
            g.out.note(f"row {row.number + 1} cannot be sent: {row.problem}")
            continue
        record = row.record
        rows.append(
            {
                "topic": topic,
                "key": _readable(record.key),
                "value": _readable(record.value),
                "headers": [f"{name}={_readable(value)}" for name, value in record.headers],
                "partition": record.partition if record.partition >= 0 else None,
            }
        )
        if len(rows) >= DRY_RUN_RECORDS:
            break
    g.out.table(rows, ("topic", "key", "value", "headers"), ("partition",))
    g.out.note("dry run: nothing was sent")
    return 1 if bad else 0


def _readable(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def _print_statistics(g: "Globals", source: Source, sender: "RecordSender", took_s: float, signal_code: int) -> int:
    """Print the delivery statistics; return the exit code."""
    from yak.client.produce import FEW

    counts, out = sender.counts, g.out
    unsettled = counts.sent - counts.acknowledged - counts.failed
    unknown = counts.unknown + unsettled
    spans = [
        {"topic": name, "partition": part, "records": span.records, "first_offset": span.first_offset,
         "last_offset": span.last_offset}
        for (name, part), span in sorted(counts.spans.items())
    ]  # fmt: skip
    if out.format in ("json", "yaml", "csv"):
        document = {
            "topic": sender.topic, "acknowledged": counts.acknowledged, "failed": counts.failed + unsettled,
            "unknown": unknown, "rejected": source.rejected, "seconds": round(took_s, 3), "partitions": spans
        }  # fmt: skip
        if not out.quiet:
            out.for_programs(document, spans, ("topic", "partition", "records", "first_offset", "last_offset"))
    elif counts.acknowledged <= FEW:
        for each in sorted(counts.few, key=lambda ack: ack.number):
            if not g.out.quiet and not source.is_tee:
                out.line(f"{each.topic}-{each.partition}@{each.offset if each.offset >= 0 else '?'}")
    else:
        rate = counts.acknowledged / max(took_s, 1e-6)
        out.note(
            f"wrote {counted(counts.acknowledged, 'record')} to {counted(len(spans), 'partition')}"
            f" in {format_duration(took_s * 1000)} ({group_digits(round(rate))}/s)"
        )
    if source.rejected:
        _note_rejected(g, source)
    if counts.failed or unsettled:
        _complain(g, source, sender, unknown, unsettled)
    if signal_code:
        return signal_code
    return 1 if counts.failed or unsettled or source.rejected else 0


def _note_rejected(g: "Globals", source: Source) -> None:
    """Print how many rows were rejected, why the first one was, and what to do."""
    from shlex import quote

    g.out.note(f"{counted(source.rejected, 'bad row')} not sent: {source.rejected_path}")
    g.out.note(f"  why:  {source.first_reason}")
    g.out.note(f"  try:  less {quote(source.rejected_path)}")
    g.out.note("        correct those rows, and send them alone")


def _complain(g: "Globals", source: Source, sender: "RecordSender", unknown: int, unsettled: int) -> None:
    """Print one error for all failed records: how many, why, and whether they were written."""
    counts = sender.counts
    failed = counts.failed + unsettled
    reasons = [f"{reason} (x{count})" if count > 1 else reason for reason, count in counts.reasons.most_common(3)]
    if unsettled:
        reasons.append(f"no answer yet (x{unsettled})")
    if sender.fatal is not None:
        reasons.append("the producer sends no record after this error")
    written = []
    if counts.not_written:
        written.append(f"{group_digits(counts.not_written)} certainly not written, sending them again is safe")
    if unknown:
        written.append(f"{group_digits(unknown)} unknown: written or not")
    first = counts.failures[0].error if counts.failures else YakError("timed-out", "", try_=("yak doctor",))
    steps = first.try_
    if source.checkpoint is not None:
        steps = (f"the same command continues after row {source.saved_rows}",)
    what = f"{group_digits(failed)} of {counted(counts.sent, 'record')} not acknowledged"
    error = YakError(first.code, what, why="; ".join(reasons) + ". Written: " + "; ".join(written), try_=steps)
    error.kafka_code = first.kafka_code
    g.out.error(error)


@command(
    examples=(
        'yak produce -m "hello"',
        "yak produce orders -k u1 -m '{\"total\": 12}' -H source=web",
        "yak produce orders -f orders.csv --csv-key user_id --csv-value json --resume .orders.ck",
        "yak consume orders --from-beginning --exit -o json | yak produce copy -f - --format json --create",
    )
)
def produce(
    g: Globals,
    topic: Annotated[
        str | None, argument("TOPIC", f"Topic; {DEFAULT_TOPIC} when none is given.", autocompletion=complete_topic)
    ] = None,
    topic_option: str | None = flag("--topic, -t", "Topic, as an option.", WHAT, metavar="TOPIC"),
    *,
    request: Request,
    request_required_acks: Acks | None = flag("--request-required-acks", "", WHAT, hidden=True),
    compression_codec: Codec | None = flag("--compression-codec", "", WHAT, hidden=True),
    properties: list[str] | None = flag("--property", "", WHAT, hidden=True),
) -> int:
    """Write records to a topic.

    Values come from -m, a file or stdin, one record per line. Keys map to the same partitions as with Java clients.
    The topic yak is created with one partition on first use. A CSV file needs a header row or
    --csv-columns; rejected rows go to FILE.rejected.csv.

    With --transactional, an error, a rejected row or Ctrl+C aborts the transaction. Readers with read_committed then
    see none of its records.
    """
    if topic is not None and topic_option not in (None, topic):
        raise UsageError("usage", f"{topic} and --topic {topic_option} exclude each other", why="both name the topic")
    acks = request_required_acks or request.acks
    request = replace(
        request,
        topic=topic if topic_option is None else topic_option,
        acks="all" if acks == "-1" else acks,
        compression=compression_codec or request.compression,
        transactional=request.transactional or request.transactional_id is not None,
    )
    return run(g, request.with_properties(tuple(properties or ())))
