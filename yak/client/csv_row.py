"""A row of CSV as a line."""

import csv
import io
from collections.abc import Sequence


def csv_row(cells: Sequence[object]) -> str:
    """Ends with LF. Cells with CR are quoted too: Python before 3.13 quotes only what the line end has in it, and readers take CR for one."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().removesuffix("\r\n") + "\n"
