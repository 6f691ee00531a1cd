"""CSV files for the Producer: chosen from directories, inspected, and sent with little memory.

Rows that are refused for their own contents go to `NAME.rejected.csv`, and the rest is sent. Another failure (no broker
answers) ends the run; the next run resumes at the first row that is not settled. All functions block.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

from yak.client.admin import Admin
from yak.client.checkpoint import Checkpoint
from yak.client.csv_files import (
    SNIFFED_BYTES,
    TextLines,
    check_encoding,
    count_lines,
    open_binary,
    readable_file,
    sniff_encoding,
)
from yak.client.inputs import CsvMapping, CsvSource, Row
from yak.client.metadata import Topic
from yak.client.produce import Failed, Outgoing, RecordSender
from yak.client.rejects import Rejects, is_of_the_row, rejects_path
from yak.errors import UsageError, YakError
from yak.tui.produce.form import upload_command
from yak.tui.produce.run import Feed, Plan
from yak.tui.settings import UPLOADS

ENTRIES_MAX: Final = 2_000
CSV_ENDINGS: Final = (".csv", ".tsv", ".txt")


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory or a file."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int = 0
    changed_ms: int = 0

    @property
    def is_likely(self) -> bool:
        """Whether its name is that of a CSV file."""
        return not self.is_directory and self.name.lower().endswith(CSV_ENDINGS) and ".rejected." not in self.name


def start_directories(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Starting points as (label, directory): uploads if there are any, then the current directory, then home."""
    found = [("uploads", environ.get(UPLOADS, "")), ("here", os.getcwd()), ("home", os.path.expanduser("~"))]
    return [(label, path) for label, path in found if path and os.path.isdir(path)]


def directory_of(path: str) -> str:
    """The absolute path of a typed directory; `~` is home."""
    return os.path.abspath(os.path.expanduser(path))


def list_directory(path: str) -> list[Entry]:
    """The parent, directories, then files, CSV files first, each by name. Raises YakError (`file`)."""
    directory = directory_of(path)
    try:
        with os.scandir(directory) as found:
            entries = [_entry(each) for each in found if not each.name.startswith(".")]
    except OSError as error:
        raise YakError(
            "file", f"{directory} cannot be listed", why=str(error.strerror), try_=("type another path",)
        ) from None
    entries.sort(key=lambda each: (not each.is_directory, not each.is_likely, each.name.lower(), each.name))
    parent = os.path.dirname(directory)
    up = [] if parent == directory else [Entry("..", parent, is_directory=True)]
    return up + entries[:ENTRIES_MAX]


def complete_path(typed: str) -> str | None:
    """The first path that starts with the typed text; a directory's ends with a slash. None if there is none."""
    if not typed:
        return None
    directory, begun = os.path.split(os.path.expanduser(typed))
    try:
        entries = list_directory(directory or ".")
    except YakError:
        return None
    for entry in entries:
        if entry.name.startswith(begun) and entry.name != ".." and begun:
            return os.path.join(directory, entry.name) + (os.sep if entry.is_directory else "")
    return None


def _entry(found: "os.DirEntry[str]") -> Entry:
    try:
        known = found.stat()
        return Entry(found.name, found.path, found.is_dir(), known.st_size, int(known.st_mtime * 1000))
    except OSError:  # a broken link
        return Entry(found.name, found.path, is_directory=False)


PREVIEWED: Final = 25
"""Rows in the preview; a low window shows five."""
CHECKED: Final = 1_000
"""Rows checked for mistakes: enough to notice a wrong delimiter or mapping, without a delay."""
MISTAKES_MAX: Final = 3

RowStatus = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One row as a record, or the reason why it cannot be sent."""

    line: int
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]
    partition: int | None
    status: RowStatus
    why: str = ""


@dataclass(frozen=True, slots=True)
class CsvPreview:
    """The properties of a file and its first rows.

    `mistakes` are (line, reason) of the first invalid rows, `bad` their number among `checked` rows.
    """

    path: str
    size_bytes: int
    encoding: str
    delimiter: str
    columns: tuple[str, ...]
    rows: tuple[PreviewRow, ...] = ()
    checked: int = 0
    bad: int = 0
    mistakes: tuple[tuple[int, str], ...] = ()
    doubled: tuple[str, ...] = ()
    """Column names that occur more than once: only the last of these columns can be used."""


def read_rows(path: str, mapping: CsvMapping, encoding: str) -> Iterator[tuple[CsvSource, Row]]:
    """The rows of a file, with their reader. Raises YakError."""
    with open_binary(path) as file:
        lines = TextLines(file, encoding, os.path.basename(path))
        source = CsvSource(lines, mapping, os.path.basename(path))
        for row in source.rows():
            yield source, row


def find_encoding(path: str) -> str:
    """The detected encoding of a file. Raises YakError (`file`)."""
    with open_binary(path) as file:
        return sniff_encoding(file.read(SNIFFED_BYTES))


def preview_csv(
    path: str, mapping: CsvMapping | None = None, *, encoding: str | None = None, partitions: int | None = None
) -> CsvPreview:
    """Read the start of a file; without a mapping, only its columns.

    Raises YakError: `file`, `not-text`, `bad-encoding`, `csv-empty`, `csv-column`.
    """
    used = check_encoding(encoding) if encoding else find_encoding(path)
    with open_binary(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        lines = TextLines(file, used, os.path.basename(path))
        source = CsvSource(lines, mapping or CsvMapping(), os.path.basename(path))
        doubled = tuple(name for name, times in Counter(source.columns).items() if times > 1)
        preview = CsvPreview(path, size_bytes, used, source.delimiter, source.columns, doubled=doubled)
        if mapping is None:
            return preview
        return _checked(preview, islice(source.rows(), CHECKED), mapping, partitions)


def _checked(preview: CsvPreview, rows: Iterator[Row], mapping: CsvMapping, partitions: int | None) -> CsvPreview:
    previews: list[PreviewRow] = []
    mistakes: list[tuple[int, str]] = []
    checked = bad = 0
    for row in rows:
        checked += 1
        checked_row = preview_of(row, mapping, partitions)
        if len(previews) < PREVIEWED:
            previews.append(checked_row)
        if checked_row.status == "bad":
            bad += 1
            if len(mistakes) < MISTAKES_MAX:
                mistakes.append((row.line, checked_row.why))
    return replace(preview, rows=tuple(previews), checked=checked, bad=bad, mistakes=tuple(mistakes))


def preview_of(row: Row, mapping: CsvMapping, partitions: int | None) -> PreviewRow:
    """One row as a record."""
    record = row.record
    if record is None:
        return PreviewRow(row.line, None, " ".join(row.cells) or None, (), None, "bad", row.problem)
    problem = partition_problem(record.partition, partitions)
    why = problem
    if not why and mapping.key is not None and record.key is None:
        why = "no key: any partition" if record.partition < 0 else "no key"
    if not why and record.value is None:
        why = "no value: a tombstone"
    return PreviewRow(
        row.line,
        _text(record.key),
        _text(record.value),
        tuple((name, _text(data)) for name, data in record.headers),
        record.partition if record.partition >= 0 else None,
        "bad" if problem else "warn" if why else "good",
        why,
    )


def partition_problem(partition: int, partitions: int | None) -> str:
    """Why a partition is invalid; empty if it is valid, or unknown."""
    if partitions is None or partition < partitions:
        return ""
    return f"no partition {partition}: there are {partitions}, from 0 on"


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


KEEP_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The progress in a file, including rows of an earlier run; `rejected` counts rows of this run only."""

    settled: int = 0
    rejected: int = 0


def checkpoint_path(path: str, topic: str) -> str:
    """`orders.csv.TOPIC.checkpoint`; `--resume` of `yak produce` accepts it too."""
    return f"{path}.{topic}.checkpoint"


def rows_settled(path: str, topic: str) -> int:
    """Rows of this file that an earlier run settled; 0 without one, or if the file has changed.

    Raises YakError (`file`, `resume-unreadable`).
    """
    with readable_file(path):
        try:
            return Checkpoint(checkpoint_path(path, topic), path, topic).read()
        except UsageError:
            return 0


class FileFeed(Feed):
    """The rows of a CSV file, starting at `skip`."""

    def __init__(self, path: str, topic: str, mapping: CsvMapping, encoding: str, *, skip: int = 0) -> None:
        self.path = path
        self.rejects = Rejects(rejects_path(path), is_resumed=skip > 0)
        self._topic = topic
        self._mapping = mapping
        self._encoding = encoding
        self._skip = skip
        self._partitions: int | None = None
        self._columns: tuple[str, ...] = ()
        self._in_flight: dict[int, Row] = {}
        self._sender: RecordSender | None = None
        self._checkpoint: Checkpoint | None = None
        self._saved_at = 0.0
        self.progress = FileProgress()
        """Replaced as a whole; any thread may read it."""

    def open(self, topic: Topic, admin: Admin) -> None:
        """Write a first checkpoint, so that an unwritable directory is noticed before anything is sent.

        Raises UsageError (`resume-mismatch`) if the skipped rows are in an earlier topic of this name.
        """
        self._partitions = len(topic.partitions)
        with readable_file(self.path):
            self._checkpoint = Checkpoint(checkpoint_path(self.path, self._topic), self.path, self._topic)
        self._checkpoint.topic_id = admin.topic_ids([self._topic]).get(self._topic)
        if self._skip:
            self._checkpoint.read()
        self._keep(self._skip)

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Each valid row, numbered from the first that is not skipped."""
        self._sender = sender
        for source, row in read_rows(self.path, self._mapping, self._encoding):
            self._columns = source.columns
            place = row.number - self._skip
            if place < 0:
                continue
            problem = row.problem or partition_problem(row.record.partition if row.record else -1, self._partitions)
            if row.record is None or problem:
                self._reject(place, row, problem)
                continue
            self._in_flight[place] = row
            yield place, row.record

    def acknowledged(self, number: int) -> None:
        self._in_flight.pop(number, None)

    def failed(self, failure: Failed) -> str:
        """Set the row aside if its contents are the cause; else end the run."""
        row = self._in_flight.pop(failure.number, None)
        assert row is not None, "a row fails once, after it was sent"
        if is_of_the_row(failure.error):
            self._reject(failure.number, row, failure.reason)
            return ""
        return failure.reason

    def moment(self, sender: RecordSender) -> None:
        """Save the progress, twice a second."""
        self._show(sender)
        if time.monotonic() - self._saved_at > KEEP_EVERY_S:
            self._keep(self._skip + sender.prefix.length)

    def close(self, sender: RecordSender | None, is_complete: bool) -> None:
        """Delete the checkpoint of a complete upload, so that the next one starts at the beginning; else save it."""
        self.rejects.close()
        if sender is None or self._checkpoint is None:
            return
        self._show(sender)
        if is_complete:
            with suppress(FileNotFoundError):  # another upload of the file to this topic has ended
                os.remove(self._checkpoint.path)
        else:
            self._keep(self._skip + sender.prefix.length)

    def _reject(self, place: int, row: Row, why: str) -> None:
        self.rejects.add(row, self._columns, why)
        assert self._sender is not None
        self._sender.settle_rejected(place)

    def _show(self, sender: RecordSender) -> None:
        self.progress = FileProgress(self._skip + sender.prefix.length, self.rejects.count)

    def _keep(self, rows: int) -> None:
        assert self._checkpoint is not None
        self._saved_at = time.monotonic()
        try:
            self.rejects.keep()
            self._checkpoint.write(rows)
        except OSError as error:
            raise YakError(
                "file",
                f"{self._checkpoint.path} cannot be written",
                why=f"{error.strerror}; it is where an upload that was stopped goes on",
                try_=("copy the file to a directory that you may write to",),
            ) from None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file, its mapping, and the number of rows that an earlier upload to the topic has settled."""

    preview: CsvPreview
    mapping: CsvMapping
    settled: int

    def command(self, plan: Plan) -> str:
        path = self.preview.path
        return upload_command(plan, path, self.mapping, self.preview.encoding, checkpoint_path(path, plan.topic))


def prepare(path: str, mapping: CsvMapping, *, topic: str, encoding: str | None, partitions: int | None) -> FilePlan:
    """Inspect a file for sending. Raises YakError."""
    preview = preview_csv(path, mapping, encoding=encoding, partitions=partitions)
    return FilePlan(preview, mapping, rows_settled(path, topic) if topic else 0)


def count_rows(path: str, mapping: CsvMapping) -> int:
    """The number of lines, which is an upper bound for rows: cells may contain line ends. Raises YakError."""
    return max(count_lines(path) - (0 if mapping.columns else 1), 0)
