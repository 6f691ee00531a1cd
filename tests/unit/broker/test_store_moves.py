"""Brokers that know both metadata stores, and whose quorum's leader moves the metadata from one to the other."""

import pytest
from kio.schema.errors import ErrorCode

from tests.cluster_rig import ClusterRig
from tests.unit.broker.requests import BROKER, alter, describe
from yak.config.broker_config_table import METADATA_STORE_TARGET
from yak.ports.metadata_store import StoreOutcome, StoreRequest
from yak.quorum.migration import Migration
from yak.sim.request_fields import create_fields

CREATE_TOPICS = 19
IDS = ("cluster_id", "incarnation_id", "incarnation")


def is_leader(node) -> bool:
    return node.broker.quorum.quorum.is_ready_leader


def leader_of_quorum(rig: ClusterRig):
    """The node that leads the quorum and serves."""
    nodes = [node for node in rig.nodes if node.broker is not None and not node.is_paused]
    return next(node for node in nodes if is_leader(node))


def set_target(rig: ClusterRig, target: str, node_id: int = 1):
    return alter(rig, BROKER, "", {METADATA_STORE_TARGET: target}, node_id=node_id)


def move(rig: ClusterRig, target: str) -> None:
    """Ask for a move, and run until every broker uses the target."""
    assert set_target(rig, target, rig.alive().node_id).error_code == ErrorCode.none
    run_until_all_use(rig, target)


def run_until_all_use(rig: ClusterRig, target: str) -> None:
    brokers = [node.broker for node in rig.nodes if node.broker is not None]
    rig.run_until(
        lambda: all(
            broker.metadata_in_quorum == (target == "raft") and broker.metadata.lifecycle.state == "ACTIVE"
            for broker in brokers
        )
    )


def view(rig: ClusterRig, name: str) -> str:
    (row,) = describe(rig, BROKER, "1", [name], node_id=1).configs
    return row.value


@pytest.fixture
def rig() -> ClusterRig:
    return ClusterRig(metadata="both")


def test_metadata_stay_in_redis_until_a_target_is_set(rig):
    rig.create_topic("orders")
    rig.run_for(3_000)
    assert view(rig, "yak.metadata.stores") == "redis,raft"
    assert not rig.cluster.store.is_in_quorum
    assert view(rig, "yak.metadata.store").startswith("sim-store")


def test_move_to_the_quorum_keeps_ids_history_and_content(rig):
    rig.create_topic("orders", partitions=3, retention_ms="4000")
    redis = rig.cluster.store.redis.state
    before = {name: redis.cluster[name] for name in IDS}
    topics, partitions = dict(redis.topics), dict(redis.partitions)
    move(rig, "raft")
    state = rig.cluster.store.committed.state
    assert {name: state.cluster[name] for name in IDS} == before
    assert (state.topics, state.partitions) == (topics, partitions)
    assert state.configs["topic:orders"] == {"retention.ms": "4000"}
    assert view(rig, "yak.metadata.store") == "quorum"
    rig.run_until(lambda: redis.cluster["state"] == "MOVED")
    assert (redis.topics, redis.partitions, redis.log) == ({}, {}, [])
    rig.create_topic("later")
    assert rig.produce("orders", [b"a"]).error_code == ErrorCode.none


def test_move_there_and_back_and_there_again(rig):
    rig.create_topic("first")
    for number, target in enumerate(("raft", "redis", "raft")):
        move(rig, target)
        rig.create_topic(f"after-{number}")
        assert rig.produce("first", [b"a"]).error_code == ErrorCode.none
    assert set(rig.alive().broker.image.topics) == {"first", "after-0", "after-1", "after-2"}


def test_end_of_a_long_log_moves_with_a_snapshot_and_a_broker_that_was_down_reads_it(rig):
    for node in rig.nodes:
        node.broker.quorum.choice.migration.log_records = 3
    rig.create_topic("first")
    stopped = next(node for node in rig.nodes if not is_leader(node))
    stopped.stop()
    rig.run_until(lambda: stopped.broker is None)
    for number in range(5):
        rig.create_topic(f"more-{number}")
    rig.run_for(3_000)
    move(rig, "raft")
    state = rig.cluster.store.committed.state
    assert state.snapshot.offset >= state.log[0].offset > 5
    stopped.start()
    rig.run_until(lambda: stopped.is_ready and stopped.broker.metadata_in_quorum)
    assert len(stopped.broker.image.topics) == 6
    stopped.broker.quorum.choice.migration.log_records = 3
    move(rig, "redis")
    redis = rig.cluster.store.redis.state
    assert redis.snapshot.offset >= redis.log[0].offset > state.cluster["mo"] - 40
    rig.create_topic("later")


def test_offsets_of_idle_partitions_are_reported_to_each_store(rig):
    rig.create_topic("orders")
    rig.produce("orders", [b"a"])
    redis = rig.cluster.store.redis
    rig.run_until(lambda: (0, 1) in redis.state.high_watermarks.values())
    move(rig, "raft")
    held = leader_of_quorum(rig).broker.quorum.quorum.machine
    rig.run_until(lambda: (0, 1) in held.state.high_watermarks.values())
    move(rig, "redis")
    rig.run_until(lambda: (0, 1) in redis.state.high_watermarks.values())


def test_produce_continues_while_redis_is_frozen(rig):
    rig.create_topic("orders")
    pending = rig.begin_produce("orders", [b"a"])
    set_target(rig, "raft")
    rig.run_until(lambda: rig.cluster.store.redis.state.cluster["state"] == "EXPORTED")
    assert rig.produce("orders", [b"b"]).error_code == ErrorCode.none
    rig.run_until(lambda: pending.is_done)


def test_leader_of_the_quorum_killed_between_export_and_import_is_continued_by_the_next(rig):
    rig.create_topic("orders")
    set_target(rig, "raft")
    rig.run_until(lambda: rig.cluster.store.redis.state.cluster["state"] == "EXPORTED")
    assert not rig.cluster.store.is_in_quorum
    killed = leader_of_quorum(rig)
    killed.kill()
    run_until_all_use(rig, "raft")
    rig.create_topic("later", replication_factor=2)
    killed.start()
    rig.run_until(lambda: killed.is_ready and killed.broker.metadata_in_quorum)


@pytest.mark.parametrize("state", ["EXPORTED", "MOVED"])
def test_leader_of_the_quorum_killed_on_the_way_to_redis_is_continued_by_the_next(rig, state):
    rig.create_topic("orders")
    move(rig, "raft")
    set_target(rig, "redis")
    rig.run_until(lambda: rig.cluster.store.committed.state.cluster["state"] == state)
    leader_of_quorum(rig).kill()
    run_until_all_use(rig, "redis")
    assert rig.cluster.store.redis.state.cluster["state"] == "LIVE"
    rig.create_topic("later", replication_factor=2)


def test_migration_to_redis_is_aborted_while_redis_is_down_and_completed_later(rig):
    rig.create_topic("orders")
    move(rig, "raft")
    set_target(rig, "redis")
    rig.run_until(lambda: rig.cluster.store.committed.state.cluster["state"] == "EXPORTED")
    rig.cluster.stop_store()
    rig.run_until(lambda: rig.cluster.store.committed.state.cluster["state"] == "LIVE")
    rig.run_until(lambda: rig.alive().broker.metadata.lifecycle.state == "ACTIVE")
    assert "metadata-migration-given-up" in rig.events(leader_of_quorum(rig).node_id)
    rig.create_topic("meanwhile")
    rig.cluster.start_store()
    run_until_all_use(rig, "redis")
    assert "meanwhile" in {topic["name"] for topic in rig.cluster.store.redis.state.topics.values()}


def refuse(rig: ClusterRig, monkeypatch: pytest.MonkeyPatch, script: str, times: int = 1) -> list[StoreRequest]:
    """Redis has an error of its own for the next calls of a script: it is out of memory, or cannot write to its disk.

    The list gets the refused calls.
    """
    redis = rig.cluster.store.redis
    call, refused = redis.call, []

    def answer(request, now_ms):
        if request.script != script or len(refused) >= times:
            return call(request, now_ms)
        refused.append(request)
        return StoreOutcome("STORE_ERROR", value={"message": "OOM command not allowed"})

    monkeypatch.setattr(redis, "call", answer)
    return refused


def test_opening_of_imported_metadata_that_redis_refuses_is_retried(rig, monkeypatch):
    rig.create_topic("orders")
    move(rig, "raft")
    refuse(rig, monkeypatch, "open_imported")
    move(rig, "redis")
    assert rig.cluster.store.redis.state.cluster["state"] == "LIVE"
    rig.create_topic("later")


def test_deletion_of_exported_metadata_that_redis_refuses_is_retried(rig, monkeypatch):
    rig.create_topic("orders")
    refuse(rig, monkeypatch, "close_exported")
    move(rig, "raft")
    rig.run_until(lambda: rig.cluster.store.redis.state.cluster["state"] == "MOVED")


def test_step_that_redis_refuses_is_retried_five_times_a_second(rig, monkeypatch):
    refused = refuse(rig, monkeypatch, "export_metadata", times=1_000)
    set_target(rig, "raft")
    rig.run_until(lambda: bool(refused))
    before = len(refused)
    rig.run_for(1_000)
    assert 3 <= len(refused) - before <= 6


@pytest.mark.parametrize("is_redis_away", [False, True])
def test_metadata_that_the_quorum_cannot_read_stay_in_redis(rig, monkeypatch, is_redis_away):
    """The leader cannot tell a Redis that is away for a moment to open them again."""
    rig.create_topic("orders")

    def unreadable(_rows):
        raise ValueError("a field of a newer version")

    def exported(self, *answer):
        on_exported(self, *answer)
        rig.world.after(1, rig.cluster.stop_store)
        monkeypatch.setattr(Migration, "_on_exported", on_exported)

    on_exported = Migration._on_exported
    monkeypatch.setattr("yak.metadata_store.migration.state_of", unreadable)
    if is_redis_away:
        monkeypatch.setattr(Migration, "_on_exported", exported)
    set_target(rig, "raft")
    redis, leader = rig.cluster.store.redis.state, leader_of_quorum(rig)
    rig.run_until(lambda: redis.cluster["state"] == "EXPORTED")
    rig.run_until(lambda: "metadata-migration-given-up" in rig.events(leader.node_id))
    rig.cluster.start_store()
    rig.run_until(lambda: redis.cluster["state"] == "LIVE")
    rig.run_until(lambda: rig.alive().broker.metadata.lifecycle.state == "ACTIVE")
    assert "metadata-migration-given-up" in rig.events(leader_of_quorum(rig).node_id)
    rig.create_topic("meanwhile")
    monkeypatch.undo()
    run_until_all_use(rig, "raft")
    assert "meanwhile" in {topic["name"] for topic in rig.cluster.store.committed.state.topics.values()}


def test_metadata_move_back_under_a_later_leader_after_a_redis_that_knew_an_earlier_quorum(rig):
    rig.cluster.store.redis.state.cluster["migration_id"] = 1 << 50
    rig.create_topic("orders")
    move(rig, "raft")
    leader_of_quorum(rig).kill()
    rig.run_for(1_000)
    assert rig.alive().broker.metadata.lifecycle.state == "ACTIVE"
    move(rig, "redis")
    rig.create_topic("later", replication_factor=2)


def test_move_to_the_quorum_waits_for_a_live_broker_that_does_not_follow_it(rig):
    rig.create_topic("orders")
    leader = leader_of_quorum(rig)
    other = next(node for node in rig.nodes if node is not leader)
    other.broker.quorum.quorum.stop()
    rig.run_for(4_000)
    set_target(rig, "raft")
    rig.run_for(2_000)
    assert not rig.cluster.store.is_in_quorum
    assert "metadata-migration-waits" in rig.events(leader.node_id)


def test_broker_that_was_down_during_the_move_follows_it(rig):
    rig.create_topic("orders")
    down = next(node for node in rig.nodes if node is not leader_of_quorum(rig))
    down.kill()
    rig.run_until(lambda: down.node_id not in [each.node_id for each in rig.alive().broker.image.active_brokers()])
    move(rig, "raft")
    down.start()
    rig.run_until(lambda: down.is_ready and down.broker.metadata_in_quorum and rig.is_in_sync("orders"))


def test_old_leader_that_wakes_up_cannot_freeze_redis_again(rig):
    rig.create_topic("orders")
    old = leader_of_quorum(rig)
    set_target(rig, "raft")
    rig.run_until(lambda: rig.cluster.store.redis.state.cluster["state"] == "EXPORTED")
    old.pause()
    alive = next(node for node in rig.nodes if node is not old)
    rig.run_until(lambda: rig.cluster.store.is_in_quorum and alive.broker.metadata.lifecycle.state == "ACTIVE")
    assert set_target(rig, "redis", alive.node_id).error_code == ErrorCode.none
    rig.run_until(lambda: rig.cluster.store.redis.state.cluster["state"] == "LIVE")
    old.resume()
    rig.run_for(5_000)
    assert rig.cluster.store.redis.state.cluster["state"] == "LIVE"
    run_until_all_use(rig, "redis")


@pytest.mark.parametrize("metadata", ["redis", "raft"])
def test_target_is_refused_by_a_broker_that_knows_one_store(metadata):
    rig = ClusterRig(metadata=metadata)
    refused = set_target(rig, "raft" if metadata == "redis" else "redis")
    assert refused.error_code == ErrorCode.invalid_request
    assert "--metadata both" in refused.error_message
    assert rig.ask(1, CREATE_TOPICS, 5, **create_fields("orders", {}, 1)).topics[0].error_code == ErrorCode.none
