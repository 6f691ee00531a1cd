"""Old words and singular nouns still find their commands."""

import pytest

from yak.commands import registry
from yak.commands.aliases import resolve


@pytest.mark.parametrize(
    ("args", "resolved"),
    [
        ("topic list", "topics list"),
        ("group describe g", "groups describe g"),
        ("broker list", "brokers list"),
        ("up --down --purge", "down --purge"),
        ("up --data-dir x --down", "down --data-dir x"),
        ("up kill 1 -o json", "node kill 1 -o json"),
        ("up -o json restart 1 --hard", "node restart -o json 1 --hard"),
        ("up add --role leader", "node add --role leader"),
        ("log --follow", "metadata log --follow"),
        ("log --at 42", "metadata snapshot --at 42"),
        ("log --data-dir x --at=42", "metadata snapshot --data-dir x --at=42"),
        ("up -d --brokers 3", "up -d --brokers 3"),
        ("topics list", "topics list"),
    ],
)
def test_old_command_names_resolve_to_the_current_ones(args: str, resolved: str) -> None:
    assert resolve(args.split()) == resolved.split()


def test_singular_name_runs_the_command(yak) -> None:
    ran = yak("topic", "--help")
    assert ran.code == 0
    assert ran.out == yak("topics", "--help").out


def test_each_command_with_a_plural_name_has_a_singular_one() -> None:
    plurals = [each.name for each in registry.ENTRIES if each.name.endswith("s") and each.name != "chaos"]
    assert "users" in plurals
    for plural in plurals:
        assert resolve([plural.removesuffix("s"), "list"]) == [plural, "list"]


def test_alias_is_not_in_the_help(yak) -> None:
    assert "\n  log " not in yak("--help").out
