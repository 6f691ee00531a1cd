"""Prose in the documents has at most 100 columns. Tables, code and pages that a command writes may be wider."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = 100
CODE = re.compile(r"`[^`]*`")
"""A line breaks before or after it, not within."""
WIDE = ("|", "#", "<", "![")
WRITTEN_BY_A_COMMAND = {"clients.md", "kafka-apis.md", "kafka-tests.md"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in WRITTEN_BY_A_COMMAND], ids=lambda p: p.name
)
def test_prose_is_wrapped(page):
    is_code, wide = False, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        is_mark = line.lstrip().startswith("```")
        is_code ^= is_mark
        can_break = " " in CODE.sub("", line).strip()
        if not is_code and not is_mark and len(line) > COLUMNS and can_break and not line.lstrip().startswith(WIDE):
            wide.append(number)
    assert wide == []
