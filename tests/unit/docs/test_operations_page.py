"""docs/operations.md names what there is: states, log events, errors, configs, exit codes."""

import re
from pathlib import Path

import pytest

from yak.cluster import records
from yak.cluster.broker_lifecycle import LifecycleState
from yak.commands.help import EXIT_CODES, EXPLANATIONS
from yak.config.broker_configs import BROKER_CONFIGS
from yak.config.topic_configs import TOPIC_CONFIGS
from yak.view.broker_state import SeenState

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "yak").rglob("*.py"))


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(text: str) -> list[str]:
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)[2:]
    return [name for row in rows for name in re.findall(r"`(.*?)`", row)]


def test_states_of_brokers_and_sessions_are_explained_and_no_others() -> None:
    assert sorted(first_column(section("States of a broker"))) == sorted(SeenState)
    assert sorted(first_column(section("Sessions with the metadata store"))) == sorted(LifecycleState)


def test_states_of_brokers_include_those_of_a_registration() -> None:
    assert set(records.BrokerState) - set(SeenState) == set()


def test_every_event_of_the_table_is_written_by_the_broker() -> None:
    events = first_column(section("Log lines"))
    assert len(events) > 20
    assert [event for event in events if f'"{event}"' not in SOURCES] == []


@pytest.mark.parametrize("title", ["Files", "Start, stop, upgrade", "Redis is down, emptied, or rolled back"])
def test_every_name_of_an_error_has_its_help(title: str) -> None:
    known = set(EXPLANATIONS)
    named = re.findall(r"\(`([a-z]+(?:-[a-z]+)+)`\)", section(title))
    assert [name for name in named if name not in known and f'"{name}"' not in SOURCES] == []


def test_every_setting_is_a_config_that_has_an_effect() -> None:
    configs = {**TOPIC_CONFIGS, **BROKER_CONFIGS}
    names = first_column(section("Settings that matter"))
    assert len(names) > 10
    assert [name for name in names if name not in configs or not configs[name].has_effect] == []


def test_the_exit_codes_are_the_programs() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", section("Exit codes"), re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} == {code for code, _ in EXIT_CODES}
