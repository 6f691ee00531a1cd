"""Every file and every page that the documentation names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
WHEEL = re.compile(r"([\w/]+)/(?:yak_broker|pytest_yak)\S*\.whl")
NAMED = re.compile(r"`((?:yak|commands|tests|packaging|docs)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_file_names_in_the_documentation_point_to_existing_files(page: Path) -> None:
    text = page.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link and not (page.parent / link).exists()]
    names = [name for name in NAMED.findall(text) if not (ROOT / name).exists()]
    assert links + names == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_wheels_in_the_documentation_are_in_the_folder_of_make_wheels(page: Path) -> None:
    assert {*WHEEL.findall(page.read_text())} <= {"build/wheel"}
