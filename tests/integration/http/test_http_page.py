"""Every command of docs/http.md, run in its order against three brokers, answers what the page says.

The page shortens its answers, so what is compared is the status, the name of an error, and the names of fields: each that the
page shows must be in the answer.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "http.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'"([A-Za-z_][\w.]*)":')
STATUS = re.compile(r"^HTTP-STATUS (\d+)$", re.MULTILINE)
LISTENS = re.compile(r"curl (?:\S+ )*-N ")
NO_BODY = re.compile(r"^\((\d+)\)$")

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the page, what is printed below it, and the line that it is on."""

    text: str
    printed: str
    line: int

    @property
    def is_listening(self) -> bool:
        """Whether it goes on until it is stopped."""
        return LISTENS.search(self.text) is not None


def commands() -> Iterator[Command]:
    text = PAGE.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        if block[1] != "console":
            continue
        first = text.count("\n", 0, block.start()) + 2
        for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block[2], re.MULTILINE):
            yield Command(found[1], found[2], first + block[2].count("\n", 0, found.start()))


class Reader:
    """Somebody who types the page into a shell; `curl` says the status too, and listens for two seconds at most."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        real, own = shutil.which("curl"), folder / "bin"
        own.mkdir()
        script = own / "curl"
        script.write_text(f"#!/bin/sh\nexec {real} -q -sS -w '%{{stderr}}HTTP-STATUS %{{http_code}}\\n' \"$@\"\n")
        script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self._environment = {**kept, "PATH": f"{own}{os.pathsep}{kept.get('PATH', '')}"}

    def type(self, command: Command) -> tuple[int | None, str]:
        """Run it; the HTTP status, if it asked, and what it printed."""
        text = command.text.replace("http://127.0.0.1:8080", self.url)
        if command.is_listening:
            text = text.replace("curl ", "curl --max-time 2 ", 1)
        ran = subprocess.run(
            ["/bin/sh", "-c", text], cwd=self.folder, env=self._environment, capture_output=True, timeout=60
        )
        told = ran.stderr.decode()
        assert ran.returncode == (28 if command.is_listening else 0), f"docs/http.md:{command.line}: {told}"
        status = STATUS.search(told)
        return (int(status[1]) if status else None), ran.stdout.decode("utf-8", "replace")


def check(command: Command, status: int | None, printed: str) -> None:
    where = f"docs/http.md:{command.line}: {command.text}\n{status} {printed[:2000]}"
    if status is None:
        assert "curl" not in command.text, where
        return
    without_body = NO_BODY.match(command.printed.strip())
    if without_body:
        assert (status, printed) == (int(without_body[1]), ""), where
        return
    assert command.printed.strip(), f"the page shows no answer: {where}"
    if command.printed.startswith('{"error":'):
        assert 400 <= status < 500, where
        shown = re.match(r'{"error":"([a-z-]+)"', command.printed)
        assert shown is not None, where
        assert json.loads(printed)["error"] == shown[1], where
    else:
        assert 200 <= status < 300, where
        assert '{"error":' not in printed, where
    missing = [name for name in FIELD.findall(command.printed) if f'"{name}":' not in printed.replace('": ', '":')]
    assert command.is_listening or missing == [], f"{missing} {where}"


@needs_curl
def test_every_command_answers_what_the_page_says(cluster: Any, tmp_path: Path) -> None:
    reader = Reader(tmp_path, cluster.url(1))
    for command in commands():
        check(command, *reader.type(command))


def test_the_page_has_commands_and_answers() -> None:
    found = list(commands())
    assert len(found) > 50
    assert all("\u2026" not in each.text and "@@" not in each.printed for each in found)


def test_every_command_line_of_the_page_is_one_that_is_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^\$ ", text, re.MULTILINE)) == len(list(commands()))
    assert not re.search(r"^\s+\$ ", text, re.MULTILINE)
