"""What is known of a file before it is sent: looked up in a thread, for the screen to ask about."""

from dataclasses import dataclass

from yak.client.csv_files import count_lines
from yak.client.inputs import CsvMapping
from yak.tui.produce.csv_look import CsvLook, look_at
from yak.tui.produce.upload import rows_settled


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file, how it is mapped, and how many of its rows an earlier upload to that topic has settled."""

    look: CsvLook
    mapping: CsvMapping
    settled: int


def prepare(path: str, mapping: CsvMapping, *, topic: str, encoding: str | None, partitions: int | None) -> FilePlan:
    """Look at a file as it would be sent. Raises YakError."""
    look = look_at(path, mapping, encoding=encoding, partitions=partitions)
    return FilePlan(look, mapping, rows_settled(path, topic) if topic else 0)


def count_rows(path: str, mapping: CsvMapping) -> int:
    """Rows by the number of lines: at most so many, for cells may have line ends. Raises YakError."""
    lines = count_lines(path) or 0
    return max(lines - (0 if mapping.columns else 1), 0)
