"""`yak quorum`: what it prints, and what it refuses before it asks the quorum."""

import json
import re
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from yak.client import admin, quorum
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.quorum import QuorumReplica, QuorumState
from yak.errors import Unreachable
from yak.local import state as stored
from yak.local.checks.finding import Finding
from yak.local.checks.store import check_quorum
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.state import BrokerState, ClusterState, RedisState

LOST = 60_000


def replica(node_id: int, *, fetched: int | None = 80, lag: int | None = 0) -> QuorumReplica:
    end = None if lag is None else 120 - lag
    return QuorumReplica(node_id, uuid.UUID(int=node_id << 64), None, end, lag, fetched, fetched or 0)


def state(*voters: QuorumReplica, observers: tuple[QuorumReplica, ...] = ()) -> QuorumState:
    return QuorumState(1, 4, 119, voters, observers)


HEALTHY = state(replica(1, fetched=None), replica(2), replica(3), observers=(replica(4, lag=2),))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The cluster that the command finds; `done` are the changes that it made."""
    made = SimpleNamespace(state=HEALTHY, done=[])
    brokers = {number: Broker(number, f"h{number}", 9092) for number in (1, 2, 3, 4)}
    found = SimpleNamespace(
        answered="h1:9092", timeout_s=2.0, metadata=lambda: ClusterMetadata("cluster", 1, brokers, {})
    )
    monkeypatch.setattr(admin, "Admin", lambda *_, **__: found)
    monkeypatch.setattr(quorum, "describe_quorum", lambda *_, **__: made.state)

    def change(what: str) -> Any:
        return lambda _address, _cluster, *rest, **__: made.done.append((what, *rest))

    monkeypatch.setattr(quorum, "add_voter", change("add"))
    monkeypatch.setattr(quorum, "remove_voter", change("remove"))
    return made


def test_describe_shows_leader_voters_and_what_they_tolerate(yak, golden, cluster):
    ran = yak("quorum", "describe")
    assert ran.code == 0
    golden("tables/quorum-describe.txt", ran.out)
    golden("tables/quorum-replication.txt", yak("quorum", "describe", "--replication").out)
    golden("tables/quorum-describe.json", json.dumps(json.loads(yak("quorum", "describe", "-o", "json").out), indent=1))


def test_describe_names_a_voter_that_does_not_run(yak, cluster):
    cluster.state = state(replica(1, fetched=None), replica(2, fetched=LOST), replica(3, fetched=None, lag=None))
    assert "not running     2, 3" in yak("quorum", "describe").out


def test_add_uses_directory_and_address_of_the_observer(yak, cluster):
    assert yak("quorum", "add", "4").code == 0
    assert cluster.done == [("add", 4, uuid.UUID(int=4 << 64), ("h4", 9092))]


@pytest.mark.parametrize(("node", "slug"), [("2", "quorum-voter-exists"), ("9", "quorum-unknown-node")])
def test_add_of_a_voter_or_an_unknown_node_is_refused(yak, cluster, node, slug):
    ran = yak("quorum", "add", node)
    assert ran.code == 1
    assert f"error[{slug}]" in ran.err
    assert cluster.done == []


def test_add_of_a_voter_with_another_disk_says_to_remove_it_first(yak, cluster):
    cluster.state = state(replica(1, fetched=None), replica(2), replica(3, fetched=LOST), observers=(replica(3),))
    ran = yak("quorum", "add", "3")
    assert "yak quorum remove 3" in ran.err
    assert cluster.done == []


def test_quorum_remove_requires_confirmation_and_names_the_directory(yak, cluster):
    assert "not-confirmed" in yak("quorum", "remove", "3").err
    assert cluster.done == []
    assert yak("quorum", "remove", "3", "--yes").code == 0
    assert cluster.done == [("remove", 3, uuid.UUID(int=3 << 64))]


def test_remove_that_would_stop_the_quorum_is_refused(yak, cluster):
    cluster.state = state(replica(1, fetched=None), replica(2), replica(3, fetched=LOST))
    ran = yak("quorum", "remove", "2", "--yes")
    assert "error[quorum-would-stop]" in ran.err
    assert cluster.done == []
    assert yak("quorum", "remove", "3", "--yes").code == 0


def test_the_last_voter_and_an_observer_cannot_be_removed(yak, cluster):
    assert "error[quorum-unknown-node]" in yak("quorum", "remove", "4", "--yes").err
    cluster.state = state(replica(1, fetched=None))
    assert "error[quorum-last-voter]" in yak("quorum", "remove", "1", "--yes").err
    assert cluster.done == []


@pytest.mark.parametrize("action", ["add", "remove"])
def test_readonly_refuses_changes(yak, cluster, action):
    assert "error[readonly]" in yak("quorum", action, "4", "--yes", "--readonly").err
    assert cluster.done == []


def test_quorum_secret_is_new_each_time(yak):
    first, second = (yak("quorum", "secret").out for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{64}\n", first)
    assert first != second


def test_secret_of_an_existing_cluster_has_its_id_behind_it(yak, tmp_path):
    folder = tmp_path / "node-1"
    assert "error[cluster-secret]" in yak("quorum", "secret", "--data-dir", str(folder)).err
    (folder / "__yak_metadata").mkdir(parents=True)
    (folder / "__yak_metadata" / "cluster-secret").write_text("ab" * 32 + "\n")
    (folder / "meta.properties").write_text("version=1\ncluster.id=from-redis\n")
    assert yak("quorum", "secret", "--data-dir", str(folder)).out == f"{'ab' * 32} from-redis\n"


def test_doctor_finds_the_quorums_leader_and_voters_that_do_not_run(cluster):
    assert check_quorum("h1:9092", timeout_s=1) == Finding("quorum", "ok", "node 1 leads in epoch 4, voters 1, 2, 3")
    cluster.state = state(replica(1, fetched=None), replica(2, fetched=LOST))
    found = check_quorum("h1:9092", timeout_s=1)
    assert found is not None
    assert (found.state, found.detail) == ("warn", "node 1 leads in epoch 4, voters 1, 2; not running: 2")


@pytest.mark.parametrize(("code", "finding"), [("quorum-no-leader", "FAIL"), ("unreachable", None)])
def test_doctor_fails_a_quorum_without_leader_and_leaves_unreachable_brokers_to_other_checks(
    monkeypatch: pytest.MonkeyPatch, code: str, finding: str | None
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise Unreachable(code, "the metadata quorum has no leader")

    monkeypatch.setattr(quorum, "describe_quorum", fail)
    found = check_quorum("h1:9092,h2:9092", timeout_s=1)
    assert (None if found is None else found.state) == finding


@pytest.fixture
def local_quorum(clean_environment: Path) -> str:
    """The stored state of a stopped cluster with a quorum in the working directory."""
    folder = clean_environment / "yak-data"
    folder.mkdir()
    broker = BrokerState(1, "leader", "127.0.0.1", 9092, str(folder / "node-1"), wanted=False)
    stored.save(ClusterState(str(folder), RedisState(""), "c", brokers=[broker], metadata="raft", voters=(1,)))
    return str(folder)


@pytest.mark.parametrize("args", [("isr", "--from-redis"), ("cluster", "restore")])
def test_commands_that_read_redis_refuse_a_cluster_with_a_quorum(yak, local_quorum, args):
    ran = yak(*args)
    assert ran.code == 2
    assert "error[no-redis]" in ran.err


def test_status_says_which_nodes_the_quorum_began_with(yak, local_quorum):
    ran = yak("up", "--status")
    assert "quorum  began with node 1" in ran.err
    assert "redis" not in ran.err
    assert json.loads(yak("up", "--status", "-o", "json").out)["metadata"] == "raft"


def test_up_refuses_a_redis_beside_a_quorum(yak):
    ran = yak("up", "--metadata", "raft", "--redis-url", "redis://h:1/0")
    assert ran.code == 2
    assert "exclude each other" in ran.err


@pytest.mark.parametrize(
    ("args", "environment", "project", "store"),
    [
        ((), None, "", None),
        (("--metadata", "raft"), "redis", "", "raft"),
        ((), "raft", "", "raft"),
        ((), None, 'metadata = "raft"\n', "raft"),
    ],
)
def test_up_takes_the_metadata_store_from_flag_variable_or_file(
    yak: Any,
    monkeypatch: pytest.MonkeyPatch,
    clean_environment: Path,
    args: tuple[str, ...],
    environment: str | None,
    project: str,
    store: str | None,
) -> None:
    started: list[UpSettings] = []

    def up(_cluster: LocalCluster, settings: UpSettings) -> None:
        started.append(settings)
        raise Unreachable("unreachable", "not started")

    monkeypatch.setattr(LocalCluster, "up", up)
    monkeypatch.setenv("REDIS_HOST", "redis.example")
    if environment is not None:
        monkeypatch.setenv("YAK_METADATA", environment)
    (clean_environment / "yak.toml").write_text(project)
    assert yak("up", *args).code == 3
    (settings,) = started
    assert settings.metadata == store
    assert settings.redis_url == (None if store == "raft" else "redis://redis.example:6379/0")
