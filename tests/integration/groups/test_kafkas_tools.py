"""Kafka's own tools on YAK's groups: its consumer, its kafka-consumer-groups, and its reader of `__consumer_offsets`."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from support.client_kinds import Confluent, Message
from support.group_processes import Group
from support.kafka_tools import CONSUMER_GROUPS, KafkaTools

pytestmark = pytest.mark.jvm
RECORDS = 120
Tool = Callable[..., str]


@pytest.fixture
def groups(libs: Path, group_broker: Any, tmp_path: Path) -> Iterator[Tool]:
    """kafka-consumer-groups: `groups("--list")` gives what it printed."""
    with KafkaTools(libs, tmp_path) as tools:

        def run(*arguments: str, fails: bool = False) -> str:
            done = tools.run(CONSUMER_GROUPS, group_broker.bootstrap, *arguments)
            assert (done.status != 0 or "Error" in done.printed) == fails, done
            return done.printed

        yield run


def rows(out: str) -> list[dict[str, str]]:
    """The table that a tool printed."""
    lines = [line.split() for line in out.splitlines() if line.strip()]
    head = next(index for index, words in enumerate(lines) if words[0] in ("GROUP", "TOPIC"))
    width = len(lines[head])
    return [dict(zip(lines[head], words, strict=False)) for words in lines[head + 1 :] if len(words) >= width - 1]


def fill(broker: Any, topic: str, partitions: int = 6) -> None:
    client = Confluent(broker.bootstrap)
    for number in range(partitions):
        client.produce(topic, [Message(b"%d" % index) for index in range(RECORDS // partitions)], partition=number)


@pytest.fixture
def left_behind(group_broker: Any, topic: str) -> str:
    """A group without members that has consumed everything."""
    fill(group_broker, topic)
    name = f"g-{topic}"
    consume_all(group_broker, name, topic)
    return name


def consume_all(broker: Any, group: str, topic: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    try:
        consumer.subscribe([topic])
        count = 0
        deadline = time.monotonic() + 30
        while count < RECORDS:
            found = consumer.consume(RECORDS, 0.2)
            if found:
                count += len(found)
                consumer.commit(asynchronous=False)
            assert time.monotonic() < deadline, f"{count} records and no more"
    finally:
        consumer.close()


def test_kafka_consumer_groups_tool_lists_describes_resets_and_deletes(groups, group_broker, left_behind, topic):
    with Group(group_broker.bootstrap, f"full-{topic}", topic) as group:
        members = [group.start("confluent-kafka", instance=f"i{number}") for number in range(2)]
        group.wait_shared(6, *members)
        states = {row["GROUP"]: row["STATE"] for row in rows(groups("--list", "--state"))}
        assert (states[left_behind], states[group.name]) == ("Empty", "Stable")
        reset = ("--group", left_behind, "--topic", topic, "--reset-offsets", "--shift-by", "-5", "--execute")
        assert {row["NEW-OFFSET"] for row in rows(groups(*reset))} == {"15"}
        described = rows(groups("--describe", "--group", left_behind, "--offsets"))
        assert {(row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in described} == {("15", "20", "5")}
        assert sorted(row["PARTITION"] for row in described) == list("012345")
        found = rows(groups("--describe", "--group", group.name, "--members", "--verbose"))
        assert sorted(row["GROUP-INSTANCE-ID"] for row in found) == ["i0", "i1"]
        assert [row["#PARTITIONS"] for row in found] == ["3", "3"]
        assert "subscribed" in groups("--delete-offsets", "--group", group.name, "--topic", topic, fails=True)
        deleted = groups("--delete", "--group", left_behind, "--group", group.name, fails=True)
        assert "GroupNotEmpty" in deleted
        admin = AdminClient({"bootstrap.servers": group_broker.bootstrap, "log_level": 0})
        left = {each.group_id for each in admin.list_consumer_groups().result(20).valid}
        assert (left_behind in left, group.name in left) == (False, True)


class Verifiable:
    """Kafka's VerifiableConsumer: says every event as a line of JSON."""

    def __init__(self, java: list[str], bootstrap: str, group: str, topic: str, *arguments: str) -> None:
        command = [*java, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap]
        command += ["--topic", topic, "--group-id", group, "--session-timeout", "6000", "--reset-policy", "earliest"]
        self._process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Verifiable":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def events(self) -> Iterator[dict[str, Any]]:
        """Until its end."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)


def test_kafkas_own_consumer_consumes_and_commits(java, group_broker, topic):
    fill(group_broker, topic)
    name = f"g-{topic}"
    with Verifiable(java, group_broker.bootstrap, name, topic, "--max-messages", str(RECORDS), "--verbose") as consumer:
        events = list(consumer.events())
    seen = [(each["partition"], each["offset"]) for each in events if each["name"] == "record_data"]
    assert sorted(seen) == [(number, offset) for number in range(6) for offset in range(20)]
    commits = [each for each in events if each["name"] == "offsets_committed"]
    assert all(each["success"] for each in commits)
    assert {each["name"] for each in events} >= {"startup_complete", "partitions_assigned", "shutdown_complete"}


def test_kafkas_own_reader_reads_the_topic_of_offsets(java, borrowed_broker, unique_topic):
    """Every record of it, offsets and groups, decoded by Kafka's classes."""
    with borrowed_broker() as broker:
        broker.start(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
        client = Confluent(broker.bootstrap)
        client.create_topic(unique_topic, partitions=6, configs={"retention.ms": "-1"})
        fill(broker, unique_topic)
        consume_all(broker, "audited", unique_topic)
        broker.stop()
        (log,) = (broker.data_dir / "__consumer_offsets-0").glob("*.log")
        command = [*java, "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--deep-iteration"]
        done = subprocess.run([*command, "--files", str(log)], capture_output=True, text=True, timeout=100)
    out = done.stdout
    assert (done.returncode, "Exception" in out + done.stderr) == (0, False), (out + done.stderr)[-2000:]
    records = re.findall(r"key: (\{.*?\}) payload: (.*)$", out, re.MULTILINE)
    assert len(records) == out.count("| offset: ") > 6, "a record was not decoded"
    keys = [json.loads(key) for key, _payload in records]
    assert {key["data"]["group"] for key in keys} == {"audited"}
    values = [json.loads(payload)["data"] for _key, payload in records]
    offsets = [value["offset"] for key, value in zip(keys, values, strict=True) if "topic" in key["data"]]
    assert max(offsets) == 20
    stable = [value for value in values if value.get("members")]
    assert stable[0]["protocolType"] == "consumer"
    assert stable[0]["members"][0]["memberId"] == stable[0]["leader"]
    assert [value["members"] for value in values if "protocolType" in value][-1] == []
