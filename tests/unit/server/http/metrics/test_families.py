"""Topics, partitions and groups in metrics: against what the simulated broker holds, and what is left out past a bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.cluster_rig import ClusterRig
from tests.rig import Rig
from tests.unit.broker import group_requests as ask
from tests.unit.server.http.metrics.test_text import parsed
from yak.groups.offsets import OFFSETS_TOPIC, Committed
from yak.ids import TopicPartition
from yak.partitions.transaction_markers import TxnMarker
from yak.protocol.record_batch import TRANSACTIONAL_BIT
from yak.protocol.record_writer import build_batch
from yak.server.http.metrics import groups, partitions, quorum, topics
from yak.server.http.metrics.rendering import MetricsLimits
from yak.server.http.metrics.text import Samples
from yak.views.group_lag import TopicLag, add_lags

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.fixture
def rig() -> Rig:
    rig = Rig(settings=SETTINGS)
    rig.create_topic("orders", partitions=3)
    rig.create_topic("mail")
    return rig


def values(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """Of one family: label values -> value."""
    _kind, found = parsed(samples, open_metrics=True)[name]
    return {tuple(value for _name, value in sorted(labels)): number for (_sample, labels), number in found.items()}


def value(samples: Samples, name: str) -> float:
    return values(samples, name)[()]


def of_partitions(rig: Rig, *, partitions_max: int = 100) -> tuple[Samples, int]:
    samples = Samples()
    *_, left_out = partitions.gather(rig.node.broker, samples, partitions_max, rig.world.now_ms)
    return samples, left_out


def test_each_partition_has_its_offsets_and_size(rig):
    for number in range(5):
        rig.produce("orders", [b"x"] * (number + 1), partition=number % 3)
    samples, left_out = of_partitions(rig)
    held = {(str(p), t): each for (t, p), each in rig.node.broker.partitions.items()}
    assert left_out == 0
    assert len(held) == 4
    for name, expected in {
        "yak_partition_log_start_offset": dict.fromkeys(held, 0),
        "yak_partition_log_end_offset": {key: each.log.log_end_offset for key, each in held.items()},
        "yak_partition_high_watermark": {key: each.high_watermark for key, each in held.items()},
        "yak_partition_log_size_bytes": {key: each.log.size_bytes for key, each in held.items()},
        "yak_partition_in_sync_replicas": dict.fromkeys(held, 1),
    }.items():
        assert values(samples, name) == expected
    assert sum(values(samples, "yak_partition_log_end_offset").values()) == 15
    assert value(samples, "yak_logs_size_bytes") == sum(each.log.size_bytes for each in held.values())
    assert (
        value(samples, "yak_replicas") == value(samples, "yak_leaders") == value(samples, "yak_cluster_partitions") == 4
    )
    assert value(samples, "yak_offline_partitions") == value(samples, "yak_offline_replicas") == 0


def test_the_largest_dirty_ratio_is_that_of_closed_segments_that_no_compaction_has_read(rig):
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_log_cleaner_max_dirty_ratio") == 0
    rig.create_topic("prices", **{"cleanup.policy": "compact", "segment.bytes": "200"})
    log = rig.node.broker.partitions[("prices", 0)].log
    for _ in range(4):
        assert rig.produce_raw("prices", build_batch([(b"key", bytes(150))], 0)).error_code == 0
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_log_cleaner_max_dirty_ratio") == 1
    log.cleaned_offset = log.segments[-1].base_offset
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_log_cleaner_max_dirty_ratio") == 0
    assert value(samples, "yak_log_cleaner_uncleanable_partitions") == 0
    assert value(samples, "yak_log_cleaner_removed_bytes") == 0


def test_an_open_transaction_holds_committed_records_back_and_is_late_in_the_end():
    rig = Rig(settings=SETTINGS | {"transaction.max.timeout.ms": "2000"})
    rig.create_topic("orders")
    rig.produce("orders", [b"before"])
    broker = rig.node.broker
    batch = build_batch(
        [(None, b"x")] * 3, 0, attributes=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0
    )
    broker.leader_appends.append_own_batch(broker.partitions[("orders", 0)], batch)
    samples, _left_out = of_partitions(rig)
    assert values(samples, "yak_partition_last_stable_offset_lag") == {("0", "orders"): 3}
    rig.run_for(301_000)
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_partitions_with_late_transactions") == 0
    rig.run_for(2_000)
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_partitions_with_late_transactions") == 1
    broker.transaction_markers.write(TopicPartition("orders", 0), TxnMarker(7, 0, 0, False, 0), lambda _code: None)
    samples, _left_out = of_partitions(rig)
    assert value(samples, "yak_partitions_with_late_transactions") == 0
    assert values(samples, "yak_partition_last_stable_offset_lag") == {("0", "orders"): 0}


def test_partitions_past_the_bound_are_left_out_but_summed(rig):
    rig.produce("mail", [b"x"])
    samples, left_out = of_partitions(rig, partitions_max=2)
    assert left_out == 2
    assert len(values(samples, "yak_partition_log_end_offset")) == 2
    assert value(samples, "yak_replicas") == 4
    assert value(samples, "yak_logs_size_bytes") > 0


def test_a_replica_without_its_log_is_offline(rig):
    for partition in rig.node.broker.partitions.values():
        if partition.topic_partition.topic == "mail":
            partition.log = None
    samples, _ = of_partitions(rig)
    assert value(samples, "yak_offline_replicas") == 1
    assert len(values(samples, "yak_partition_log_end_offset")) == 3


def test_paused_follower_lags_and_the_partition_is_under_replicated():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("pairs", min_insync_replicas="3")
    rig.produce("pairs", [b"a"])
    rig.run_for(300)
    leader = rig.leader("pairs")
    slow = next(node for node in rig.info("pairs").replicas if node != leader)

    def gathered() -> Samples:
        samples = Samples()
        for _ in partitions.gather(rig.nodes[leader - 1].broker, samples, 100, rig.world.now_ms):
            pass
        return samples

    samples = gathered()
    assert set(values(samples, "yak_replica_lag_messages").values()) == {0}
    assert value(samples, "yak_under_replicated_partitions") == value(samples, "yak_under_min_isr_partitions") == 0
    rig.nodes[slow - 1].pause()
    rig.begin_produce("pairs", [b"a"] * 7)
    rig.run_for(1_000)
    samples = gathered()
    # labels by name: partition, replica, topic
    assert values(samples, "yak_replica_lag_messages")["0", str(slow), "pairs"] == 7
    assert values(samples, "yak_replica_lag_max_messages")[str(slow),] == 7
    assert 0.5 <= values(samples, "yak_replica_lag_max_seconds")[str(slow),] <= 1.5
    rig.run_until(lambda: slow not in rig.replica(leader, "pairs").isr)
    samples = gathered()
    assert value(samples, "yak_under_replicated_partitions") == value(samples, "yak_under_min_isr_partitions") == 1
    assert values(samples, "yak_partition_in_sync_replicas") == {("0", "pairs"): 2}


def test_topics_past_the_bound_are_left_out_but_summed(rig):
    rig.produce("orders", [b"a", b"b"])
    rig.produce("mail", [b"c"])
    for topics_max, listed in ((10, {("orders",): 2, ("mail",): 1}), (1, {("orders",): 2})):
        samples = Samples()
        *_, left_out = topics.gather(rig.node.broker, samples, topics_max)
        assert left_out == 2 - len(listed)
        assert values(samples, "yak_topic_in_messages") == listed
        assert value(samples, "yak_in_messages") == 3
        assert value(samples, "yak_in_bytes") > 100


def of_groups(rig: Rig, **bounds: int) -> tuple[Samples, list[TopicLag], Counter[str]]:
    samples, lags, left_out = Samples(), [], Counter()
    wanted = MetricsLimits(**bounds)
    for _ in groups.gather(rig.node.broker, samples, wanted, lags, left_out):
        pass
    for _ in groups.write_lags(samples, lags):
        pass
    return samples, lags, left_out


@pytest.fixture
def grouped(rig: Rig) -> Rig:
    """Ten records in each partition, and two groups that read some of them."""
    for partition in range(3):
        rig.produce("orders", [b"x"] * 10, partition=partition)
    ask.find(rig, "g")
    joined = ask.stable(rig)
    ask.commit(rig, {0: 4, 1: 10}, member_id=joined.member_id, generation=joined.generation_id)
    second = ask.stable(rig, 'it"s\nmine')
    ask.commit(rig, {2: 999}, group='it"s\nmine', member_id=second.member_id, generation=second.generation_id)
    return rig


def test_groups_have_members_states_and_lag(grouped):
    samples, _, left_out = of_groups(grouped)
    assert values(samples, "yak_groups") == {("Stable",): 2}
    assert values(samples, "yak_group_members") == {("g",): 1, ('it"s\\nmine',): 1}
    # a commit past the end is none behind
    assert values(samples, "yak_group_lag_messages") == {("g", "orders"): 6, ('it"s\\nmine', "orders"): 0}
    assert value(samples, "yak_group_lag_unknown_partitions") == 0
    assert left_out == Counter()


@pytest.mark.parametrize(
    ("bounds", "left_out", "listed"),
    [
        ({"groups_max": 1}, Counter(groups=1), {"g"}),
        ({"group_name_length_max": 5}, Counter(groups=1), {"g"}),
        ({"group_topics_max": 1}, Counter(group_topics=1, group_offsets=1), {"g"}),
        ({"group_offsets_max": 1}, Counter(group_topics=1, group_offsets=2), {'it"s\\nmine'}),
    ],
)
def test_groups_past_a_bound_are_left_out_and_counted(grouped, bounds, left_out, listed):
    samples, _, found = of_groups(grouped, **bounds)
    assert found == left_out
    assert {key[0] for key in values(samples, "yak_group_lag_messages")} == listed
    assert values(samples, "yak_groups") == {("Stable",): 2}


def test_lag_in_a_topic_of_many_partitions_is_read_in_steps(grouped, monkeypatch):
    monkeypatch.setattr(groups, "_PER_STEP", 1)
    steps = list(groups.gather(grouped.node.broker, Samples(), MetricsLimits(), [], Counter()))
    assert len(steps) == 4, "one for each of three committed offsets, and the end"


def test_lag_of_a_remote_partition_is_unknown_until_its_leader_answers(grouped):
    broker = grouped.node.broker
    del broker.partitions["orders", 0]
    samples, lags, _ = of_groups(grouped)
    assert values(samples, "yak_group_lag_messages")["g", "orders"] == 0
    assert value(samples, "yak_group_lag_unknown_partitions") == 1
    assert lags[0].elsewhere == [(0, 4)]


def test_lag_is_not_that_of_a_follower_that_no_longer_copies():
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"})
    rig.create_topic("pairs")
    rig.produce("pairs", [b"a"])
    rig.run_for(300)
    leader, follower = rig.leader("pairs"), rig.followers("pairs")[0]
    broker, committed = rig.nodes[follower - 1].broker, [(0, Committed(1, -1, "", 0))]
    lag = TopicLag("g", "pairs")
    add_lags(broker, lag, committed)
    assert (lag.messages, lag.elsewhere, rig.replica(follower, "pairs").high_watermark) == (0, [], 1)
    rig.cluster.cut(f"n{leader}", f"n{follower}")
    rig.produce("pairs", [b"a"] * 7)
    rig.run_until(lambda: follower not in broker.image.topics["pairs"].partitions[0].isr)
    assert rig.replica(follower, "pairs").high_watermark == 1
    add_lags(broker, lag, committed)
    assert lag.elsewhere == [(0, 1)]


def test_offsets_of_a_deleted_topic_add_no_group_lag(grouped):
    broker = grouped.node.broker
    image = broker.context.image
    rest = {name: topic for name, topic in image.topics.items() if name != "orders"}
    broker.context.image = replace(image, topics=rest)
    samples, _, _ = of_groups(grouped)
    assert set(values(samples, "yak_group_lag_messages").values()) == {0}
    assert OFFSETS_TOPIC in rest


def test_quorum_reports_roles_offsets_elections_and_commits():
    rig = ClusterRig(metadata="raft")
    rig.create_topic("orders")
    rig.run_for(600)
    found: dict[int, Samples] = {}
    for node in rig.nodes:
        assert node.broker is not None
        quorum.gather(node.broker, found.setdefault(node.node_id, Samples()))
    leader = int(value(found[1], "yak_quorum_leader_id"))
    follower = 1 if leader != 1 else 2
    assert values(found[leader], "yak_quorum_state")["leader",] == 1
    assert values(found[follower], "yak_quorum_state")["follower",] == 1
    assert sum(values(found[follower], "yak_quorum_state").values()) == 1
    assert {value(samples, "yak_quorum_epoch") for samples in found.values()} == {value(found[1], "yak_quorum_epoch")}
    assert value(found[leader], "yak_quorum_high_watermark") == value(found[leader], "yak_quorum_log_end_offset") > 0
    assert (value(found[leader], "yak_quorum_voters"), value(found[leader], "yak_quorum_observers")) == (3, 0)
    assert values(found[leader], "yak_quorum_replica_lag_offsets") == {
        (str(node),): 0 for node in (1, 2, 3) if node != leader
    }
    assert value(found[leader], "yak_quorum_elections") >= 1
    assert value(found[leader], "yak_quorum_commands") >= value_of_count(found[leader]) > 0
    assert (value(found[follower], "yak_quorum_commands"), value_of_count(found[follower])) == (0, 0)
    assert "yak_quorum_observers" not in {family.name for family in found[follower].lines}


def value_of_count(samples: Samples) -> float:
    """The number of commits that were measured."""
    _kind, found = parsed(samples, open_metrics=True)["yak_quorum_commit_seconds"]
    return next(number for (sample, _labels), number in found.items() if sample.endswith("_count"))


def test_cluster_with_redis_has_no_metrics_of_a_quorum(rig):
    samples = Samples()
    quorum.gather(rig.node.broker, samples)
    assert samples.lines == {}
