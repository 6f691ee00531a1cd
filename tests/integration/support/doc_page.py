"""A page of the documentation: its fenced blocks with their marks, and a reader who types them into a shell."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from yak.local import ports

ROOT = Path(__file__).resolve().parents[3]
_FENCE = re.compile(
    r"^(?:[ ]*<!--\ (?P<mark>(?:not\ )?run\b.*?)\ -->\n\s*)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_AFTER = "run after: "
_NOT = "not run: "


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `line` is where its fence begins."""

    language: str
    text: str
    line: int
    mark: str = ""
    """`run`, `run after: COMMANDS` (which the page does not show), `not run: REASON`, or nothing."""

    @property
    def commands(self) -> list[str]:
        """The lines that do something."""
        return [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")]

    @property
    def is_run(self) -> bool:
        """Whether the mark says that a test runs the block."""
        return self.mark == "run" or self.mark.startswith(_AFTER)

    @property
    def preparation(self) -> str:
        """The commands that a test runs before it."""
        return self.mark.removeprefix(_AFTER) if self.mark.startswith(_AFTER) else ""

    @property
    def has_valid_mark(self) -> bool:
        """Whether a mark says that the block is run, or why not."""
        return self.is_run or (self.mark.startswith(_NOT) and len(self.mark) > len(_NOT))


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page's Markdown, in order; without the indent that a list gives them."""
    return [
        Block(
            found["language"],
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            text.count("\n", 0, found.start("language")) + 1,
            found["mark"] or "",
        )
        for found in _FENCE.finditer(text)
    ]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page."""
    return blocks_of(page.read_text(encoding="utf-8"))


class Reader:
    """Types a page into a shell, block after block, in one empty folder.

    Only the surroundings differ: YAK_PORT names a free port instead of 9092, which another program may have, HTTP gets
    any, and a Python block gets that address in place of 127.0.0.1:9092.
    """

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
            "YAK_HTTP_PORT": "0",
        }

    def type(self, page: Path, block: Block) -> str:
        """Run a block; what it printed. Fails at the first command that fails."""
        script = block.text
        if block.language == "python":
            script = f"{shlex.quote(sys.executable)} -c {shlex.quote(script.replace('127.0.0.1:9092', self.address))}"
        ran = subprocess.run(
            ["/bin/sh", "-e", "-c", f"{block.preparation}\n{script}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert ran.returncode == 0, f"{page.name}:{block.line}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def close(self) -> None:
        """Stop what a failed test left running."""
        subprocess.run(["yak", "down"], cwd=self.folder, env=self._environment, capture_output=True, timeout=60)
