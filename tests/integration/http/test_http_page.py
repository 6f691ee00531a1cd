"""Every curl line of docs/http.md, in the page's order, on a real cluster: what the page shows as an answer is one, and what it
shows as an error is that error."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "http.md"
SHOWN = "http://127.0.0.1:8080"
STREAM_SECONDS = "2"
CSV = "id,name,price\n1,tea,3\n2,cup,5\n3,pot\n"
ERROR = re.compile(r'^\{"error(?:_code)?":\s*"?([a-z0-9-]+)"?')


@dataclass(frozen=True)
class Line:
    """One command and the first line that the page shows below it."""

    command: str
    shown: str

    @property
    def is_stream(self) -> bool:
        """Whether it goes on until it is stopped."""
        return re.search(r"curl -s?N", self.command) is not None

    @property
    def error(self) -> str | None:
        """The error that the page shows."""
        found = ERROR.match(self.shown)
        return None if found is None else found[1]


def lines_of(text: str) -> list[Line]:
    """The commands of the page's code blocks."""
    found: list[Line] = []
    for block in re.findall(r"^```[a-z]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        rows = block.replace("\\\n", " ").split("\n")
        for place, row in enumerate(rows):
            command = row.removeprefix("$ ")
            if command.startswith("curl "):
                below = next((each for each in rows[place + 1 :] if each.strip()), "")
                found.append(Line(command, below))
    return found


def test_the_page_has_a_line_for_every_route():
    from yak.server.http.routes import ROUTES

    commands = [line.command.replace(SHOWN, "") for line in lines_of(PAGE.read_text())]
    text = PAGE.read_text()
    without = []
    for route in ROUTES:
        path = re.sub(r"\\\{[^}]*\\\}", "[^/ '?]+", re.escape(route.path))
        if not any(re.search(rf"(?:^|[ '\"]){path}(?:[?' ]|$)", command) for command in commands):
            without.append(route)
    assert [f"{each.method} {each.path}" for each in without if f"`{each.path}`" not in text] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.timeout(300)
def test_the_lines_of_the_page_do_what_it_says(cluster, tmp_path):
    (tmp_path / "items.csv").write_text(CSV)
    _make_a_group(cluster.bootstrap)
    wrong = []
    for line in lines_of(PAGE.read_text()):
        command = line.command.replace(SHOWN, cluster.url(1)).replace("/dev/null", "out.txt")
        if line.is_stream:
            command = f"timeout {STREAM_SECONDS} {command}"
        ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        answer = ran.stdout.strip()
        found = ERROR.match(answer)
        is_right = (None if found is None else found[1]) == line.error and (line.is_stream or ran.returncode == 0)
        if not is_right or (line.is_stream and not answer):
            wrong.append(f"{line.command}\n  page:  {line.shown[:200]}\n  found: {answer[:300]} {ran.stderr[-200:]}")
        elif answer.startswith("{") and "|" not in command:
            json.loads(answer)
    assert wrong == [], "\n".join(wrong)


def _make_a_group(bootstrap: str) -> None:
    """The group that the page looks at."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("invoices", b"1")
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("invoices", 0, 1)], asynchronous=False)
    consumer.close()
