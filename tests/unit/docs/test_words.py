"""What users read names its subjects, and has none of the words that readers of Kafka had to translate."""

import ast
import io
import re
import tokenize
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
    ROOT / "CHANGELOG.md",
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
PRIVATE = frozenset(
    [
        "account",
        "anew",
        "asked",
        "asks",
        "beat",
        "beats",
        "books",
        "heal",
        "healed",
        "heals",
        "hear",
        "heard",
        "hears",
        "judge",
        "judged",
        "kept",
        "look",
        "looked",
        "looks",
        "mend",
        "mended",
        "nobody",
        "office",
        "offices",
        "parted",
        "places",
        "shown",
        "somebody",
        "tally",
        "tell",
        "tells",
        "told",
        "verdict",
        "verdicts",
        "whoever",
        "words",
    ]
)
"""Parts of names that say nothing to a reader of Kafka's code: what is asked, told, kept, shown or looked at has a noun."""
PROMISED_NAMES = {"tell", "words", "break_long_words"}
"""Of Python's files, of textwrap, and of JSON that `yak spark status`, `yak chaos` and histories print."""
NO_SUBJECT = {"everything", "it", "its", "nothing", "one", "something", "there", "they", "this", "what", "whatever"}
TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
PRODUCT = ["commands", "tui", "spark", "packaging", "yak"]
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


@pytest.mark.parametrize("room", PRODUCT)
def test_name_in_code_has_no_word_that_needs_translation(room: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for name in _names(path)
        if name not in PROMISED_NAMES and not PRIVATE.isdisjoint(_parts(name))
    }
    assert found == set()


def test_name_of_a_test_names_its_subject() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in TEST.findall(path.read_text(encoding="utf-8"))
        if not (PRIVATE | {"who"}).isdisjoint(_parts(name)) or _parts(name)[1] in NO_SUBJECT
    }
    assert found == set()


def _names(path: Path) -> set[str]:
    """All identifiers of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def _parts(name: str) -> list[str]:
    """The words of an identifier: `ReadPlan` and `read_plan` have two."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
