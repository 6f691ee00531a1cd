"""A start that is refused: what it prints, and that it changed nothing."""

import hashlib
import re
from pathlib import Path
from typing import Any


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder with its content, mode and time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {content}"
    return found


def check_error(ran: Any, code: int, slug: str, *words: str) -> None:
    """Three parts, on stderr alone, without a traceback."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert re.search(rf"^error\[{slug}\]: .+", ran.err, re.MULTILINE), ran.err
    # A flag that does not exist needs no reason.
    assert slug == "usage" or re.search(r"^  why: +\S", ran.err, re.MULTILINE), ran.err
    assert re.search(r"^  try: +\S", ran.err, re.MULTILINE), ran.err
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err, ran.err
