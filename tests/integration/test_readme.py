"""Every command and every line of Python that the README shows, run as written, in its order, in one empty folder.

Only the surroundings differ: YAK_PORT names a free port instead of 9092, which another program may have, and the Python
block gets that address in place of 127.0.0.1:9092.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from yak.local import ports

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUILDS = re.compile(r"^(?:make |\. \.venv/)")
"""Lines that install or build, and the one that follows them: these have tests of their own, or are the whole of CI."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of README.md; `line` is where it begins."""

    language: str
    text: str
    line: int

    @property
    def commands(self) -> list[str]:
        """The lines that do something."""
        return [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")]


def blocks() -> list[Block]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in FENCE.finditer(text)]


class Reader:
    """Somebody who types the README into a shell, block after block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{ports.find_free('127.0.0.1')}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("YAK_", "REDIS_", "BROKER_"))}
        self._environment = {
            **kept,
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
            "YAK_PORT": self.address.rpartition(":")[2],
        }

    def type(self, block: Block) -> str:
        """Run a block; what it printed. Fails at the first command that fails."""
        if block.language == "python":
            program = block.text.replace("127.0.0.1:9092", self.address)
            command = [sys.executable, "-c", program]
        else:
            command = ["/bin/sh", "-e", "-c", block.text]
        ran = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=90
        )
        assert ran.returncode == 0, f"README.md:{block.line}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def close(self) -> None:
        """Stop what a failed test left running."""
        subprocess.run(["yak", "down"], cwd=self.folder, env=self._environment, capture_output=True, timeout=60)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.close()


def test_every_block_works_as_written_and_in_this_order(reader: Reader, capsys: pytest.CaptureFixture[str]) -> None:
    printed: dict[str, str] = {}
    for block in blocks():
        if block.language not in {"sh", "python"}:
            continue
        if all(BUILDS.match(line) for line in block.commands):
            with capsys.disabled():
                print(f"\nREADME.md:{block.line} is not run, it installs or builds: {'; '.join(block.commands)}")
            continue
        printed[block.commands[0]] = reader.type(block)
    tour = next(text for command, text in printed.items() if command.startswith("yak up -d"))
    assert "OUT OF SYNC" not in tour
    assert "first acknowledged write" in tour
    assert re.findall(r'"key": "u1", "value": "{\\"total\\": (\d+)}"', tour) == ["12", "30"]
    after = next(text for command, text in printed.items() if re.match("yak consume (?!.*--group)", command))
    assert '{"total": 7}' in after
    assert "u2" in after


def test_no_block_mixes_what_is_run_with_what_is_not() -> None:
    mixed = [
        block.line
        for block in blocks()
        if block.language == "sh" and len({bool(BUILDS.match(line)) for line in block.commands}) != 1
    ]
    assert mixed == []


def test_every_make_target_that_the_readme_names_is_there() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)`", text))
    named |= {shlex.split(line)[1] for block in blocks() for line in block.commands if line.startswith("make ")}
    known = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named - known == set()


def test_every_language_of_a_block_is_one_that_is_looked_at() -> None:
    assert {block.language for block in blocks()} <= {"sh", "python", "text"}


def test_the_settings_table_is_the_programs() -> None:
    from yak.commands.settings import SETTINGS

    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`YAK_.*?) \| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    known = {setting.variable: setting for setting in SETTINGS}
    assert rows
    for variables, aliases, flags, defaults in rows:
        for variable, flag in zip(re.findall(r"`(.*?)`", variables), re.findall(r"`(.*?)`", flags), strict=True):
            setting = known[variable]
            assert flag == setting.flag
            assert set(re.findall(r"`(.*?)`", aliases)) == set(setting.aliases)
            default = setting.default
            assert default in (None, "") or (f"{default:g}" if isinstance(default, float) else str(default)) in defaults
