"""Help of every command, at 100 columns; the registry's lines; and what `yak --help` costs."""

import json
import re
import resource
import subprocess
import sys

import pytest

from yak.commands import registry
from yak.commands.app import CommandGroup, load
from yak.config.broker_configs import BrokerConfig
from yak.config.topic_configs import validate_topic_config

CONFIG = re.compile(r"(?:-c|--config|--set) ([a-z]+(?:\.[a-z.]+)+)=(\S+)")
LEAVES = [
    (entry.name, name)
    for entry in registry.ENTRIES
    for found in [load(entry)]
    for name in (found.leaves if isinstance(found, CommandGroup) else [None])
]


def test_the_overview_is_as_agreed(yak, golden):
    ran = yak("--help")
    assert ran.code == 0
    golden("help/yak.txt", ran.out)
    assert yak("-h").out == ran.out
    assert yak("help").out == ran.out


@pytest.mark.parametrize(("command", "leaf"), LEAVES)
def test_the_help_of_each_command_is_as_agreed(yak, golden, command, leaf):
    args = [command] + ([leaf] if leaf else [])
    ran = yak(*args, "--help")
    assert ran.code == 0, ran.err
    golden(f"help/{'-'.join(args)}.txt", ran.out)


@pytest.mark.parametrize(("command", "leaf"), LEAVES)
def test_every_command_shows_examples_that_begin_with_its_name(command, leaf):
    entry = registry.BY_NAME[command]
    found = load(entry)
    examples = found.leaves[leaf].examples if leaf else found.examples
    assert examples
    assert any(f"yak {command}" in example for example in examples)


@pytest.mark.parametrize(("command", "leaf"), LEAVES)
def test_configs_in_examples_are_accepted(command: str, leaf: str | None) -> None:
    found = load(registry.BY_NAME[command])
    for example in (found.leaves[leaf] if leaf else found).examples:
        for name, value in CONFIG.findall(example):
            if command == "topics":
                validate_topic_config(name, value)
            else:
                BrokerConfig.from_settings({name: value})


def test_groups_have_their_own_overview(yak, golden):
    for name in (
        "topics", "groups", "transactions", "brokers", "node", "metadata", "quorum", "context", "demo", "chaos",
        "spark",
    ):  # fmt: skip
        golden(f"help/{name}.txt", yak(name, "--help").out)


@pytest.mark.parametrize("entry", registry.ENTRIES, ids=lambda entry: entry.name)
def test_the_registry_says_what_the_command_says(entry):
    found = load(entry)
    assert found.summary == entry.summary
    assert entry.summary.endswith(".")
    assert entry.section in registry.SECTIONS


def test_help_needs_neither_typer_nor_the_client_library_and_little_time():
    script = (
        "import sys, runpy; sys.argv = ['yak', '--help']\n"
        "try: runpy.run_module('yak.commands.main', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'typer', 'confluent_kafka', 'trio', 'redis', 'kio', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent_s < 0.35


def test_the_command_tree_lists_every_option(yak):
    tree = json.loads(yak("help", "--json").out)
    commands = {command["name"]: command for command in tree["commands"]}
    assert set(commands) == {entry.name for entry in registry.ENTRIES}
    produce = {name for parameter in commands["produce"]["parameters"] for name in parameter["names"]}
    assert {"--message", "-m", "--csv-key", "--resume", "--dry-run"} <= produce
    assert "--property" not in produce
    assert tree["exit_codes"]["5"]
