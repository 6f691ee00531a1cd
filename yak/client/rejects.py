"""The rejected rows of a file, in a file beside it with the reason: to be corrected and sent again."""

import os
from collections.abc import Sequence
from typing import Final, TextIO

from yak.client.csv_files import csv_row
from yak.client.inputs import Row
from yak.errors import YakError

_OF_THE_ROW: Final = ("record-too-large", "bad-timestamp", "unknown-partition")
_INVALID_RECORD: Final = 87
_INVALID_DIFFERENT_RECORD: Final = -138
"""librdkafka's code for the valid rows of a batch that was refused because of an invalid one (KIP-467)."""


def is_of_the_row(error: YakError) -> bool:
    """Whether the cluster refused a record for its contents: it would do so again."""
    return error.code in _OF_THE_ROW or error.kafka_code in (_INVALID_RECORD, _INVALID_DIFFERENT_RECORD)


def rejects_path(path: str) -> str:
    """`orders.csv.rejected.csv`."""
    return f"{path}.rejected.csv"


class Rejects:
    """`NAME.rejected.csv`: reason, row (from 1), line of the file, and the cells. Created with the first bad row.

    A resumed run appends to the earlier run's file. Raises YakError (`file`) when it cannot be written.
    """

    def __init__(self, path: str, *, is_resumed: bool) -> None:
        self.path = path
        self.count = 0
        self._is_resumed = is_resumed
        self._file: TextIO | None = None

    def add(self, row: Row, columns: Sequence[str], reason: str = "") -> None:
        """Add a row; `reason` overrides the row's own problem."""
        self.count += 1
        try:
            if self._file is None:
                self._file = self._opened(columns)
            _write(self._file, [reason or row.problem, row.number + 1, row.line or "", *row.cells])
            self._file.flush()  # whole rows, to which a resumed run appends
        except OSError as error:
            raise YakError(
                "file",
                f"{self.path} cannot be written",
                why=f"{error.strerror}; rows that are not sent are put there",
                try_=("copy the file to a directory that you may write to",),
            ) from None

    def _opened(self, columns: Sequence[str]) -> TextIO:
        goes_on = self._is_resumed and os.path.exists(self.path)
        file = open(  # noqa: SIM115  (closed by `close`)
            self.path, "a" if goes_on else "w", encoding="utf-8", errors="backslashreplace", newline=""
        )
        if not goes_on:
            _write(file, ["reason", "row", "line", *columns])
        return file

    def keep(self) -> None:
        """Make the rows durable, before a checkpoint counts them as settled. Raises OSError."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _write(file: TextIO, cells: Sequence[object]) -> None:
    file.write(csv_row(cells))
