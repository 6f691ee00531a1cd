"""No page has a place that somebody meant to fill in later."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packaging").rglob("*.md")])
OPEN = re.compile(
    r"@@\w*|\b(?:TODO|FIXME|TBD|XXX|PLACEHOLDER)\b|\blorem ipsum\b|\?\?\?|<(?:insert|output|fill)\b[^>]*>"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_finished(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if OPEN.search(line)] == []


@pytest.mark.parametrize("line", ["@@CURL1@@", "see TODO", "<insert output>", "took ??? ms"])
def test_a_place_left_open_is_found(line: str) -> None:
    assert OPEN.search(line)
