"""What users read names its subjects, and has none of the words that readers of Kafka had to translate."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TRANSLATED = re.compile(
    r"\b(anew|whoever|whosoever|somebody|nobody|mend(ed|s)?|leaderships|guests?|candidacy|deposed|seams?|dice)\b",
    re.IGNORECASE,
)
"""Each with its replacement in Kafka's terms: again, the client, no broker, repair, leaders, external broker, ..."""
LETTERS = re.compile(TRANSLATED.pattern.replace(r"\b", ""), re.IGNORECASE)
"""Code without them, also behind an escaped line break, has none of the words, and need not be parsed."""
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "commands" / "error_help.toml",
]
ROOMS = [
    "commands",
    "tui",
    "spark",
    "packaging",
    "yak/client",
    "yak/config",
    "yak/local",
    "yak/server",
    "yak/testing",
    "yak/view",
    "yak/views",
]
"""Packages whose texts reach users."""
JSON_KEYS = {"guest", "guests"}
"""Of `GET /metadata/...` and the file of external brokers: promised names."""
CODE = re.compile(r"`[^`]*`|^```.*?^```", re.MULTILINE | re.DOTALL)
"""Names of files, tests and JSON keys are not sentences."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_for_users_has_no_word_that_needs_translation(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    assert [line.strip()[:120] for line in text.splitlines() if TRANSLATED.search(line)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_text_in_code_has_no_word_that_needs_translation(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {text[:120]}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for number, text in _texts(path)
        if TRANSLATED.search(text) and text not in JSON_KEYS
    ]
    assert found == []


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of all texts in a module, docstrings too: those of commands are their help."""
    code = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(code)) if LETTERS.search(code) else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, line.strip()) for line in node.value.splitlines())
