"""Formats a row as a line of CSV."""

import csv
import io
from collections.abc import Sequence


def csv_row(cells: Sequence[object]) -> str:
    """The row as a line that ends with LF. Cells with CR are quoted too: readers take CR for a line end, and Python
    before 3.13 only quotes the characters of its own line terminator."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"
