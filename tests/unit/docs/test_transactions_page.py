"""docs/transactions.md names what there is: commands, options, errors."""

import re
from pathlib import Path

from yak.commands.help import EXPLANATIONS
from yak.commands.options import OPTIONS
from yak.commands.tree import command_tree

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "transactions.md").read_text(encoding="utf-8")
TREE = {node["name"]: node for node in command_tree()}
GLOBAL = set(OPTIONS)


def names_of(*nodes: dict) -> set[str]:
    return {name for node in nodes for parameter in node["parameters"] for name in parameter["names"]}


def test_every_option_of_the_page_is_one_and_every_option_is_on_the_page() -> None:
    own = names_of(*TREE["transactions"]["commands"])
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert named - own - names_of(TREE["produce"], TREE["consume"]) - GLOBAL == set()
    assert {name for name in own if name.startswith("--")} - GLOBAL <= named


def test_every_subcommand_has_its_section_and_every_error_its_help() -> None:
    sections = set(re.findall(r"^## `yak transactions (\w+)`$", PAGE, re.MULTILINE))
    assert sections == {node["name"] for node in TREE["transactions"]["commands"]}
    assert set(re.findall(r"error\[([a-z-]+)\]", PAGE)) <= set(EXPLANATIONS)
