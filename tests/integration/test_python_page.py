"""Every program of docs/python.md, run as written and in its order against one real broker, prints what the page says.

Only the address differs: YAK_BOOTSTRAP_SERVERS names the broker, also where the page says 127.0.0.1:9092.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import BrokerHarness
from support.doc_page import ROOT, blocks

PAGE = ROOT / "docs" / "python.md"


@dataclass(frozen=True, slots=True)
class Example:
    """A program of the page, what it prints there, and the line that it begins at."""

    program: str
    printed: str
    line: int


def examples() -> list[Example]:
    """The programs with the text below each; fails on a block that is neither."""
    found = blocks(PAGE)
    assert [block.language for block in found] == ["python", "text"] * (len(found) // 2)
    return [
        Example(program.text, printed.text, program.line)
        for program, printed in zip(found[::2], found[1::2], strict=True)
    ]


def run(example: Example, bootstrap: str, folder: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("YAK_")}
    ran = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", example.program.replace("127.0.0.1:9092", bootstrap)],
        cwd=folder,
        env={**kept, "YAK_BOOTSTRAP_SERVERS": bootstrap, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, example.printed, ""), f"docs/python.md:{example.line}"


def test_every_program_prints_what_the_page_says(broker: BrokerHarness, tmp_path: Path) -> None:
    broker.start()
    for example in examples():
        run(example, broker.bootstrap, tmp_path)


def test_the_page_has_programs() -> None:
    assert len(examples()) >= 8


def test_every_public_name_is_on_the_page() -> None:
    import yak

    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in yak.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


@pytest.mark.parametrize("kind", ["Client", "Consumer", "Producer"])
def test_every_method_is_on_the_page(kind: str) -> None:
    import yak

    text = PAGE.read_text(encoding="utf-8")
    inner = {"encode", "offer", "finish", "abandon", "is_closed"}
    names = [name for name in vars(getattr(yak, kind)) if not name.startswith("_") and name not in inner]
    assert len(names) > 2
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
