"""Facts about a file before it is sent, collected in a thread."""

from dataclasses import dataclass

from yak.client.csv_files import count_lines
from yak.client.inputs import CsvMapping
from yak.tui.produce.csv_look import CsvLook, look_at
from yak.tui.produce.upload import rows_settled


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file, its mapping, and the number of rows that an earlier upload to the topic has settled."""

    look: CsvLook
    mapping: CsvMapping
    settled: int


def prepare(path: str, mapping: CsvMapping, *, topic: str, encoding: str | None, partitions: int | None) -> FilePlan:
    """Inspect a file for sending. Raises YakError."""
    look = look_at(path, mapping, encoding=encoding, partitions=partitions)
    return FilePlan(look, mapping, rows_settled(path, topic) if topic else 0)


def count_rows(path: str, mapping: CsvMapping) -> int:
    """The number of lines, which is an upper bound for rows: cells may contain line ends. Raises YakError."""
    lines = count_lines(path) or 0
    return max(lines - (0 if mapping.columns else 1), 0)
