"""Every file, page, module and name that the documentation and the docstrings name is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
WHEEL = re.compile(r"([\w/]+)/(?:yak_broker|pytest_yak)\S*\.whl")
PACKAGES = sorted(each for top in ("yak", "tui", "spark") for each in (ROOT / top).rglob("__init__.py"))
LISTED = re.compile(r"^ {0,4}((?:[a-z]\w+(?:\.py)?, )*[a-z]\w+(?:\.py)?)  ", re.MULTILINE)
"""A row of a list of modules: one or more names, and behind two spaces what they are."""
CODE = [
    *(each for top in ("yak", "commands", "tui", "spark") for each in (ROOT / top).rglob("*.py")),
    *(ROOT / "yak").rglob("*.lua"),
]
NAMED_IN_CODE = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")
OF_OTHERS = {"epoll_wait", "java_exception", "start_guest_run", "throttle_time_ms"}
"""Names of the kernel, Py4J, Trio and Kafka."""
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


def test_modules_that_the_docstrings_of_packages_list_exist() -> None:
    listed = [
        package.with_name(name.removesuffix(".py"))
        for package in PACKAGES
        for row in LISTED.findall(ast.get_docstring(ast.parse(package.read_text())) or "")
        for name in row.split(", ")
    ]
    assert len(listed) > 40
    assert [path for path in listed if not path.exists() and not path.with_suffix(".py").exists()] == []


def test_names_in_docstrings_and_comments_exist() -> None:
    texts = {path: path.read_text() for path in CODE}
    known = OF_OTHERS.union(*(re.findall(r"(?<!`)\b[a-z]+(?:_[a-z]+)+\b(?!`)", text) for text in texts.values()))
    named = [(path, name) for path, text in texts.items() for name in NAMED_IN_CODE.findall(text)]
    assert len(named) > 500
    assert [f"{path}: {name}" for path, name in named if name not in known] == []
