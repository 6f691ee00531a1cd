"""docs/spark.md: its tutorial is typed line by line and prints what the page says; its jobs and options are those there are."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from yak.local import ports
from yak.spark.jobs import MODULES, load

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIAL = PAGE[PAGE.index("## Tutorial") : PAGE.index("## Jobs")]


@dataclass(frozen=True)
class Step:
    """A block of the tutorial and what the page says that it prints; None when it says nothing."""

    language: str
    text: str
    printed: str | None


def steps() -> list[Step]:
    found = FENCE.findall(TUTORIAL)
    return [
        Step(language, text, after[1] if after is not None and after[0] == "text" else None)
        for (language, text), after in zip(found, [*found[1:], None], strict=True)
        if language != "text"
    ]


class Reader:
    """Somebody who types the tutorial into a shell and an editor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{ports.find_free('127.0.0.1')}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "REDIS_"))}
        self.environment = {
            **environment,
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}",
            "YAK_PORT": self.address.rpartition(":")[2],
        }

    def type(self, step: Step) -> str:
        text = step.text.replace("127.0.0.1:9092", self.address)
        command = [sys.executable, "-c", text] if step.language == "python" else ["/bin/sh", "-e", "-c", text]
        ran = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )
        assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def close(self) -> None:
        subprocess.run(["yak", "down"], cwd=self.folder, env=self.environment, capture_output=True, timeout=60)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    pytest.importorskip("pyspark")
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.close()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_every_line_of_the_tutorial_works_and_prints_what_it_says(reader: Reader) -> None:
    for step in steps():
        printed = reader.type(step)
        if step.printed is not None:
            assert printed.strip() == step.printed.strip(), step.text


def test_the_tutorial_has_steps_whose_output_is_compared() -> None:
    assert len([step for step in steps() if step.printed is not None]) >= 5


def test_every_job_has_its_row_and_every_row_its_job() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE[PAGE.index("## Jobs") :], re.MULTILINE)
    named = [name for name in rows if name in MODULES]
    assert named[: len(MODULES)] == list(MODULES)


def test_every_option_that_the_page_names_is_one() -> None:
    import typer

    from yak.spark.jobs.frame import command

    known: set[str] = {"--help", "--follow", "--partitions", "--from-beginning", "--exit"}
    for name in MODULES:
        made: Any = typer.main.get_command(command(load(name)))
        known |= {option for parameter in made.params for option in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - known == set()
