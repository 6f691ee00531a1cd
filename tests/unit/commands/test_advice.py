"""The commands that errors advise exist, with the options that the advice gives them."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from yak.commands.options import OPTIONS
from yak.commands.tree import command_tree

TREE = command_tree()
ROOT = Path(__file__).parents[3]
PLACES = ("commands", "spark", "tui", "yak")


def advised_commands(code: str) -> list[str]:
    """The texts in `code` that are a whole command: `yak …` in `try_=`, or in a table of advice."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword) and node.arg == "try_":
            texts: ast.expr | None = node.value
        elif isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "_TRY" for to in node.targets):
            texts = node.value
        else:
            continue
        assert texts is not None
        constants = [each.value for each in ast.walk(texts) if isinstance(each, ast.Constant)]
        found += [each for each in constants if isinstance(each, str) and is_command(each)]
    return found


def is_command(text: str) -> bool:
    """Whether a text of an advice is a command, and not a piece of one, a sentence, or `yak …` for any command."""
    return text.startswith("yak ") and not text.endswith(" ") and not re.search("[…,]", text)


def fault_of(advice: str) -> str:
    """What is wrong with a command line: an unknown subcommand or option, or ''."""
    line, *_comment = advice.split("  ")
    args = shlex.split(line)[1:]
    known = {"--help", *OPTIONS}
    nodes = TREE
    while nodes and args and not args[0].startswith("-"):
        found = next((node for node in nodes if node["name"] == args[0]), None)
        if found is None:
            return f"no command {args[0]!r}"
        known |= {name for parameter in found.get("parameters", ()) for name in parameter["names"]}
        nodes, args = found.get("commands", []), args[1:]
    for word in args:
        if word.startswith("-") and word != "-" and word.split("=")[0] not in known:
            return f"no option {word}"
    return ""


def advice() -> list[tuple[str, str]]:
    """File and command of each advice in the product."""
    files = sorted(each for place in PLACES for each in (ROOT / place).rglob("*.py"))
    codes = ((str(each.relative_to(ROOT)), each.read_text()) for each in files)
    return [(name, text) for name, code in codes if '"yak ' in code for text in advised_commands(code)]


def test_commands_that_errors_advise_exist_with_their_options() -> None:
    pairs = advice()
    assert len(pairs) > 50
    faults = [f"{file}: {text}: {fault}" for file, text in pairs if (fault := fault_of(text))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("text", ["yak isr --no-such-option", "yak topic-list", "yak topics lst"])
def test_an_advice_that_does_not_exist_is_found(text: str) -> None:
    assert fault_of(text)
