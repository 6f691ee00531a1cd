"""Feeds a run from a CSV file with little memory. Invalid rows are set aside, and a checkpoint saves the progress.

Rows that are refused for their own contents go to `NAME.rejected.csv`, and the rest is sent. Another failure (no broker
answers) ends the run; the next run resumes at the first row that is not settled.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from yak.client.checkpoint import Checkpoint
from yak.client.csv_files import TextLines
from yak.client.errors import KafkaFailure
from yak.client.inputs import CsvMapping, Row
from yak.client.metadata import Topic
from yak.client.produce import Failed, Outgoing, RecordSender
from yak.client.rejects import Rejects, rejects_path
from yak.errors import UsageError, YakError
from yak.tui.produce.csv_look import partition_problem, read_rows

KEEP_EVERY_S: Final = 0.5
OF_THE_ROW: Final = ("record-too-large", "bad-timestamp", "unknown-partition")
INVALID_RECORD: Final = 87
INVALID_DIFFERENT_RECORD: Final = -138
"""librdkafka's code for the valid rows of a batch that was refused because of an invalid one (KIP-467)."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """The progress in a file, including rows of an earlier run; `rejected` counts rows of this run only."""

    rows_read: int = 0
    rows_skipped: int = 0
    settled: int = 0
    rejected: int = 0
    bytes_read: int = 0


def checkpoint_path(path: str, topic: str) -> str:
    """`orders.csv.TOPIC.checkpoint`; `--resume` of `yak produce` accepts it too."""
    return f"{path}.{topic}.checkpoint"


def rows_settled(path: str, topic: str) -> int:
    """Rows of this file that an earlier run settled; 0 without one, or if the file has changed.

    Raises YakError (`file`, `resume-unreadable`).
    """
    with _readable(path):
        try:
            return Checkpoint(checkpoint_path(path, topic), path, topic).read()
        except UsageError:
            return 0


class FileFeed:
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
        self._lines: TextLines | None = None
        self._in_flight: dict[int, Row] = {}
        self._sender: RecordSender | None = None
        self._checkpoint: Checkpoint | None = None
        self._kept_at = 0.0
        self._rows_read = 0
        self.progress = FileProgress()
        """Replaced as a whole; any thread may read it."""

    def open(self, topic: Topic) -> None:
        """Write a first checkpoint, so that an unwritable directory is noticed before anything is sent."""
        self._partitions = len(topic.partitions)
        with _readable(self.path):
            self._checkpoint = Checkpoint(checkpoint_path(self.path, self._topic), self.path, self._topic)
        self._keep(self._skip)

    def messages(self, sender: RecordSender) -> Iterator[tuple[int, Outgoing]]:
        """Each valid row, numbered from the first that is not skipped."""
        self._sender = sender
        for source, lines, row in read_rows(self.path, self._mapping, self._encoding):
            self._columns, self._lines = source.columns, lines
            self._rows_read = row.number + 1
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
        """The row is written."""
        self._in_flight.pop(number, None)

    def failed(self, failure: Failed) -> str:
        """Set the row aside if its contents are the cause; else end the run."""
        row = self._in_flight.pop(failure.number, None)
        assert row is not None, "a row fails once, after it was sent"
        code = failure.error.kafka_code if isinstance(failure.error, KafkaFailure) else None
        if failure.error.code in OF_THE_ROW or code in (INVALID_RECORD, INVALID_DIFFERENT_RECORD):
            self._reject(failure.number, row, failure.reason)
            return ""
        return failure.reason

    def moment(self, sender: RecordSender) -> None:
        """Save the progress, twice a second."""
        self._show(sender)
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._keep(self._skip + sender.prefix.length)

    def close(self, sender: RecordSender | None, is_complete: bool) -> None:
        """Delete the checkpoint of a complete upload, so that the next one starts at the beginning; else save it."""
        self.rejects.close()
        if sender is None or self._checkpoint is None:
            return
        self._show(sender)
        if is_complete:
            os.remove(self._checkpoint.path)
        else:
            self._keep(self._skip + sender.prefix.length)

    def _reject(self, place: int, row: Row, why: str) -> None:
        self.rejects.add(row, self._columns, why)
        assert self._sender is not None
        self._sender.settle_rejected(place)

    def _show(self, sender: RecordSender) -> None:
        self.progress = FileProgress(
            rows_read=self._rows_read,
            rows_skipped=self._skip,
            settled=self._skip + sender.prefix.length,
            rejected=self.rejects.count,
            bytes_read=self._lines.bytes_read if self._lines is not None else 0,
        )

    def _keep(self, rows: int) -> None:
        assert self._checkpoint is not None
        self._kept_at = time.monotonic()
        try:
            self._checkpoint.write(rows)
        except OSError as error:
            raise YakError(
                "file",
                f"{self._checkpoint.path} cannot be written",
                why=f"{error.strerror}; it is where an upload that was stopped goes on",
                try_=("copy the file to a directory that you may write to",),
            ) from None


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise YakError(
            "file", f"{path} cannot be read", why=str(error.strerror), try_=("check the path; nothing was sent",)
        ) from None
