"""The terminal: size, colours, and whether it can display the symbols of tables."""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from yak.local.checks.finding import Finding

MIN_COLUMNS: Final = 80
MIN_ROWS: Final = 24


def check_terminal(environment: Mapping[str, str] | None = None) -> Finding:
    """One finding about this terminal; skipped when the output is no terminal."""
    env = os.environ if environment is None else environment
    if not sys.stdout.isatty():
        return Finding("terminal", "skip", "the output is not a terminal")
    size = shutil.get_terminal_size((0, 0))
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    colours = _colours(env)
    detail = f"{size.columns}x{size.lines}, {colours}, {encoding}"
    if encoding != "utf8":
        return Finding("terminal", "warn", f"{detail}: signs may be shown as ?", "export LC_ALL=C.UTF-8")
    if size.columns < MIN_COLUMNS or size.lines < MIN_ROWS:
        return Finding("terminal", "warn", detail, f"make it at least {MIN_COLUMNS}x{MIN_ROWS}")
    return Finding("terminal", "ok", detail)


def _colours(environment: Mapping[str, str]) -> str:
    if environment.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if environment.get("COLORTERM") in {"truecolor", "24bit"}:
        return "16 million colours"
    term = environment.get("TERM", "")
    if "256color" in term:
        return "256 colours"
    return "no colours" if term in {"", "dumb"} else "16 colours"
