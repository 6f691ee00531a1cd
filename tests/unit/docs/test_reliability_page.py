"""docs/reliability.md names tests, checks, commands, faults and anomalies that there are, and leaves none out."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from yak.commands.tree import command_tree
from yak.local.chaos.schedule import KINDS
from yak.sim.history_checker.anomalies import MEANINGS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED_TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
COMMANDS = sorted(set(re.findall(r"`(yak [^`]+)`", PAGE)))
TREE = {command["name"]: command for command in command_tree()}


def rows(title: str) -> dict[str, list[str]]:
    """The rows of a section's table by their first cell."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in cells[2:]}


def words(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_fault_and_every_invariant_has_its_row() -> None:
    assert list(rows("The faults")) == [f"F{number}" for number in range(1, 25)]
    wanted = [*(f"I{number}" for number in range(1, 22)), *(f"L{number}" for number in range(1, 6))]
    assert list(rows("The invariants")) == wanted


def test_every_row_says_how_it_is_checked() -> None:
    for name, cells in {**rows("The faults"), **rows("The invariants")}.items():
        assert len(cells) == 4, name
        assert "tests/" in cells[3], name


@pytest.mark.parametrize(("file", "test"), NAMED_TESTS)
def test_every_test_that_is_named_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_check_of_the_simulator_that_is_named_is_there() -> None:
    named = set(re.findall(r"`(yak/sim/[\w/]+(?:\.py)?)`", PAGE))
    assert len(named) > 8
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_that_is_named_can_be_typed(line: str) -> None:
    name, *rest = shlex.split(line)[1:]
    command = TREE[name]
    if "commands" in command:
        leaves = {leaf["name"]: leaf for leaf in command["commands"]}
        command = leaves[rest.pop(0)]
    options = {option for parameter in command["parameters"] for option in parameter["names"]}
    assert [word for word in rest if word.startswith("-") and word not in options] == []


def test_the_faults_of_a_chaos_run_stand_beside_their_numbers() -> None:
    found = {name: words(cells[1]) for name, cells in rows("The faults").items()}
    for kind in KINDS:
        assert kind.name in found[kind.number], kind.name
    assert {name for each in found.values() for name in each} == {kind.name for kind in KINDS}


def test_every_anomaly_is_explained_and_stands_beside_its_invariant() -> None:
    section = PAGE.partition("\n| anomaly |")[2].partition("\n\n")[0]
    explained = {word for line in section.splitlines() for word in words(line.split("|")[1] if "|" in line else "")}
    assert explained == set(MEANINGS)
    judged = {name: words(cells[1]) for name, cells in rows("The invariants").items()}
    assert [kind for kind, (invariant, _) in MEANINGS.items() if kind not in judged[invariant]] == []
