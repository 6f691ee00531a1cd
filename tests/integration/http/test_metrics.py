"""/metrics on real brokers: against what clients did, with a broker killed, and everything that Grafana asks for."""

from __future__ import annotations

import json
import re
import socket
import uuid
from pathlib import Path

import httpx
import pytest
import yaml
from confluent_kafka import Producer
from prometheus_client import parser
from support.waiting import wait_until

from tests.clusters import running_cluster
from yak.client.admin import Admin
from yak.local.cluster import UpSettings

GRAFANA = Path(__file__).resolve().parents[3] / "packaging" / "grafana"


class Scrape:
    """The samples of one broker."""

    def __init__(self, text: str) -> None:
        self.samples = [sample for family in parser.text_string_to_metric_families(text) for sample in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with these labels among its own; None when there is none."""
        found = [each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items()]
        assert len(found) <= 1, (name, labels, found)
        return found[0] if found else None

    def sum(self, name: str, **labels: str) -> float:
        """Over all samples with these labels."""
        return sum(each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items())


def scrape(cluster, node: int) -> Scrape:
    found = cluster.get(node, "/metrics")
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(found.text)


def nodes(cluster) -> list[int]:
    return [broker.node_id for broker in cluster.local.status().brokers if broker.state == "running"]


def everywhere(cluster, name: str, **labels: str) -> float:
    return sum(scrape(cluster, node).sum(name, **labels) for node in nodes(cluster))


def test_traffic_is_counted_by_topic_where_it_is_led_and_summed(cluster, new_name):
    topic = new_name()
    Admin(cluster.bootstrap).create_topic(topic, assignment=[[1, 2, 3]])
    cluster.produce(topic, 30)
    cluster.consume(topic, new_name(), 30).close()
    wait_until(lambda: scrape(cluster, 1).value("yak_topic_out_messages_total", topic=topic) == 30, "what was read")
    found = scrape(cluster, 1)
    assert found.value("yak_topic_in_messages_total", topic=topic) == 30
    size_bytes = found.value("yak_partition_log_size_bytes", topic=topic, partition="0")
    assert found.value("yak_topic_in_bytes_total", topic=topic) == size_bytes > 30 * 50
    assert found.value("yak_topic_out_bytes_total", topic=topic) >= size_bytes
    assert found.value("yak_in_messages_total") >= 30
    assert found.value("yak_replication_out_bytes_total") >= 2 * size_bytes
    assert found.value("yak_partition_high_watermark", topic=topic, partition="0") == 30
    assert found.value("yak_partition_in_sync_replicas", topic=topic, partition="0") == 3
    assert {found.value("yak_replica_lag_messages", topic=topic, replica=node) for node in "23"} == {0}
    assert scrape(cluster, 2).value("yak_topic_in_messages_total", topic=topic) == 0
    assert scrape(cluster, 2).value("yak_replication_in_bytes_total") >= size_bytes
    assert scrape(cluster, 3).value("yak_partition_log_end_offset", topic=topic, partition="0") == 30


def test_group_lag_is_known_by_the_coordinator_even_of_partitions_that_it_does_not_hold(cluster, new_name):
    topic, group = new_name(), f'{new_name()} "quoted"\\'
    label = group.replace("\\", "\\\\")  # so that the escapes of control characters are no other group's id
    Admin(cluster.bootstrap).create_topic(topic, assignment=[[1], [2], [3]])
    for partition in range(3):
        cluster.produce(topic, 10, partition)
    cluster.consume(topic, group, 30).close()

    def lags() -> list[float]:
        """By each that shows any: who coordinates the group."""
        found = [scrape(cluster, node).value("yak_group_lag_messages", group=label, topic=topic) for node in (1, 2, 3)]
        return [lag for lag in found if lag is not None]

    wait_until(lambda: lags() == [0], "all to be committed")
    for partition in range(3):
        cluster.produce(topic, partition + 1, partition)
    wait_until(lambda: lags() == [6], "the lag of all three partitions")
    assert everywhere(cluster, "yak_group_lag_unknown_partitions") == 0


def test_a_killed_broker_shows(cluster, new_name):
    topic = new_name()
    Admin(cluster.bootstrap).create_topic(
        topic, assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], configs={"min.insync.replicas": "3"}
    )
    Admin(cluster.bootstrap).create_topic(new_name(), assignment=[[3]])
    for partition in range(3):
        cluster.produce(topic, 1, partition)
    wait_until(lambda: everywhere(cluster, "yak_under_replicated_partitions") == 0, "a whole cluster")
    assert everywhere(cluster, "yak_is_controller") == 1
    elected = everywhere(cluster, "yak_elections_total", cause="lost")
    rounds = everywhere(cluster, "yak_election_seconds_count")
    died_with = scrape(cluster, 3).sum("yak_elections_total", cause="lost")
    rounds_died_with = scrape(cluster, 3).sum("yak_election_seconds_count")
    shrinks = sum(scrape(cluster, node).sum("yak_isr_shrinks_total") for node in (1, 2))

    cluster.local.kill(3)
    wait_until(lambda: everywhere(cluster, "yak_under_min_isr_partitions") == 3, "three partitions below min ISR")
    wait_until(lambda: scrape(cluster, 1).value("yak_offline_partitions") >= 1, "what had one replica")
    assert everywhere(cluster, "yak_under_replicated_partitions") >= 3
    wait_until(lambda: everywhere(cluster, "yak_is_controller") == 1, "a controller")
    assert everywhere(cluster, "yak_elections_total", cause="lost") > elected - died_with
    assert everywhere(cluster, "yak_election_seconds_count") > rounds - rounds_died_with
    assert everywhere(cluster, "yak_isr_shrinks_total") > shrinks
    assert scrape(cluster, 1).value("yak_brokers", state="ACTIVE") == 2

    cluster.local.restart(3)
    wait_until(lambda: everywhere(cluster, "yak_under_replicated_partitions") == 0, "all to be in sync again")
    assert everywhere(cluster, "yak_isr_expands_total") > 0
    wait_until(lambda: scrape(cluster, 1).value("yak_offline_partitions") == 0, "a leader for what had one replica")


def test_errors_and_bad_requests_are_counted(cluster):
    host, _, port = next(each.address for each in cluster.local.status().brokers if each.node_id == 1).rpartition(":")
    before = scrape(cluster, 1).sum("yak_bad_requests_total", kind="http")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sock.recv(100) == b""
    wait_until(lambda: scrape(cluster, 1).sum("yak_bad_requests_total", kind="http") == before + 1, "the bad request")
    cluster.local.status()
    Admin(cluster.bootstrap)
    producer = Producer({"bootstrap.servers": f"{host}:{port}", "message.timeout.ms": 1_000,
                         "allow.auto.create.topics": False})  # fmt: skip
    producer.produce(f"nowhere-{uuid.uuid4().hex}", b"x")
    producer.flush(10)
    labels = {"api": "Metadata", "code": "UNKNOWN_TOPIC_OR_PARTITION"}
    wait_until(lambda: everywhere(cluster, "yak_request_errors_total", **labels) > 0, "the error")


def test_a_head_has_no_body_and_parameters_are_refused(cluster):
    found = cluster.ask(1, "HEAD", "/metrics")
    assert (found.status_code, found.content) == (200, b"")
    refused = cluster.get(1, "/metrics?name[]=up")
    assert (refused.status_code, refused.json()["error"]) == (400, "bad-parameter")


# ------------------------------------------------------------------------------------------- what Grafana asks for

_NAME = r"(?:yak|process|python)_[a-z0-9_]+"
_GIVEN_BY_PROMETHEUS = {"job", "instance"}
_IN_TEXTS = re.compile(r"{{ ?\$?(?:labels\.)?([a-z]+) ?}}")


def expressions() -> list[tuple[str, str]]:
    """Each expression of the dashboard and the alerts, with the text that names its labels."""
    dashboard = json.loads((GRAFANA / "yak.json").read_text())
    found = [(t["expr"], t.get("legendFormat", "")) for panel in dashboard["panels"] for t in panel.get("targets", ())]
    found += [(each["query"]["query"], "") for each in dashboard["templating"]["list"] if each["type"] == "query"]
    alerts = yaml.safe_load((GRAFANA / "alerts.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    return found + [(rule["expr"], " ".join(rule["annotations"].values())) for rule in rules]


@pytest.fixture(scope="module")
def all_samples(running, tmp_path_factory) -> dict[str, set[str]]:
    """Names of samples, each with its labels, of a cluster in which everything happened that has a label, and of a quorum."""
    running_topic = f"grafana-{uuid.uuid4().hex[:8]}"
    Admin(running.bootstrap).create_topic(running_topic, assignment=[[1, 2]])
    running.produce(running_topic, 5)
    running.consume(running_topic, f"group-{running_topic}", 5).close()
    test_errors_and_bad_requests_are_counted(running)
    names: dict[str, set[str]] = {"up": set()}
    found = [sample for node in nodes(running) for sample in scrape(running, node).samples]
    for sample in found + samples_of_a_quorum(tmp_path_factory.mktemp("quorum")):
        names.setdefault(sample.name, set()).update(sample.labels)
    return names


def samples_of_a_quorum(folder: Path) -> list:
    """All samples of a voter and an observer."""
    with running_cluster(folder / "yak-data", UpSettings(port=0, brokers=2, metadata="raft")) as made:
        status = made.status()
        Admin(status.bootstrap).create_topic("orders")
        texts = [httpx.get(f"{each.http_address}/metrics", trust_env=False).text for each in status.brokers]
    return [sample for text in texts for sample in Scrape(text).samples]


@pytest.mark.parametrize(("expression", "text"), expressions())
def test_queries_of_grafana_have_metrics(all_samples, expression, text):
    bare = re.sub(r'"[^"]*"', '""', expression)
    used = re.findall(rf"\b(?:{_NAME}|up\b)", bare)
    assert used, "no metric in it"
    for name in used:
        assert name in all_samples, f"{name} is in no scrape"
    for name, selector in re.findall(rf"\b({_NAME}|up){{([^}}]*)}}", bare):
        for label in re.findall(r"([a-z]+)(?:=~|!=|=)", selector):
            assert label in all_samples[name] | _GIVEN_BY_PROMETHEUS, f"{name} has no label {label}"
    known = set().union(*(all_samples[name] for name in used)) | _GIVEN_BY_PROMETHEUS
    grouped = [label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", bare) for label in labels.split(",")]
    labels = re.findall(r"label_values\([^,]*?(?:{[^}]*})?, ?([a-z]+)\)", bare)
    for label in [*grouped, *labels, *(each for each in _IN_TEXTS.findall(text) if each != "value")]:
        assert label in known, f"{label} is no label of {', '.join(used)}"
