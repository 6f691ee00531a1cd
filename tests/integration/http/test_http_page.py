"""Every curl line of docs/http.md, in the page's order, on a real cluster: what the page shows as an answer is one, and
what it shows as an error is that error.
"""

import contextlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "http.md"
ADDRESS = "http://127.0.0.1:8080"
CSV = "id,name,price\n1,tea,3\n2,cup,5\n3,pot\n"
ERROR = re.compile(r'^\{"error(?:_code)?":\s*"?([a-z0-9-]+)"?')
SHUTDOWN = re.compile(r"/api/brokers/(\d+)/shutdown")
METRIC = re.compile(r"yak_\w+|# EOF")


@dataclass(frozen=True)
class Line:
    """One command and the lines that the page shows below it."""

    command: str
    below: tuple[str, ...]

    @property
    def expected(self) -> str:
        """The first of them."""
        return self.below[0] if self.below else ""

    @property
    def is_stream(self) -> bool:
        """Whether it goes on until it is stopped."""
        return re.search(r"curl -s?N", self.command) is not None

    @property
    def error(self) -> str | None:
        """The error that the page shows."""
        found = ERROR.match(self.expected)
        return None if found is None else found[1]

    @property
    def metrics(self) -> set[str]:
        """The metrics that the page shows, which come from whichever broker has them."""
        return {found[0] for row in self.below if (found := METRIC.match(row))} if "/metrics" in self.command else set()


def lines_of(text: str) -> list[Line]:
    """The commands of the page's code blocks."""
    found: list[Line] = []
    for block in re.findall(r"^```[a-z]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        rows = block.replace("\\\n", " ").split("\n")
        for place, row in enumerate(rows):
            command = row.removeprefix("$ ")
            if command.startswith("curl "):
                below = takewhile(lambda each: not each.removeprefix("$ ").startswith("curl "), rows[place + 1 :])
                found.append(Line(command, tuple(each for each in below if each.strip())))
    return found


def test_the_page_shows_metrics_as_answers():
    expected = [line.metrics for line in lines_of(PAGE.read_text()) if "/metrics" in line.command]
    assert expected
    assert all(expected), "a line that asks for metrics shows none"


def test_the_page_has_a_line_for_every_route():
    from yak.server.http.routes import ROUTES

    commands = [line.command.replace(ADDRESS, "") for line in lines_of(PAGE.read_text())]
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
        if line.metrics:
            wrong += _metrics_not_exported(cluster, line)
            continue
        command = line.command.replace(ADDRESS, cluster.url(1)).replace("/dev/null", "out.txt")
        answer = _beginning_of(command) if line.is_stream else _answer_of(command, tmp_path)
        found = None if answer is None else ERROR.match(answer)
        if answer is None or (None if found is None else found[1]) != line.error or (line.is_stream and not answer):
            wrong.append(f"{line.command}\n  page:  {line.expected[:200]}\n  found: {answer and answer[:300]}")
        elif answer.startswith("{") and "|" not in command:
            json.loads(answer)
        if (stopped := SHUTDOWN.search(command)) is not None:
            _wait_until_gone(cluster, int(stopped[1]))
    assert wrong == [], "\n".join(wrong)


def _answer_of(command: str, folder: Path) -> str | None:
    """What a command printed; None when it failed."""
    ran = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60)
    return ran.stdout.strip() if ran.returncode == 0 else None


def _beginning_of(command: str) -> str:
    """The first line of a stream, which is ended then."""
    with subprocess.Popen(["bash", "-c", f"exec {command}"], stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout is not None
        try:
            return stream.stdout.readline().strip()
        finally:
            stream.kill()


def _wait_until_gone(cluster, node: int) -> None:
    """A broker that shuts down counts as active until its process ends; requests to all active brokers fail meanwhile."""

    def is_gone() -> bool:
        active = cluster.get(1, "/get_active_brokers").json()["brokers"]
        return node not in [each["brokerId"] for each in active]

    wait_until(is_gone, f"broker {node} has stopped")


def _metrics_not_exported(cluster, line: Line) -> list[str]:
    """What no broker answers, though the page shows it; a group's lag is told by its coordinator alone."""

    def missing() -> list[str]:
        exported = ""
        # the page has stopped one of them just before, which may be on its way out
        for address in [each.http_address for each in cluster.local.status().brokers if each.http_address is not None]:
            command = ["bash", "-c", line.command.replace(ADDRESS, address)]
            exported += subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        return sorted(line.metrics - {found[0] for row in exported.splitlines() if (found := METRIC.match(row))})

    # a new coordinator, after one that the page has stopped, tells of a group once it has read it
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not missing(), "all metrics of the page", seconds=10)
    return [f"{line.command}\n  page:  {name}, which no broker has" for name in missing()]


def _make_a_group(bootstrap: str) -> None:
    """The group that the page looks at."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("invoices", b"1")
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("invoices", 0, 1)], asynchronous=False)
    consumer.close()
