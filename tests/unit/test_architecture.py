"""docs/architecture.md names files, symbols and bounds of the code; CONTRIBUTING.md has the map of its imports."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from yak.broker.delayed_leader_requests import DECISION_MS_MAX
from yak.lifecycle.failure_watch import PROBE_MS_MAX
from yak.limits import ALONE_TURNS, HEAVY_SLICES, LARGE_REQUEST_ELEMENTS, TURN_SLICE_ALONE_NS
from yak.partitions.maintenance import SLICE_PARTITIONS
from yak.partitions.metadata_loader import PARTITIONS_A_SLICE
from yak.replication.fetch_sessions import WATERMARK_WAIT_MS
from yak.replication.replica_fetchers import PARTITIONS_A_FETCH

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
QUESTIONS = 19
REFERENCE = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
PATH = re.compile(r"`((?:yak|tui|spark|commands|tests)/[\w/.]+\.(?:py|lua))")


def rows() -> list[str]:
    section = PAGE.read_text().split("## Nineteen questions", 1)[1].split("\n## ", 1)[0]
    return [
        line for line in section.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| question"))
    ]


def symbols(path: Path) -> set[str]:
    """Classes, functions and constants of a module, and the methods of its classes as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {node.name} | {
                f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def test_table_of_questions_has_an_answer_in_each_row():
    assert len(rows()) == QUESTIONS
    assert all(REFERENCE.search(row) for row in rows())


@pytest.mark.parametrize("row", rows(), ids=[row.split("|")[1].strip() for row in rows()])
def test_answer_to_a_question_names_symbols_that_exist(row):
    for path, symbol in REFERENCE.findall(row):
        assert symbol in symbols(ROOT / path), f"{path} has no {symbol}"


def test_architecture_page_names_files_that_exist():
    named = set(PATH.findall(PAGE.read_text()))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("architecture.md", f"used up {HEAVY_SLICES} slices without a pause"),
        ("architecture.md", f"slices of {TURN_SLICE_ALONE_NS // 1_000_000} ms after {ALONE_TURNS} turns"),
        ("architecture.md", f"has more than {LARGE_REQUEST_ELEMENTS:,} elements"),
        ("architecture.md", f"applies the new image to {PARTITIONS_A_SLICE} partitions a turn"),
        ("architecture.md", f"the expiry of producers process {SLICE_PARTITIONS} logs a turn"),
        ("architecture.md", f"(fetch sessions, KIP-227), at most {PARTITIONS_A_FETCH};"),
        ("architecture.md", f"with the next records, or {WATERMARK_WAIT_MS} ms later"),
        ("architecture.md", f"waits for the decision, {DECISION_MS_MAX} ms at most"),
        ("architecture.md", f"delays the first answer by {PROBE_MS_MAX} ms"),
        ("reliability.md", f"applies the new metadata {PARTITIONS_A_SLICE} partitions a turn"),
    ],
)
def test_pages_have_the_bounds_of_the_code(page: str, words: str) -> None:
    assert words in " ".join((ROOT / "docs" / page).read_text().split())


def test_map_of_contributing_has_the_layers_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "layers")
    layer_of = {name: number for number, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    drawn = (ROOT / "CONTRIBUTING.md").read_text().split("Imports point down only:\n\n```\n")[1].split("```")[0]
    rows = [line.split("  ")[0].split(" | ") for line in drawn.splitlines() if not line.startswith(" ")]
    numbers = [[layer_of[name] for name in row] for row in rows]
    assert (
        [min(row) for row in numbers]
        == [max(row) for row in numbers]
        == sorted({each for row in numbers for each in row})
    )
    packages = {path.parent.name for path in (ROOT / "yak").glob("*/__init__.py")}
    assert packages <= {name for row in rows for name in row}
