"""`yak groups` and `yak consume --group` against real brokers, other clients in the same group, kills and failovers."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.local.spawn import yak_argv

PATIENCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def servers(borrowed_broker: Any) -> Iterator[str]:
    """One broker that lets members in at once, for all tests here; each has topics and groups of its own."""
    with borrowed_broker() as broker:
        yield broker.start(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=5).bootstrap


@pytest.fixture
def topic(servers: str, unique_topic: str) -> str:
    """A topic of three partitions."""
    Admin(servers).create_topic(unique_topic, partitions=3)
    return unique_topic


@pytest.fixture
def kafka(yak: Any, servers: str) -> Callable[..., Any]:
    """Run `yak …` on the broker and want its exit code."""

    def run(*words: str, code: int = 0) -> Any:
        ran = yak.run(*words, "-b", servers)
        assert ran.code == code, (words, ran.out, ran.err)
        return ran

    return run


def fill(kafka: Callable[..., Any], folder: Path, topic: str, first: int, count: int) -> list[str]:
    """Lines that differ, spread over the partitions."""
    lines = [f"line-{number}" for number in range(first, first + count)]
    (folder / "lines.txt").write_text("".join(f"k{number % 97}={line}\n" for number, line in enumerate(lines)))
    kafka("produce", topic, "-f", str(folder / "lines.txt"), "--key-separator", "=")
    return lines


class Printing:
    """A `yak consume` that writes to a file, so that what was printed is known whatever end it takes."""

    def __init__(self, path: Path, servers: str, *words: str) -> None:
        self.path = path
        self._out = path.open("wb")
        self._err = path.with_suffix(".err")
        with self._err.open("wb") as errors:
            self.process = subprocess.Popen(
                yak_argv("consume", *words, "-b", servers), stdin=subprocess.DEVNULL, stdout=self._out, stderr=errors
            )

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def end(self, number: int) -> int:
        """Signal it and wait; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(20)
        self._out.close()
        return code

    def end_of_itself(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._out.close()
        return code


@pytest.fixture
def printing(tmp_path: Path, servers: str) -> Iterator[Callable[..., Printing]]:
    made: list[Printing] = []

    def start(*words: str, on: str = servers) -> Printing:
        made.append(Printing(tmp_path / f"printed-{len(made)}.txt", on, *words))
        return made[-1]

    yield start
    for each in made:
        each.end(signal.SIGKILL)


def wait(done: Callable[[], Any], what: str = "the condition") -> None:
    wait_until(done, what, PATIENCE_SECONDS)


def described(kafka: Callable[..., Any], group: str) -> dict[str, Any]:
    (document,) = kafka("groups", "describe", group, "-o", "json").json
    return dict(document)


def test_a_group_resumes_after_kill_9_with_nothing_lost(kafka, printing, topic, tmp_path):
    lines = fill(kafka, tmp_path, topic, 0, 20_000)
    first = printing(topic, "-g", topic, "--from-beginning", "--commit-every", "500", "--format", "%v\\n")
    wait(lambda: len(first.lines) >= 3000)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    before = first.lines
    committed = sum(each["committed_offset"] or 0 for each in described(kafka, topic)["partitions"])
    assert 0 < committed <= len(before), "what is committed was printed"

    second = printing(topic, "-g", topic, "--exit", "--format", "%v\\n")
    assert second.end_of_itself() == 0, second.err
    assert "from the committed offset" in second.err
    assert len(second.lines) == len(lines) - committed, "from the committed offset on, once"
    assert set(before[:committed] + second.lines) | set(before) == set(lines)
    found = described(kafka, topic)
    assert (found["lag"], found["lag_ms"], found["state"]) == (0, 0, "Empty")


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_it_in_order_and_nothing_comes_twice(kafka, printing, topic, tmp_path, number, code, word):
    lines = fill(kafka, tmp_path, topic, 0, 3000)
    first = printing(topic, "-g", topic, "--from-beginning", "--commit-every", "1h", "--format", "%v\\n")
    wait(lambda: len(first.lines) == 3000)
    assert first.end(number) == code
    assert f"stopped: {word}" in first.err
    more = fill(kafka, tmp_path, topic, 3000, 10)
    second = printing(topic, "-g", topic, "--exit", "--format", "%v\\n")
    assert second.end_of_itself() == 0
    assert sorted(second.lines) == sorted(more)
    assert sorted(first.lines) == sorted(lines)


def test_two_consumers_share_the_partitions_and_are_seen(kafka, printing, topic, tmp_path):
    pair = [printing(topic, "-g", topic, "--from-beginning", "--format", "%v\\n") for _ in range(2)]
    wait(lambda: len(rows := kafka("groups", "members", topic, "-o", "json").json if known(kafka, topic) else []) == 2
         and all(each["assignment"] for each in rows))  # fmt: skip
    rows = kafka("groups", "members", topic, "-o", "json").json
    parts = [sorted(place["partition"] for place in each["assignment"]) for each in rows]
    assert sorted(number for part in parts for number in part) == [0, 1, 2]
    assert {each["subscription"][0] for each in rows} == {topic}

    lines = fill(kafka, tmp_path, topic, 0, 3000)
    wait(lambda: sum(len(each.lines) for each in pair) == 3000)
    assert all(each.lines for each in pair)
    wait(lambda: described(kafka, topic)["lag"] == 0, "the last commit")
    found = described(kafka, topic)
    assert found["state"] == "Stable"
    assert {each["member_id"] for each in found["partitions"]} == {each["member_id"] for each in rows}
    listed = {each["group"]: each for each in kafka("groups", "list", "--state", "stable", "-o", "json").json}
    assert (listed[topic]["members"], listed[topic]["lag"], listed[topic]["type"]) == (2, 0, "classic")
    assert kafka("groups", "list", "--type", "consumer", "-o", "json").json == []

    refused = [
        kafka("groups", "reset", topic, "-t", topic, "--to-earliest", "--execute", code=1),
        kafka("groups", "delete", topic, "--yes", code=1),
    ]
    assert all("2 members are connected: yak at 127.0.0.1, yak at 127.0.0.1" in each.err for each in refused)
    assert "error[group-subscribed]" in kafka("groups", "delete", topic, "-t", topic, "--yes", code=1).err
    assert "this cannot be done now" in kafka("groups", "reset", topic, "-t", topic, "--to-earliest").err

    assert pair[0].end(signal.SIGINT) == 130
    more = fill(kafka, tmp_path, topic, 3000, 300)
    wait(lambda: sum(len(each.lines) for each in pair) == 3300, "the other takes over")
    assert sorted(pair[0].lines + pair[1].lines) == sorted(lines + more), "each once"


def known(kafka: Any, group: str) -> bool:
    return group in {each["group"] for each in kafka("groups", "list", "--no-lag", "-o", "json").json}


def test_lag_in_records_and_in_time(kafka, topic):
    kafka("produce", topic, "-p", "0", "-m", "a", "--timestamp", "-1h")
    kafka("produce", topic, "-p", "0", "-m", "b", "--timestamp", "-30m")
    kafka("produce", topic, "-p", "1", "-m", "c", "--timestamp", "-10m")
    kafka("groups", "reset", "lag-" + topic, "-t", topic, "--to-earliest", "--execute")
    found = described(kafka, "lag-" + topic)
    rows = {each["partition"]: each for each in found["partitions"]}
    assert (found["lag"], rows[0]["lag"], rows[1]["lag"], rows[2]["lag"]) == (3, 2, 1, 0)
    minutes = [row["lag_ms"] / 60_000 for row in rows.values()]
    assert minutes == [pytest.approx(60, abs=2), pytest.approx(10, abs=2), 0]
    kafka("groups", "reset", "lag-" + topic, "-t", f"{topic}:0", "--to-offset", "1", "--execute")
    found = described(kafka, "lag-" + topic)
    assert found["partitions"][0]["lag_ms"] / 60_000 == pytest.approx(30, abs=2)
    (quick,) = kafka("groups", "describe", "lag-" + topic, "--no-time", "-o", "json").json
    assert (quick["lag"], quick["lag_ms"]) == (2, 0), "only what is all read has a known age"


def test_a_reader_that_went_away_leaves_what_it_was_not_given(kafka, topic, servers, tmp_path):
    fill(kafka, tmp_path, topic, 0, 50_000)
    shell = " ".join(
        [*map(repr, yak_argv("consume", topic, "-g", topic, "--from-beginning", "-b", servers)), "| head -n 1"]
    )
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("line-")
    assert "Traceback" not in done.stderr
    committed = sum(each["committed_offset"] or 0 for each in described(kafka, topic)["partitions"])
    assert committed < 50_000


def test_no_commit_and_a_limit_commit_what_they_say(kafka, topic):
    kafka("produce", topic, "-p", "0", *(word for n in range(10) for word in ("-m", f"m{n}")))
    words = ("consume", topic, "-g", topic, "--from-beginning")
    assert len(kafka(*words, "-e", "--no-commit").out.splitlines()) == 10
    assert kafka(*words, "-n", "4").out.splitlines() == ["m0", "m1", "m2", "m3"]
    assert kafka(*words, "-n", "2").out.splitlines() == ["m4", "m5"]
    ran = kafka(*words, "-e")
    assert ran.out.splitlines() == ["m6", "m7", "m8", "m9"]
    assert "--from-beginning counts only where nothing is committed" in ran.err
    assert kafka(*words, "--timeout-ms", "200", code=5).out == ""


def test_groups_of_the_new_protocol_are_seen_moved_and_deleted(kafka, topic, servers):
    kafka("produce", topic, "-p", "1", *(word for n in range(5) for word in ("-m", f"m{n}")))
    new = Consumer(
        {
            "bootstrap.servers": servers, "group.id": topic, "client.id": "modern", "group.protocol": "consumer",
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        }
    )  # fmt: skip
    new.subscribe([topic])
    got: list[Any] = []

    def read() -> bool:
        message = new.poll(0.1)
        if message is not None and message.error() is None:
            got.append(message)
        return len(got) == 5

    wait(read)
    new.commit(got[2], asynchronous=False)
    listed = {each["group"]: each for each in kafka("groups", "list", "--type", "consumer", "-o", "json").json}
    assert (listed[topic]["state"], listed[topic]["members"], listed[topic]["lag"]) == ("Stable", 1, 2)
    (member,) = kafka("groups", "members", topic, "-o", "json").json
    assert (member["client_id"], member["subscription"], member["assignor"]) == ("modern", [topic], "uniform")
    assert member["member_epoch"] > 0
    assert [each["partition"] for each in member["assignment"]] == [0, 1, 2]
    found = described(kafka, topic)
    assert (found["type"], found["epoch"], found["lag"]) == ("consumer", member["member_epoch"], 2)
    assert {each["client_id"] for each in found["partitions"]} == {"modern"}
    assert "error[group-active]" in kafka("groups", "delete", topic, "--yes", code=1).err
    new.close()
    wait(lambda: described(kafka, topic)["state"] == "Empty")
    kafka("groups", "reset", topic, "--all-topics", "--to-earliest", "--execute")
    assert described(kafka, topic)["lag"] == 5
    kafka("groups", "delete", topic, "--yes")
    assert not known(kafka, topic)


def test_yak_consume_joins_a_group_of_the_consumer_protocol(kafka, printing, topic, servers):
    new = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "client.id": "modern", "group.protocol": "consumer"}
    )
    new.subscribe([topic])
    wait(lambda: new.poll(0.1) is None and len(new.assignment()) == 3, "the assignment")
    ours = printing(topic, "-g", topic, "--from-beginning", "--format", "%v\\n")
    wait(lambda: new.poll(0.1) is None and len(new.assignment()) in (1, 2) and "partition" in ours.err, "the sharing")
    rows = kafka("groups", "members", topic, "-o", "json").json
    assert {each["client_id"] for each in rows} == {"modern", "yak"}
    new.close()
    kafka("produce", topic, "--key-separator", "=", *(word for n in range(30) for word in ("-m", f"k{n}=v{n}")))
    wait(lambda: len(ours.lines) == 30)
    assert ours.end(signal.SIGINT) == 130, ours.err
