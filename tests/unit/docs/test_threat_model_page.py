"""docs/threat-model.md names a test for each threat, and each test that it names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = [row.strip("|").split("|") for row in PAGE.partition("\n## Threats\n")[2].splitlines() if row.startswith("| **")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip(" *"))
def test_every_threat_has_a_protection_and_a_test(row: list[str]) -> None:
    _threat, protection, tests = row
    assert protection.strip()
    named = TEST.findall(tests)
    assert named
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert test in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }, (file, test)
