"""The generated reference has an entry for every command, config, metric, error and route, and for what was run."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.commands import registry
from yak.commands.app import CommandGroup, load
from yak.commands.help import EXPLANATIONS
from yak.config.broker_config_table import BROKER_CONFIGS
from yak.config.group_configs import GROUP_CONFIGS
from yak.config.topic_config_table import TOPIC_CONFIGS
from yak.server.http.openapi import openapi_path
from yak.server.http.routes import ROUTES

ROOT = Path(__file__).resolve().parents[3]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load_script()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name.removeprefix("reference/"): text for name, text in SCRIPT.pages().items()}


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)


def test_every_command_has_a_page_with_the_help_of_each_subcommand(pages: dict[str, str]) -> None:
    for entry in registry.ENTRIES:
        text = pages[f"commands/{entry.name}.md"]
        assert f"commands/{entry.name}.md" in pages["commands.md"]
        found = load(entry)
        names = list(found.visible()) if isinstance(found, CommandGroup) else []
        assert headings(text, 2) == [f"yak {entry.name} {name}" for name in names]
        assert text.count("Usage: yak ") == max(1, len(names))


def test_help_is_what_the_commands_print(pages: dict[str, str]) -> None:
    golden = ROOT / "tests" / "unit" / "commands" / "golden" / "help"
    for entry in registry.ENTRIES:
        found = load(entry)
        names = [f"-{name}" for name in found.visible()] if isinstance(found, CommandGroup) else [""]
        for name in names:
            printed = (golden / f"{entry.name}{name}.txt").read_text(encoding="utf-8")
            assert f"```text\n{printed.strip()}\n```" in pages[f"commands/{entry.name}.md"]


def test_every_config_is_there_with_its_default(pages: dict[str, str]) -> None:
    text = pages["configs.md"]
    names = headings(text, 3)
    for table in (BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS):
        assert [name for name in table if name not in names] == []
    assert "### replica.lag.time.max.ms\n\n`long`, default `10000`, " in text
    assert "only its default is accepted" in text


def test_every_metric_is_there_with_its_help(pages: dict[str, str]) -> None:
    sources = (ROOT / "yak" / "server" / "http" / "metrics").glob("*.py")
    names = {
        name
        for path in sources
        for name in re.findall(r'= (?:counter|gauge|histogram)\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert len(names) > 60
    rows = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.+) \|$", pages["metrics.md"], re.MULTILINE))
    assert [name for name in names if not rows.get(name)] == []
    assert any(not name.startswith("yak_") for name in rows)


def test_every_error_is_explained(pages: dict[str, str]) -> None:
    assert headings(pages["errors.md"], 2) == sorted(EXPLANATIONS)


def test_every_route_is_there(pages: dict[str, str]) -> None:
    found = headings(pages["http-routes.md"], 3)
    assert sorted(found) == sorted(f"{route.method} {openapi_path(route.path)}" for route in ROUTES)


def test_every_client_and_program_has_a_version(pages: dict[str, str]) -> None:
    rows = [line.split(" | ") for line in pages["compatibility.md"].splitlines() if line.startswith("| ")][1:]
    rows = [row for row in rows if not row[0].startswith("| ---")]
    assert len(rows) == len(SCRIPT.rows("clients.md", "Library")) + len(SCRIPT.rows("programs.md", "program"))
    assert len(rows) > 15
    assert [row for row in rows if not re.match(r"\d", row[1])] == []


@given(st.text(alphabet="ab<>|_*[]`\n &", max_size=40))
def test_a_cell_stays_a_cell(text: str) -> None:
    made = SCRIPT.cell(text)
    assert "\n" not in made
    assert not re.search(r"(?<!\\)\|", made)
