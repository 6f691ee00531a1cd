"""An error for people, alike from the command line and from Spark's processes. Pure."""

from collections.abc import Callable

from yak.errors import YakError
from yak.plain_text import one_line


def error_lines(error: YakError, paint_head: Callable[[str], str] = str) -> list[str]:
    """What happened, why, and what to try, in at most five lines, whatever the texts contain."""
    lines = [paint_head(f"error[{error.code}]:") + f" {one_line(error.message)}"]
    if error.why:
        lines.append("  why:  " + one_line(" ".join(error.why.split("\n"))))
    for index, step in enumerate(error.try_[:3]):
        lines.append(("  try:  " if index == 0 else "        ") + one_line(step))
    return lines
