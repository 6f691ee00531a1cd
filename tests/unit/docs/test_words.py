"""What users read names its subjects, and has none of the words that readers of Kafka had to translate."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TRANSLATED = re.compile(
    r"\b(anew|whoever|whosoever|somebody|nobody|mend(ed|s)?|leaderships|guests?|candidacy|deposed|seams?|dice)\b",
    re.IGNORECASE,
)
"""Each with its replacement in Kafka's terms: again, the client, no broker, repair, leaders, external broker, ..."""
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "commands" / "error_help.toml",
]
CODE = re.compile(r"`[^`]*`|^```.*?^```", re.MULTILINE | re.DOTALL)
"""Names of files, tests and JSON keys are not sentences."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_for_users_has_no_word_that_needs_translation(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    assert [line.strip()[:120] for line in text.splitlines() if TRANSLATED.search(line)] == []
