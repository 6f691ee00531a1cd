"""`yak isr`: marking rules, tables, JSON, exit codes, and what a watch prints."""

import json
from dataclasses import replace

import pytest

from yak.client.metadata import Broker
from yak.client.replica_offsets import ClusterReplicas
from yak.commands.isr import BAD, GOOD, WARN, changes, problems, replica_rows
from yak.errors import Unreachable
from yak.local import layout
from yak.local.state import BrokerState, ClusterState, RedisState, save
from yak.view.partition_replicas import PartitionReplicas


def partition(number=0, **fields):
    given = {
        "topic": "orders", "partition": number, "leader": 1, "leader_epoch": 7, "partition_epoch": None,
        "replicas": (1, 2, 3), "isr": (1, 2, 3), "high_watermark": 1841,
        "log_end_offsets": {1: 1841, 2: 1841, 3: 1841}, "min_isr": 2,
    }  # fmt: skip
    return PartitionReplicas(**(given | fields))


WELL = partition()
BEHIND = partition(1, isr=(1, 2), log_end_offsets={1: 612004, 2: 612004, 3: 1702}, high_watermark=612004)
BELOW = partition(2, isr=(2,), leader=2, log_end_offsets={1: None, 2: 9, 3: 9}, away={1: "no answer"})
GONE = partition(
    3, isr=(3,), leader=-1, log_end_offsets=dict.fromkeys((1, 2, 3)), away=dict.fromkeys((1, 2, 3), "no answer")
)
DYING = partition(4, leader=2, log_end_offsets={1: None, 2: 5, 3: 5}, high_watermark=5, away={1: "no answer"})
STATES = ("fenced", "stopping")
CLUSTER = ClusterReplicas(
    "c",
    1,
    {node: Broker(node, "127.0.0.1", 9090 + node) for node in (1, 2, 3)},
    (WELL, BEHIND, BELOW, GONE, DYING),
    ("orders",),
    {1: "connection refused"},
)


@pytest.fixture
def cluster(monkeypatch):
    """What the brokers say; a test may put another list of answers in it, the last of which stays."""
    answers = [CLUSTER]

    def read(servers, *, timeout_s, topic=None):
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found if topic is None else replace(found, partitions=found.of_topic(topic))

    monkeypatch.setattr("yak.client.replica_offsets.read_cluster", read)
    return answers


@pytest.mark.parametrize(
    ("found", "states"),
    [
        (WELL, [("leader", GOOD), ("in sync", GOOD), ("in sync", GOOD)]),
        (BEHIND, [("leader", GOOD), ("in sync", GOOD), ("OUT OF SYNC", BAD)]),
        (BELOW, [("OUT OF SYNC, no answer", BAD), ("leader", GOOD), ("OUT OF SYNC", BAD)]),
        (DYING, [("in sync, no answer", WARN), ("leader", GOOD), ("in sync", GOOD)]),
    ],
)
def test_each_replica_is_marked_with_text_and_colour(found, states):
    assert [(row.state, row.colour) for row in replica_rows(found)] == states


def test_too_far_behind_is_out_of_sync_when_a_limit_was_given():
    slow = partition(log_end_offsets={1: 100, 2: 90, 3: None})
    assert problems(slow) == []
    assert problems(slow, max_lag=9) == ["2 has a lag of 10", "the lag of 3 is unknown"]
    assert replica_rows(slow, max_lag=9)[1].state == "in sync, LAG"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("isr", ["isr"]),
        ("isr-wide", ["isr", "-o", "wide"]),
        ("isr-csv", ["isr", "-o", "csv"]),
        ("isr-json", ["isr", "-o", "json"]),
        ("isr-under-replicated", ["isr", "orders", "--under-replicated"]),
        ("isr-offline", ["isr", "--offline"]),
    ],
)
def test_the_output_is_as_agreed(yak, golden, cluster, name, args):
    ran = yak(*args)
    assert ran.code == 0, ran.err
    golden(f"tables/{name}.txt", ran.out)
    golden("tables/isr-summary.txt", ran.err)


def test_check_returns_4_and_says_what_is_wrong_and_0_when_all_is_well(yak, cluster):
    ran = yak("isr", "--check")
    assert ran.code == 4
    assert "orders-2: under min ISR (1 of 2): acks=all is refused; out of sync: 1,3" in ran.err
    cluster[:] = [replace(CLUSTER, partitions=(WELL,), silent={})]
    ran = yak("isr", "--check", "--max-lag", "0")
    assert (ran.code, ran.err) == (0, "1 of 1 partition in sync\n")
    cluster[:] = [replace(CLUSTER, partitions=(replace(WELL, log_end_offsets={1: 9, 2: 8, 3: 9}),), silent={})]
    assert yak("isr", "--check").code == 0
    assert yak("isr", "--check", "--max-lag", "0").code == 4


def test_check_returns_4_while_a_leader_does_not_answer_although_the_isr_is_full(yak, cluster):
    silent = partition(5, leader=1, log_end_offsets={1: None, 2: 5, 3: 5}, high_watermark=None, away={1: "no answer"})
    cluster[:] = [replace(CLUSTER, partitions=(WELL, silent))]
    ran = yak("isr", "--check", "-q")
    assert (ran.code, ran.err) == (4, "warning: orders-5: the leader, 1, does not answer\n")
    cluster[:] = [replace(CLUSTER, partitions=(WELL, DYING))]
    assert yak("isr", "--check", "-q").code == 0, (
        "a follower without an answer is in sync until the leader says otherwise"
    )


def test_check_returns_4_while_the_metadata_store_says_that_a_leader_is_fenced(yak, monkeypatch):
    found = [replace(CLUSTER, partitions=(WELL, partition(5, away={1: state})), silent={}) for state in STATES]
    monkeypatch.setattr("yak.local.replicas_in_redis.read_cluster", lambda url, **_options: found.pop(0))
    ran = yak("isr", "--from-redis", "--check", "-q")
    assert (ran.code, ran.err) == (4, "warning: orders-5: the leader, 1, is fenced\n")
    assert yak("isr", "--from-redis", "--check", "-q").code == 0, "a stopping broker leads until others are elected"


def test_quiet_check_prints_only_the_partitions_that_fail_it(yak, cluster):
    ran = yak("isr", "--check", "-q")
    assert (ran.code, ran.out) == (4, "")
    assert "warning: orders-2: under min ISR (1 of 2): acks=all is refused; out of sync: 1,3\n" in ran.err
    assert "in sync\n" not in ran.err
    ran = yak("isr", "--check", "-qq")
    assert (ran.code, ran.out, ran.err) == (4, "", "")
    cluster[:] = [replace(CLUSTER, partitions=(WELL,), silent={})]
    ran = yak("isr", "--check", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert yak("isr", "-q").out.startswith("PARTITION")


def test_internal_topics_are_hidden_while_they_are_healthy(yak, cluster):
    healthy, damaged = replace(WELL, topic="__consumer_offsets"), replace(BEHIND, topic="__consumer_offsets")
    cluster[:] = [replace(CLUSTER, partitions=(healthy, damaged, WELL), silent={})]
    ran = yak("isr", "--no-headers")
    assert [line.split()[0] for line in ran.out.splitlines() if "-" in line.split()[0]] == [
        "__consumer_offsets-1",
        "orders-0",
    ]
    assert "2 of 3 partitions in sync\n1 partition of internal topics not shown" in ran.err
    for args in (["--internal"], ["__consumer_offsets"]):
        assert "__consumer_offsets-0" in yak("isr", *args).out
    at_min = replace(healthy, min_isr=3)
    cluster[:] = [replace(CLUSTER, partitions=(at_min,), silent={})]
    assert "__consumer_offsets-0" in yak("isr", "--at-min-isr").out
    assert "No topics but internal ones." in yak("isr").err


def test_isr_command_without_a_reachable_broker_is_an_error_that_names_the_workaround(yak, cluster):
    cluster[:] = [Unreachable("unreachable", "no broker answered at h:1", why="refused", try_=("yak doctor",))]
    ran = yak("isr", "-o", "json")
    assert ran.code == 3
    assert json.loads(ran.err)["error"]["try"][0].startswith("yak isr --from-redis")


def test_isr_command_of_a_stopped_quorum_does_not_advise_a_redis_that_it_has_not(yak, cluster, tmp_path):
    broker = BrokerState(1, "leader", "127.0.0.1", 1, layout.node_dir(str(tmp_path / "yak-data"), 1))
    (tmp_path / "yak-data").mkdir()
    save(ClusterState(str(tmp_path / "yak-data"), RedisState(""), "c", brokers=[broker], metadata="raft"))
    cluster[:] = [Unreachable("unreachable", "no broker answered at h:1", why="refused", try_=("yak doctor",))]
    assert json.loads(yak("isr", "-o", "json").err)["error"]["try"] == ["yak doctor"]


@pytest.mark.parametrize("args", [("--watch", "--check"), ("--redis-url", "redis://h:1/0")])
def test_isr_option_without_effect_is_refused(yak, cluster, args):
    assert yak("isr", *args).code == 2


def test_isr_watch_in_a_dumb_terminal_prints_changes_without_moving_the_cursor(yak, cluster, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "\x1b" not in yak("isr", "--watch", "--count", "1").out


def test_a_topic_that_is_not_there_gets_the_closest_name(yak, cluster):
    ran = yak("isr", "ordes")
    assert ran.code == 1
    assert "error[unknown-topic]" in ran.err
    assert 'closest: "orders"' in ran.err


def test_a_watch_without_a_terminal_prints_changes_only(yak, cluster):
    later = replace(WELL, leader=2, leader_epoch=8, isr=(2, 3), away={1: "no answer"})
    nobody = Unreachable("unreachable", "no broker answered", why="refused")
    both = [replace(CLUSTER, partitions=(each,)) for each in (WELL, WELL, later)]
    cluster[:] = [*both[:2], nobody, nobody, both[2]]
    ran = yak("isr", "--watch", "--count", "6", "--interval", "1ms")
    assert ran.code == 0, ran.err
    lines = [line.split("  ", 1)[1] for line in ran.out.splitlines()]
    assert lines == [
        "orders-0  leader 1, epoch 7, ISR 1,2,3 of 1,2,3",
        "orders-0  leader 1 -> 2, epoch 7 -> 8; ISR 1,2,3 -> 2,3; 1: no answer",
    ]
    assert ran.err.count("no broker answered") == 1


def test_a_watch_in_json_is_a_document_a_line(yak, cluster):
    ran = yak("isr", "--watch", "--count", "1", "-o", "json")
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["partition"] for each in documents] == [0, 1, 2, 3, 4]
    assert all(each["time"].endswith("Z") for each in documents)


def test_offsets_are_no_change():
    assert changes(WELL, replace(WELL, high_watermark=1, log_end_offsets={})) == []
    assert changes(BELOW, replace(BELOW, away={})) == ["1: answers again"]


def test_filters_have_the_names_of_kafka_topics_too(yak, cluster):
    for short, long in (
        ("--under-replicated", "--under-replicated-partitions"),
        ("--under-min-isr", "--under-min-isr-partitions"),
        ("--at-min-isr", "--at-min-isr-partitions"),
        ("--offline", "--unavailable-partitions"),
    ):
        assert yak("isr", long).out == yak("isr", short).out


def test_isr_watch_without_changes_ends_when_its_output_is_closed(yak, cluster, monkeypatch):
    def gone(_out):
        raise BrokenPipeError

    monkeypatch.setattr("yak.commands.output.Output.require_reader", gone)
    monkeypatch.setattr("yak.commands.main._reader_gone", lambda: 0)
    assert yak("isr", "--watch", "--interval", "1ms").code == 0
