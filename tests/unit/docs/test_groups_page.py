"""docs/groups.md names what there is: commands, options, errors."""

import re
import shlex
from pathlib import Path

from yak.commands.groups import rewrite
from yak.commands.help import EXPLANATIONS
from yak.commands.options import OPTIONS
from yak.commands.tree import command_tree

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "groups.md").read_text(encoding="utf-8")
TREE = {node["name"]: node for node in command_tree()}
GLOBAL = set(OPTIONS)
KAFKAS = {"--list", "--describe", "--members", "--reset-offsets", "--delete", "--group"}
"""Options of Kafka's own tool, which `rewrite` understands."""


def names_of(node: dict) -> set[str]:
    return {name for parameter in node["parameters"] for name in parameter["names"]}


def test_every_option_of_the_page_is_one_and_every_option_is_on_the_page() -> None:
    groups = {name for node in TREE["groups"]["commands"] for name in names_of(node)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert named - groups - names_of(TREE["consume"]) - GLOBAL - KAFKAS == set()
    long = {name for name in groups if name.startswith("--")} - {"--lag", "--time", "--to-datetime", "--if-exists"}
    assert long - named == set()


def test_every_command_line_of_the_page_has_options_that_its_command_has() -> None:
    lines = re.findall(r"^\$ (yak .*)$", PAGE, re.MULTILINE)
    assert len(lines) > 6
    for line in lines:
        _, command, *words = shlex.split(line)
        node = TREE[command]
        if "commands" in node:
            name, *words = rewrite(words)
            node = next(each for each in node["commands"] if each["name"] == name)
        used = {word for word in words if word.startswith("--")}
        assert used <= names_of(node) | GLOBAL, line


def test_every_subcommand_has_its_section_and_every_error_its_help() -> None:
    sections = set(re.findall(r"^## `yak groups (\w+)`$", PAGE, re.MULTILINE))
    assert sections == {node["name"] for node in TREE["groups"]["commands"]}
    errors = re.findall(r"error\[([a-z-]+)\]", PAGE)
    assert errors
    assert set(errors) <= set(EXPLANATIONS)
