"""The commands of the tutorial and of the how-to pages, run as written and in their order, each page in an empty folder.

A mark above each block says that it is run, or why not: `<!-- run -->`, `<!-- run after: COMMANDS -->` with commands
that the page does not show, `<!-- not run: REASON -->`.
"""

from pathlib import Path

import pytest
import yaml
from support.doc_page import ROOT, Block, Reader, blocks, blocks_of

DOCS = ROOT / "docs"
OWN_TESTS = {
    "deployment.md": "tests/integration/test_deployment.py",
    "python.md": "tests/integration/test_python_page.py",
    "spark.md": "tests/spark/test_spark_page.py",
    "testing.md": "tests/integration/test_testing_plugin.py",
}
"""Pages whose blocks another test runs, all of them."""
LANGUAGES = {"sh", "python"}


def pages(*titles: str) -> list[str]:
    """The pages of these sections of the navigation."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [
        page if isinstance(page, str) else next(iter(page.values()))
        for section in yaml.safe_load(text)["nav"]
        for title, entries in section.items()
        if title in titles
        for page in entries
    ]


GUIDES = [page for page in pages("Tutorial", "How-to") if page not in OWN_TESTS]
RUN = [page for page in GUIDES if any(block.is_run for block in blocks(DOCS / page))]


@pytest.mark.parametrize(
    "page",
    # `make test` runs the tutorial's first page; the others take minutes, and are left to `make test-all`.
    [page if page == "tutorial/index.md" else pytest.param(page, marks=pytest.mark.thorough) for page in RUN],
)
@pytest.mark.timeout(240)
def test_blocks_of_the_page_work_as_written_and_in_their_order(page: str, reader: Reader) -> None:
    for block in blocks(DOCS / page):
        if block.is_run:
            reader.type(DOCS / page, block)


@pytest.mark.parametrize("page", GUIDES)
def test_every_block_of_commands_is_run_or_says_why_not(page: str) -> None:
    found = blocks(DOCS / page)
    assert [block.line for block in found if block.language in LANGUAGES and not block.has_valid_mark] == []
    assert [block.line for block in found if not block.language] == [], "a block without a language"


def test_pages_with_a_test_of_their_own_are_named_in_it() -> None:
    assert [page for page, test in OWN_TESTS.items() if page not in (ROOT / test).read_text(encoding="utf-8")] == []


def test_every_page_of_the_tutorial_is_run() -> None:
    assert set(pages("Tutorial")) <= set(RUN)


def test_blocks_have_their_marks_and_lose_the_indent_of_a_list() -> None:
    text = (
        "<!-- run -->\n```sh\nyak isr\n```\n\n1. Then:\n\n   <!-- run after: cd x -->\n\n   ```sh\n   a \\\n     b\n   ```\n"
        "<!-- not run: -->\n```sh\nc\n```\n<!-- not run: needs root -->\n```sh\nd\n```\n```python\ne\n```\n"
    )
    first, second, third, fourth, last = blocks_of(text)
    assert first == Block("sh", "yak isr\n", 2, "run")
    assert (second.text, second.preparation, second.line) == ("a \\\n  b\n", "cd x", 10)
    assert [each.has_valid_mark for each in (first, second, third, fourth, last)] == [True, True, False, True, False]
    assert [each.is_run for each in (third, fourth, last)] == [False, False, False]


def test_a_block_that_fails_fails_the_test_at_its_first_command(reader: Reader) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:7\nbefore\n"):
        reader.type(Path("page.md"), Block("sh", "echo before\nfalse\necho after\n", 7))
