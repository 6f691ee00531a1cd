"""`yak cluster migrate`: what it checks and does for brokers that were started by other means, and for a cluster of yak up."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from yak.client import admin, members, store_moves
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.store_moves import BOTH, BrokerStores
from yak.errors import UsageError, YakError
from yak.local import migration
from yak.local.cluster import LocalCluster, UpSettings
from yak.local.state import BrokerState, ClusterState, RedisState, load, save
from yak.view import broker_state

IN_REDIS = [BrokerStores(number, BOTH, "04e3713d", "ACTIVE") for number in (1, 2)]
IN_QUORUM = [BrokerStores(number, BOTH, "quorum", "ACTIVE") for number in (1, 2)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two brokers that the command finds; `done` is what it asked of them."""
    made = SimpleNamespace(stores=IN_REDIS, done=[], live={1: Broker(1, "h1", 9092), 2: Broker(2, "h2", 9092)})
    found = SimpleNamespace(
        answered="h1:9092", timeout_s=2.0, metadata=lambda: ClusterMetadata("cluster", 1, made.live, {})
    )
    made.members = {
        number: members.Member(number, f"h{number}:9092", None, broker_state.SeenState.ACTIVE) for number in (1, 2)
    }
    monkeypatch.setattr(admin, "Admin", lambda *_, **__: found)
    monkeypatch.setattr(members, "list_members", lambda *_, **__: made.members)
    monkeypatch.setattr(store_moves, "read_stores", lambda *_, **__: made.stores)
    monkeypatch.setattr(store_moves, "wait_for_quorum", lambda *_, **__: SimpleNamespace(leader_id=2))
    monkeypatch.setattr(store_moves, "set_target", lambda _, to, **__: made.done.append(f"set {to}"))
    monkeypatch.setattr(store_moves, "wait_for_store", lambda _, to, **__: made.done.append(f"wait {to}"))
    return made


def test_brokers_with_both_stores_are_moved(yak, cluster):
    ran = yak("cluster", "migrate", "--to", "raft", "-b", "h1:9092", "-o", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {"cluster_id": "cluster", "metadata": "raft", "moved": True}
    assert cluster.done == ["set raft", "wait raft"]
    assert "restart the brokers one by one with --metadata raft" in ran.err


def test_metadata_that_are_there_already_are_not_moved_again(yak, cluster):
    cluster.stores = IN_QUORUM
    ran = yak("cluster", "migrate", "--to", "raft", "-b", "h1:9092")
    assert (ran.code, cluster.done) == (0, [])
    assert "already" in ran.err
    assert "next: restart" in ran.err
    cluster.stores = [BrokerStores(1, "raft", "quorum", "ACTIVE")]
    assert "next: restart" not in yak("cluster", "migrate", "--to", "raft", "-b", "h1:9092").err


def test_broker_with_one_store_is_named_with_the_flags_that_it_needs(yak, cluster):
    cluster.stores = [IN_REDIS[0], BrokerStores(2, "redis", "04e3713d", "ACTIVE")]
    ran = yak("cluster", "migrate", "--to", "raft", "-b", "h1:9092")
    assert (ran.code, cluster.done) == (1, [])
    assert "error[migrate-not-both]: the metadata were not moved: broker 2 cannot use both" in ran.err
    assert "--metadata both --redis-url URL --voters" in ran.err


def test_broker_that_is_down_keeps_the_metadata_where_they_are(yak, cluster):
    cluster.members[3] = members.Member(3, "h3:9092", None, broker_state.SeenState.FENCED)
    ran = yak("cluster", "migrate", "--to", "raft", "-b", "h1:9092")
    assert "broker 3 does not run" in ran.err
    assert cluster.done == []


def test_readonly_refuses_and_redis_url_is_for_a_cluster_of_yak_up(yak, cluster):
    args = ("cluster", "migrate", "-b", "h1:9092")
    assert "error[readonly]" in yak(*args, "--to", "raft", "--readonly").err
    assert "error[usage]" in yak(*args, "--to", "redis", "--redis-url", "redis://h/0").err
    assert cluster.done == []


@pytest.mark.parametrize(
    ("store", "in_raft", "in_redis"), [("quorum", True, False), ("04e3", False, True), ("", False, False)]
)
def test_broker_uses_the_store_that_it_reports(store, in_raft, in_redis):
    found = BrokerStores(1, BOTH, store, "ACTIVE")
    assert (found.uses("raft"), found.uses("redis")) == (in_raft, in_redis)
    assert not BrokerStores(1, BOTH, store, "FROZEN").uses("raft")


# ------------------------------------------------------------------------------------------------------ yak up


def stored(tmp_path: Any, **more: Any) -> LocalCluster:
    folder = tmp_path / "data"
    folder.mkdir()
    brokers = [BrokerState(n, "leader", "127.0.0.1", 21900 + n, str(folder / f"node-{n}")) for n in (1, 2, 3)]
    save(ClusterState(str(folder), RedisState("redis://h/0"), "id", brokers=brokers, **more))
    return LocalCluster(str(folder))


def test_local_cluster_that_has_the_store_already_needs_nothing(tmp_path):
    assert stored(tmp_path).migrate("redis") is False


def test_local_cluster_that_does_not_run_is_refused(tmp_path):
    with pytest.raises(YakError, match="does not run"):
        stored(tmp_path).migrate("raft")


def test_moving_cluster_is_served_with_both_until_it_has_moved(tmp_path):
    cluster = stored(tmp_path, moving_to="raft", voters=(1, 2, 3))
    known = load(cluster.data_dir)
    assert known is not None
    assert (known.serves_with, known.has_quorum, known.has_redis) == ("both", True, True)
    known.metadata, known.has_moved = "raft", True
    assert known.serves_with == "raft"
    known.moving_to = None
    assert (known.has_quorum, known.has_redis) == (True, False)
    assert cluster.status().as_json()["moving_to"] == "raft"


def test_move_that_began_keeps_its_redis(tmp_path, monkeypatch):
    monkeypatch.setattr(migration, "is_alive", lambda _: True)
    cluster = stored(tmp_path, metadata="raft", moving_to="redis", voters=(1,))
    with pytest.raises(UsageError, match="has begun"):
        cluster.migrate("redis", redis_url="redis://other/0")


def moved(known: ClusterState, to: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the command says of a move of a cluster whose quorum has voters 1 to 4."""
    found = SimpleNamespace(leader_id=4, voter_ids=[1, 2, 3, 4])
    monkeypatch.setattr(migration, "is_alive", lambda _: True)
    monkeypatch.setattr(migration.quorum, "shared_secret", lambda _: "secret")
    monkeypatch.setattr(migration, "read_stores", lambda _: [])
    monkeypatch.setattr(migration, "wait_for_quorum", lambda *_, **__: found)
    monkeypatch.setattr(migration.Migration, "_wait_in_sync", lambda _: None)
    for name in ("start_missing", "set_target", "wait_for_store"):
        monkeypatch.setattr(migration, name, lambda *_, **__: None)
    said: list[str] = []
    assert migration.Migration(known, lambda _: None, said.append).run(to, None)
    return said


@pytest.mark.parametrize(
    ("voters", "first"), [((), "first voters of the quorum: 1, 2, 3"), ((1, 2, 3), None)], ids=["new", "earlier"]
)
def test_move_to_a_quorum_names_the_voters_that_the_quorum_has(tmp_path, monkeypatch, voters, first):
    known = load(stored(tmp_path, voters=voters).data_dir)
    assert known is not None
    assert [line for line in moved(known, "raft", monkeypatch) if "voters" in line] == [
        *([first] if first else []),
        "node 4 leads the quorum, and its voters 1, 2, 3, 4 have caught up",
    ]


def test_move_to_redis_stores_the_voters_that_a_return_needs(tmp_path, monkeypatch):
    """`yak quorum add` has changed them. `yak node remove` keeps a majority of them, and no new node gets their ids."""
    cluster = stored(tmp_path, metadata="raft", voters=(1, 2, 3))
    known = load(cluster.data_dir)
    assert known is not None
    moved(known, "redis", monkeypatch)
    known = load(cluster.data_dir)
    assert known is not None
    assert (known.metadata, known.voters) == ("redis", (1, 2, 3, 4))


def test_up_does_not_move_metadata_and_names_the_command(tmp_path):
    with pytest.raises(UsageError) as caught:
        stored(tmp_path).up(UpSettings(metadata="raft"))
    assert any("yak cluster migrate --to raft" in each for each in caught.value.try_)
