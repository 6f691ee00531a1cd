"""Command line, HTTP, metrics and terminal UI are asked about one cluster: they give one answer."""

import os
import re
import signal
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import wait_until

from yak.client.admin import Admin
from yak.tui.formatter import Formatter
from yak.tui.rows.cluster import BROKER_COLUMNS, broker_rows
from yak.tui.rows.groups import COLUMNS as GROUP_COLUMNS
from yak.tui.rows.groups import group_rows
from yak.tui.rows.partitions import state_cell
from yak.tui.source.kafka import KafkaAnswers, read_snapshot
from yak.tui.state.groups import Groups
from yak.tui.state.picture import Picture

STATES = {
    "ok": ([1, 2], 1),
    "under-replicated": ([1, 2, 3], 1),
    "at-min-isr": ([1, 2, 3], 2),
    "under-min-isr": ([1, 2, 3], 3),
    "offline": ([3], 1),
}
"""Topics by the state that they have without broker 3: their replicas and `min.insync.replicas`."""
CONDITIONS = ("offline", "under_min_isr", "at_min_isr", "under_replicated")


def pictures(cluster: Any) -> list[Picture]:
    """What the terminal UI knows: over the Kafka protocol, and over HTTP."""
    reported = {"kind": "snapshot", "time_ms": 1, "node_id": 1, "cluster": cluster.get(1, "/api/cluster").json()}
    events = [
        read_snapshot(cluster.bootstrap, None).event(),
        {**reported, "partitions": cluster.get(1, "/api/isr").json()},
    ]
    made = [Picture() for _ in events]
    for picture, event in zip(made, events, strict=True):
        picture.take(event)
    return made


def by_topic(rows: list[dict[str, Any]], name: str = "topic") -> dict[str, str]:
    return {row[name]: row["state"].replace("_", "-") for row in rows if row[name] in STATES}


def metric(cluster: Any, name: str, node: int) -> float:
    """The sum of a family's samples on a node."""
    text = cluster.get(node, "/metrics").text
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (.*)$", text, re.MULTILINE))


def test_state_of_a_partition_has_one_answer_in_each_state(cluster: Any, yak: Any) -> None:
    admin = Admin(cluster.bootstrap)
    for name, (replicas, min_isr) in STATES.items():
        admin.create_topic(name, assignment=[replicas], configs={"min.insync.replicas": str(min_isr)})
    cluster.local.kill(3)
    expected = {name: name for name in STATES}
    wait_until(lambda: by_topic(cluster.get(1, "/api/isr").json()) == expected, "the states without broker 3")

    assert by_topic(yak.run("isr", "-b", cluster.bootstrap, "-o", "json").json) == expected
    assert by_topic(yak.run("topics", "list", "-b", cluster.bootstrap, "-o", "json").json, "name") == expected
    for picture in pictures(cluster):
        shown = {each.topic: state_cell(each, Formatter()).text for each in picture.partitions.values()}
        assert {name: shown[name].partition(" ")[2].replace(" ", "-").lower() for name in STATES} == expected

    reported = yak.run("cluster", "-b", cluster.bootstrap, "-o", "json").json
    counts = {name: reported[name] for name in CONDITIONS}
    assert counts["offline"] == 1
    assert counts == {name: cluster.get(1, "/api/cluster").json()[name] for name in CONDITIONS}
    assert counts == {name: cluster.get(2, "/health").json()[name] for name in CONDITIONS}
    assert counts["offline"] == metric(cluster, "yak_offline_partitions", 1)
    for name in ("under_min_isr", "under_replicated"):
        assert counts[name] >= 1
        assert counts[name] == sum(metric(cluster, f"yak_{name}_partitions", node) for node in (1, 2))


def test_state_of_a_broker_has_one_answer_in_each_state(cluster: Any, yak: Any) -> None:
    Admin(cluster.bootstrap).create_topic("held", assignment=[[1, 2, 3]])
    stopped = next(each for each in cluster.local.status().brokers if each.node_id == 2)
    os.kill(stopped.pid, signal.SIGTERM)
    cluster.local.kill(3)
    expected = {1: "ACTIVE", 2: "CLOSED", 3: "FENCED"}

    def reported() -> dict[int, str]:
        return {each["node_id"]: each["state"] for each in cluster.get(1, "/api/cluster").json()["brokers"]}

    wait_until(lambda: reported() == expected, "a stopped and a fenced broker")
    for command in ("brokers list", "cluster"):
        found = yak.run(*command.split(), "-b", cluster.bootstrap, "-o", "json").json
        rows = found["brokers"] if command == "cluster" else found
        assert {row["id"]: row["state"] for row in rows} == expected, command
    column = [each.label for each in BROKER_COLUMNS].index("STATE")
    for picture in pictures(cluster):
        rows = broker_rows(picture, Formatter())
        assert {int(row.key): row.cells[column].text.split()[1] for row in rows} == expected


def test_lag_of_a_group_has_one_answer(cluster: Any, new_name: Callable[[], str], yak: Any) -> None:
    topic, group = new_name(), new_name()
    Admin(cluster.bootstrap).create_topic(topic, assignment=[[1, 2], [2, 1], [3, 1]])
    cluster.wait_for_topic(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(30):
        producer.produce(topic, b"record", partition=number % 3)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 10)], asynchronous=False)
    consumer.close()

    path = f"/api/groups/{group}"
    wait_until(lambda: cluster.get(1, path).json().get("lag") == 6, "the lag over HTTP")
    over_http = cluster.get(1, path).json()
    assert [(each["partition"], each["lag"]) for each in over_http["partitions"]] == [(0, 6), (1, 0)]
    [described] = yak.run("groups", "describe", group, "-b", cluster.bootstrap, "-o", "json").json
    assert (described["lag"], [each["lag"] for each in described["partitions"]]) == (6, [6, 0])
    listed = yak.run("groups", "list", "-b", cluster.bootstrap, "-o", "json").json
    assert {each["group"]: each["lag"] for each in listed}[group] == 6
    answers = KafkaAnswers(cluster.bootstrap)
    try:
        over_kafka = answers.ask("GET", path, {}, {})
    finally:
        answers.close()
    assert over_kafka == over_http
    column = [each.label for each in GROUP_COLUMNS].index("LAG")
    for answer in (over_kafka, over_http):
        groups = Groups()
        groups.update(group, answer, 0)
        assert [row.cells[column].text for row in group_rows(groups, Formatter(), 0)] == ["6"]
    lags = f'yak_group_lag_messages{{group="{group}",topic="{topic}"}}'
    wait_until(
        lambda: sum(metric(cluster, lags, node) for node in (1, 2, 3)) == 6, "the lag in the coordinator's metrics"
    )
