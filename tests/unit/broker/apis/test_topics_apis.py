"""Topics through their APIs: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.noted_calls import note_calls
from yak.broker.apis import create_topics
from yak.cluster import image


@pytest.fixture
def rig() -> Rig:
    return Rig()


def metadata(rig, names, *, version=12, create=False):
    topics = None if names is None else [{"name": name} for name in names]
    return rig.ask(
        3, version, topics=topics, allow_auto_topic_creation=create, include_topic_authorized_operations=True
    )


def create(rig, name, *, version=7, partitions=1, replicas=1, assignments=(), configs=(), validate_only=False):
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [{"partition_index": index, "broker_ids": list(nodes)} for index, nodes in assignments],
        "configs": [{"name": key, "value": value} for key, value in configs],
    }
    answer = rig.ask(19, version, topics=[topic], validate_only=validate_only)
    return answer.topics[0]


def create_all(rig, *counts, validate_only=True):
    """The answers for topics of these names and numbers of partitions."""
    rows = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in counts]
    return rig.ask(19, 7, topics=rows, validate_only=validate_only).topics


def grow(rig, *counts, validate_only=True):
    """The answers for topics that get these numbers of partitions, and perhaps these replicas of the new ones."""
    rows = [{"name": name, "count": count, "assignments": more[0] if more else None} for name, count, *more in counts]
    return rig.ask(37, 3, topics=rows, validate_only=validate_only).results


def codes(rows):
    return [row.error_code for row in rows]


def delete(rig, **named):
    answer = rig.ask(20, 6, topics=[{"name": None} | named])
    return answer.responses[0]


def test_metadata_names_the_broker_the_cluster_and_the_controller(rig):
    answer = metadata(rig, [])
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "node1", 9092)]
    assert answer.cluster_id
    assert answer.controller_id == 1
    assert answer.topics == ()


def test_metadata_with_null_topics_returns_all_and_in_version_0_an_empty_list_does(rig):
    rig.create_topic("b")
    rig.create_topic("a")
    assert [topic.name for topic in metadata(rig, None).topics] == ["a", "b"]
    assert [topic.name for topic in rig.ask(3, 0, topics=()).topics] == ["a", "b"]


def test_a_created_topic_is_there_with_leader_and_id(rig):
    made = create(rig, "orders", partitions=3)
    assert made.error_code == 0
    assert made.num_partitions == 3
    assert {config.name: config.value for config in made.configs}["retention.ms"] == "604800000"
    (topic,) = metadata(rig, ["orders"]).topics
    assert topic.topic_id == made.topic_id
    assert [(part.partition_index, part.leader_id, part.isr_nodes) for part in topic.partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
        (2, 1, (1,)),
    ]
    (by_id,) = rig.ask(
        3, 12, topics=[{"name": None, "topic_id": made.topic_id}], allow_auto_topic_creation=False
    ).topics
    assert by_id.name == "orders"


def test_create_topics_with_the_same_overrides_describes_them_once(rig, monkeypatch):
    described = note_calls(monkeypatch, create_topics, "describe_topic")
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        for name, configs in [("a", []), ("b", []), ("c", [{"name": "retention.ms", "value": "1000"}])]
    ]
    answer = rig.ask(19, 7, topics=topics)
    assert [dict(overrides) for overrides, *_ in described] == [{}, {"retention.ms": "1000"}]
    values = [{row.name: row.value for row in topic.configs}["retention.ms"] for topic in answer.topics]
    assert values == ["604800000", "604800000", "1000"]


def test_a_topic_is_made_when_it_is_named_and_may_be(rig):
    (topic,) = metadata(rig, ["fresh"], create=True).topics
    assert topic.error_code == 0
    assert len(topic.partitions) == 3
    (default,) = metadata(rig, ["yak"], create=True).topics
    assert len(default.partitions) == 1


def test_a_topic_is_not_made_when_the_client_or_the_broker_forbids_it(rig):
    assert metadata(rig, ["fresh"]).topics[0].error_code == ErrorCode.unknown_topic_or_partition
    strict = Rig(settings={"auto.create.topics.enable": "false"})
    assert metadata(strict, ["fresh"], create=True).topics[0].error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a" * 250, "snow man", "ünder"])
def test_a_bad_name_is_refused_everywhere(rig, name):
    assert metadata(rig, [name], create=True).topics[0].error_code == ErrorCode.invalid_topic_exception
    assert create(rig, name).error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({"partitions": 0}, ErrorCode.invalid_partitions),
        ({"partitions": -2}, ErrorCode.invalid_partitions),
        ({"replicas": 0}, ErrorCode.invalid_replication_factor),
        ({"replicas": 2}, ErrorCode.invalid_replication_factor),
        ({"partitions": 2, "assignments": [(0, [1])]}, ErrorCode.invalid_request),
        ({"partitions": -1, "replicas": -1, "assignments": [(0, [9])]}, ErrorCode.invalid_replica_assignment),
        ({"partitions": -1, "replicas": -1, "assignments": [(1, [1])]}, ErrorCode.invalid_replica_assignment),
        ({"configs": [("no.such.config", "1")]}, ErrorCode.invalid_config),
        ({"configs": [("retention.ms", "soon")]}, ErrorCode.invalid_config),
        ({"configs": [("cleanup.policy", "compress")]}, ErrorCode.invalid_config),
        ({"configs": [("retention.ms", None)]}, ErrorCode.invalid_config),
        ({"configs": [("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "2")]}, ErrorCode.invalid_config),
    ],
)
def test_topic_that_cannot_be_created_is_refused_with_kafkas_code_and_a_message(rig, named, error):
    answer = create(rig, "orders", **named)
    assert answer.error_code == error
    assert answer.error_message
    assert answer.configs == ()
    assert metadata(rig, None).topics == ()


def test_validate_only_makes_nothing(rig):
    assert create(rig, "orders", validate_only=True).error_code == 0
    assert metadata(rig, None).topics == ()


def test_names_that_clash_in_metrics_are_refused(rig):
    rig.create_topic("a.b")
    assert create(rig, "a_b").error_code == ErrorCode.invalid_topic_exception
    assert create(rig, "a.b").error_code == ErrorCode.topic_already_exists


def test_deleted_topic_loses_its_records_and_a_new_topic_of_the_name_has_another_id(rig):
    first = create(rig, "orders").topic_id
    rig.produce("orders", [b"old"])
    assert delete(rig, name="orders").error_code == 0
    assert rig.fetch("orders", 0).error_code == ErrorCode.unknown_topic_or_partition
    again = create(rig, "orders")
    assert again.topic_id != first
    assert rig.fetch("orders", 0).high_watermark == 0
    assert delete(rig, topic_id=first).error_code == ErrorCode.unknown_topic_id
    assert delete(rig, name="nowhere").error_code == ErrorCode.unknown_topic_or_partition
    rig.run_for(2_000)
    assert not [name for name in rig.node.disk.names("/data") if name.endswith("-delete")]


def test_a_topic_grows_and_never_shrinks(rig):
    rig.create_topic("orders")
    rig.produce("orders", [b"kept"])

    def refused(name, count, assignments=None):
        (row,) = grow(rig, (name, count, assignments), validate_only=False)
        return row.error_code, row.error_message

    assert refused("orders", 3) == (0, None)
    assert rig.produce("orders", [b"x"], partition=2).error_code == 0
    assert rig.fetch("orders", 0).high_watermark == 1
    # the texts of Kafka's ReplicationControlManager.createPartitions, which its own tests expect
    assert [
        refused("orders", 3),
        refused("orders", 1),
        refused("nowhere", 2),
        refused("orders", 5, [{"broker_ids": [1]}]),
        refused("orders", 4, [{"broker_ids": [1, 1]}]),
    ] == [
        (ErrorCode.invalid_partitions, "Topic already has 3 partition(s)."),
        (ErrorCode.invalid_partitions, "The topic orders currently has 3 partition(s); 1 would not be an increase."),
        (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."),
        (
            ErrorCode.invalid_replica_assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (ErrorCode.invalid_replica_assignment, "The manual partition assignment includes the broker 1 more than once."),
    ]


def test_topics_and_records_outlive_restarts(rig):
    made = create(rig, "orders", partitions=2).topic_id
    rig.produce("orders", [b"kept"], partition=1)
    for orderly in (True, False):
        rig.restart(orderly=orderly)
        (topic,) = metadata(rig, ["orders"]).topics
        assert topic.topic_id == made
        assert rig.fetch("orders", 0, partition=1).high_watermark == 1


def test_a_topic_creation_while_the_store_is_away_gets_a_retriable_error(rig):
    rig.node.store_line.block()
    refused = create(rig, "orders")
    assert refused.error_code == ErrorCode.request_timed_out
    assert "try again" in refused.error_message
    rig.node.store_line.unblock()
    rig.run_for(5_000)
    assert create(rig, "orders").error_code == 0


def test_a_topic_that_exists_is_reported_at_once_while_the_store_is_away(rig):
    create(rig, "orders")
    rig.node.store_line.block()
    rig.run_for(100)
    began_ms = rig.world.now_ms
    assert create(rig, "orders").error_code == ErrorCode.topic_already_exists
    assert rig.world.now_ms - began_ms < 100


def test_topics_are_described_page_by_page(rig):
    rig.create_topic("a", partitions=3)
    rig.create_topic("b", partitions=2)
    seen, cursor = [], None
    for _ in range(10):
        answer = rig.ask(75, 0, topics=[], response_partition_limit=2, cursor=cursor)
        seen += [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
        if answer.next_cursor is None:
            break
        cursor = {"topic_name": answer.next_cursor.topic_name, "partition_index": answer.next_cursor.partition_index}
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_wrong_cursor_names_no_topic_that_the_request_does_not_name(rig):
    # the answer to a wrong cursor of a request for all topics named topics that its client may not describe
    rig.create_topic("secret")
    cursor = {"topic_name": "secret", "partition_index": -1}
    assert rig.ask(75, 0, topics=[], response_partition_limit=2, cursor=cursor).topics == ()
    (refused,) = rig.ask(75, 0, topics=[{"name": "mine"}], response_partition_limit=2, cursor=cursor).topics
    assert (refused.name, refused.error_code) == ("mine", ErrorCode.invalid_request)


def test_create_topics_with_too_many_partitions_together_returns_policy_violation(rig):
    def ask(*counts, **more):
        return codes(create_all(rig, *((f"many-{number}", count) for number, count in enumerate(counts)), **more))

    assert ask(5000, 5000) == [ErrorCode.none, ErrorCode.none]
    assert ask(5000, 5000, 1) == [ErrorCode.policy_violation] * 3
    assert ask(9999, -1) == [ErrorCode.policy_violation] * 2
    assert ask(*[10_000] * 100, validate_only=False) == [ErrorCode.policy_violation] * 100


def test_topics_named_twice_are_refused_for_that_and_their_partitions_do_not_count(rig):
    def ask(*topics):
        return {topic.name: topic.error_code for topic in create_all(rig, *topics)}

    twice = {"twice": ErrorCode.invalid_request}
    assert ask(("twice", 10_000), ("one", 10_000), ("twice", 10_000)) == twice | {"one": ErrorCode.none}
    assert ask(("twice", 1), ("one", 10_001), ("twice", 1)) == twice | {"one": ErrorCode.policy_violation}
    prohibited = {"__cluster_metadata": ErrorCode.invalid_request}
    assert ask(("__cluster_metadata", 9999), ("one", 2)) == prohibited | {"one": ErrorCode.none}
    assert ask(("__cluster_metadata", 1), ("one", 10_001)) == prohibited | {"one": ErrorCode.policy_violation}


def test_topics_named_twice_do_not_count_for_the_partitions_that_are_added_together(rig):
    for name in ("grown", "twice"):
        rig.create_topic(name)
    answered = grow(rig, ("twice", 10_000), ("grown", 2), ("twice", 10_000))
    assert {topic.name: (topic.error_code, topic.error_message) for topic in answered} == {
        "twice": (ErrorCode.invalid_request, "Duplicate topic name."),
        "grown": (ErrorCode.none, None),
    }


def test_a_topic_that_exists_is_reported_whatever_its_assignments_are(rig):
    create(rig, "orders")
    rows = [{"partition_index": 0, "broker_ids": (1,)}] * 2
    topics = [
        {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        for name in ("orders", "other", "__cluster_metadata")
    ]
    answer = rig.ask(19, 7, topics=topics)
    assert [(topic.error_code, topic.error_message) for topic in answer.topics] == [
        (ErrorCode.topic_already_exists, "Topic 'orders' already exists."),
        (ErrorCode.invalid_replica_assignment, "Found multiple manual partition assignments for partition 0"),
        (ErrorCode.invalid_request, "Creation of internal topic __cluster_metadata is prohibited."),
    ]


def test_create_partitions_with_too_many_partitions_together_returns_policy_violation(rig):
    for name in ("grown-1", "grown-2"):
        rig.create_topic(name)
    assert codes(grow(rig, ("grown-1", 5001), ("grown-2", 5001))) == [ErrorCode.none, ErrorCode.none]
    assert codes(grow(rig, ("grown-1", 5001), ("grown-2", 5002))) == [ErrorCode.policy_violation] * 2


def test_metadata_that_names_many_unknown_topics_creates_a_bounded_number(rig, monkeypatch):
    monkeypatch.setattr("yak.broker.apis.metadata.TOPICS_PER_CREATE_MAX", 3)
    topics = [{"name": f"auto-{number}"} for number in range(5)]
    answer = rig.ask(3, 12, topics=topics, allow_auto_topic_creation=True)
    assert codes(answer.topics) == [ErrorCode.none] * 3 + [ErrorCode.policy_violation] * 2


def test_metadata_that_names_kafkas_metadata_topic_creates_nothing(rig):
    for _ in range(2):
        (topic,) = metadata(rig, ["__cluster_metadata"], create=True).topics
        assert topic.error_code == ErrorCode.unknown_topic_or_partition
    assert metadata(rig, None).topics == ()


def test_metadata_of_an_internal_topic_that_does_not_exist_returns_is_internal(rig):
    answer = metadata(rig, ["__consumer_offsets", "absent"]).topics
    assert [(topic.error_code, topic.is_internal) for topic in answer] == [
        (ErrorCode.unknown_topic_or_partition, True),
        (ErrorCode.unknown_topic_or_partition, False),
    ]


def test_topics_past_the_replicas_of_a_broker_return_policy_violation():
    rig = Rig(settings={"yak.max.broker.partitions": "10"})
    assert create(rig, "first", partitions=6).error_code == ErrorCode.none
    refused = create(rig, "second", partitions=5)
    assert refused.error_code == ErrorCode.policy_violation
    assert "Broker 1 has 6 replicas and would get 5 more; yak.max.broker.partitions allows 10" in refused.error_message
    assert create(rig, "second", partitions=5, validate_only=True).error_code == ErrorCode.policy_violation
    assert create(rig, "second", partitions=4, validate_only=True).error_code == ErrorCode.none
    assert codes(grow(rig, ("first", 11), validate_only=False)) == [ErrorCode.policy_violation]
    assert create(rig, "second", partitions=4).error_code == ErrorCode.none
    assert metadata(rig, ["auto"], create=True).topics[0].error_code == ErrorCode.policy_violation
    assert delete(rig, name="first").error_code == ErrorCode.none
    assert create(rig, "third", partitions=6).error_code == ErrorCode.none


def test_topics_of_one_request_are_counted_together_against_the_replicas_of_a_broker():
    rig = Rig(settings={"yak.max.broker.partitions": "10"})
    answered = create_all(rig, *((f"t{number}", 4) for number in range(4)), validate_only=False)
    assert codes(answered) == [ErrorCode.none] * 2 + [ErrorCode.policy_violation] * 2


def test_config_of_a_new_topic_is_resolved_once_and_not_for_each_partition(rig, monkeypatch):
    resolved = note_calls(monkeypatch, image, "resolve_log_config")
    assert create(rig, "wide", partitions=100).error_code == ErrorCode.none
    assert len(resolved) <= 4
