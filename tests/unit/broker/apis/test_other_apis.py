"""ApiVersions, configs, offsets, producers, log directories: each through its own API."""

import datetime as dt
import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import fetch_fields
from tests.unit.broker.raw_connection import RawConnection
from tests.unit.broker.replicated import add_broker, set_partition
from tests.unit.broker.requests import (
    APPEND,
    BROKER,
    SET,
    TOPIC,
    alter,
    delete_records,
    describe,
    list_offset,
    rows_of,
)
from tests.unit.noted_calls import note_calls
from yak.broker.apis import APIS, describe_configs
from yak.broker.apis.quorum import BETWEEN_BROKERS, OF_A_QUORUM
from yak.sim.request_fields import topic_fields
from yak.sim.wire import read_answer
from yak.storage.reader import DamagedBatch


def test_api_versions_is_the_table(rig):
    for version in range(6):
        named = {} if version < 3 else {"client_software_name": "test", "client_software_version": "1.0"}
        named |= {"cluster_id": None, "node_id": -1} if version >= 5 else {}
        answer = rig.ask(18, version, **named)
        ranges = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        assert ranges[18] == (0, 5)
        assert ranges[0] == (0, 13)
        assert ranges[22] == (0, 5)
        assert set(ranges) == {api.KEY for api in APIS} - BETWEEN_BROKERS - OF_A_QUORUM


LONG = "x" * 32_760


def test_error_that_quotes_a_long_text_fits_versions_with_short_strings(rig):
    """The message did not fit into 32,767 bytes: the connection was closed with an internal error."""
    second = dt.timedelta(seconds=1)
    answer = rig.ask(43, 0, topic_partitions=[{"topic": LONG, "partitions": [0]}], timeout=second)
    (elected,) = answer.replica_election_results[0].partition_result
    assert elected.error_code == ErrorCode.unknown_topic_or_partition
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [{"name": LONG, "value": "1"}]}
    (altered,) = rig.ask(33, 0, resources=[resource], validate_only=False).responses
    assert altered.error_code == ErrorCode.invalid_config
    topic = topic_fields("new", {"retention.ms": LONG})
    (created,) = rig.ask(19, 2, topics=[topic], timeout=second, validate_only=False).topics
    assert created.error_code == ErrorCode.invalid_config
    assert all("xxx" in each.error_message for each in (elected, altered, created))


@pytest.mark.parametrize("field", ["client_software_name", "client_software_version"])
def test_client_software_beyond_kafkas_longest_string_is_refused_and_not_stored(rig, field):
    software = {"client_software_name": "x", "client_software_version": "1"}
    assert rig.ask(18, 3, **software | {field: "a" * 32_767}).error_code == ErrorCode.none
    (connection,) = [each for each in rig.node.broker.connections.values() if each.client_software]
    before = connection.client_software
    refused = rig.ask(18, 3, **software | {field: "a" * 32_768})
    assert (refused.error_code, refused.api_keys) == (ErrorCode.invalid_request, ())  # as in Kafka, without versions
    assert connection.client_software == before


def test_client_that_reached_another_cluster_or_broker_gets_rebootstrap_required(rig):
    # KafkaApis.handleApiVersionsRequest of Kafka 4.4 (KIP-1242)
    here = {"cluster_id": rig.node.broker.image.cluster_id, "node_id": rig.node.broker.node_id}
    software = {"client_software_name": "test", "client_software_version": "1"}

    def code(**target):
        answer = rig.ask(18, 5, **software | target)
        assert bool(answer.api_keys) == (answer.error_code == ErrorCode.none)
        return answer.error_code

    assert code(cluster_id=None, node_id=-1) == code(**here) == ErrorCode.none
    for wrong in ({"cluster_id": "other"}, {"node_id": here["node_id"] + 1}):
        assert code(**here | wrong) == ErrorCode.rebootstrap_required
    for half in ({"cluster_id": None}, {"node_id": -1}):
        assert code(**here | half) == ErrorCode.invalid_request


def test_an_unknown_api_versions_version_is_answered_as_version_0_with_a_lower_maximum(rig):
    connection = RawConnection(rig)
    connection.send(bytes([0, 18, 0, 99, 0, 0, 0, 5, 0, 1]) + b"x" + b"\0\0\0")
    correlation, body = read_answer(18, 0, connection.answers[0])
    assert correlation == 5
    assert body.error_code == ErrorCode.unsupported_version
    assert {row.api_key: row.max_version for row in body.api_keys}[18] < 4


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (-1, 0), (0, 2), (1, 3), (1, 99), (3, -1), (3, 14), (7, 0), (4, 0), (56, 3), (63, 1)]
)
def test_unsupported_api_or_version_closes_the_connection(rig, key, version):
    connection = RawConnection(rig)
    connection.send(struct.pack(">hhih", key, version, 1, 1) + b"x\0\0" + bytes(100))
    assert connection.is_closed


def test_topic_configs_are_described_with_source_synonyms_type_and_documentation(rig):
    rig.create_topic("short", retention_ms="1000")
    rows = rows_of(describe(rig, TOPIC, "short"))
    assert rows["retention.ms"].value == "1000"
    assert rows["retention.ms"].config_source == 1
    assert rows["segment.bytes"].config_source == 5
    assert rows["segment.bytes"].config_type == 3
    assert rows["segment.bytes"].documentation
    assert [(synonym.name, synonym.source) for synonym in rows["segment.bytes"].synonyms] == [("log.segment.bytes", 5)]
    only = describe(rig, TOPIC, "short", ["retention.ms", "no.such"])
    assert [row.name for row in only.configs] == ["retention.ms"]
    assert describe(rig, TOPIC, "nowhere").error_code == ErrorCode.unknown_topic_or_partition
    assert describe(rig, BROKER, "7").error_code == ErrorCode.invalid_request
    assert describe(rig, 99, "x").error_code == ErrorCode.invalid_request


def test_describe_configs_of_topics_with_the_same_overrides_describes_them_once(rig, monkeypatch):
    described = note_calls(monkeypatch, describe_configs, "describe_topic")
    names = ["a", "b", "c"]
    for name in names:
        rig.create_topic(name)
    rig.create_topic("short", retention_ms="1000")
    resources = [{"resource_type": TOPIC, "resource_name": name} for name in [*names, "short"]]
    answer = rig.ask(32, 4, resources=resources, include_synonyms=True, include_documentation=True)
    assert [dict(overrides) for overrides, *_ in described] == [{}, {"retention.ms": "1000"}]
    first, *alike, short = answer.results
    assert len(first.configs) > 20
    assert all(result.configs == first.configs for result in alike)
    values = [{row.name: row.value for row in result.configs}["retention.ms"] for result in (first, short)]
    assert values == ["604800000", "1000"]


def test_describe_configs_of_a_resource_named_twice_returns_invalid_request(rig):
    resources = [
        {"resource_type": kind, "resource_name": name} for kind, name in [(BROKER, "1"), (BROKER, "1"), (BROKER, "")]
    ]
    answer = rig.ask(32, 4, resources=resources, include_documentation=True)
    assert [result.error_code for result in answer.results] == [ErrorCode.invalid_request] * 2 + [ErrorCode.none]
    assert [len(result.configs) for result in answer.results] == [0, 0, 0]


def test_partition_epochs_are_described_if_requested_by_name(rig):
    name = "yak.partition.epochs"
    assert name not in rows_of(describe(rig, TOPIC, "orders"))
    (row,) = describe(rig, TOPIC, "orders", [name]).configs
    epochs = [info.partition_epoch for info in rig.node.broker.image.topics["orders"].partitions]
    assert row.value == ",".join(f"{number}:{epoch}" for number, epoch in enumerate(epochs))
    assert row.read_only
    assert describe(rig, TOPIC, "orders", [name], version=3).configs == ()  # a string of v3 ends at 32,767 bytes
    assert describe(rig, BROKER, "1", [name]).configs == ()


def test_damaged_offsets_are_described_if_requested_by_name(rig):
    name = "yak.damaged.offsets"
    assert name not in rows_of(describe(rig, TOPIC, "orders"))
    assert [row.value for row in describe(rig, TOPIC, "orders", [name]).configs] == [""]
    partition = rig.node.broker.partitions["orders", 0]
    rig.node.broker.damaged_replicas.found(partition, 17, DamagedBatch("/data/orders-0/x.log", 4096))
    (row,) = describe(rig, TOPIC, "orders", [name]).configs
    assert (row.value, row.read_only) == ("0:17", True)


def test_a_broker_shows_where_it_stands_with_the_metadata_store(rig):
    rows = rows_of(describe(rig, BROKER, "1"))
    assert rows["yak.metadata.state"].value == "ACTIVE"
    assert rows["yak.metadata.state"].read_only
    assert rows["yak.broker.role"].value == "leader"
    rig.node.store_line.block()
    assert value_of(rig, BROKER, "1", "yak.metadata.state") == "DISCONNECTED"


def value_of(rig, kind, name, config):
    return rows_of(describe(rig, kind, name))[config].value


def test_single_configs_are_set_and_deleted_and_take_effect(rig):
    for value, code in (("200", ErrorCode.message_too_large), (None, ErrorCode.none)):
        assert alter(rig, TOPIC, "orders", {"max.message.bytes": value}).error_code == 0
        assert value_of(rig, TOPIC, "orders", "max.message.bytes") == (value or "1048588")
        assert rig.produce("orders", [b"x" * 300]).error_code == code


@pytest.mark.parametrize(
    ("name", "operation", "value", "error"),
    [
        ("no.such", SET, "1", ErrorCode.invalid_config),
        ("retention.ms", SET, "soon", ErrorCode.invalid_config),
        ("retention.ms", APPEND, "5", ErrorCode.invalid_config),
        ("retention.ms", 9, "5", ErrorCode.invalid_request),
        ("retention.ms", SET, None, ErrorCode.invalid_request),
        ("cleanup.policy", SET, "compress", ErrorCode.invalid_config),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(rig, name, operation, value, error):
    bad = {"name": name, "config_operation": operation, "value": value}
    good = {"name": "segment.bytes", "config_operation": SET, "value": "99999"}
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": [bad, good]}
    (answer,) = rig.ask(44, 1, resources=[resource]).responses
    assert answer.error_code == error
    assert answer.error_message
    assert value_of(rig, TOPIC, "orders", "segment.bytes") == "1073741824"


MIN_LAG, MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"


def test_minimum_compaction_lag_above_the_maximum_is_refused(rig):
    """Kafka's LogConfig.validateValues, for the topic's values and those that it inherits."""
    assert alter(rig, BROKER, "", {"log.cleaner.min.compaction.lag.ms": "50"}).error_code == 0
    assert alter(rig, TOPIC, "orders", {MAX_LAG: "49"}).error_code == ErrorCode.invalid_config
    assert alter(rig, TOPIC, "orders", {MIN_LAG: "100", MAX_LAG: "100"}).error_code == 0
    assert alter(rig, TOPIC, "orders", {MAX_LAG: "99"}).error_code == ErrorCode.invalid_config
    assert replace_configs(rig, {MAX_LAG: "49"}) == ErrorCode.invalid_config
    assert value_of(rig, TOPIC, "orders", MAX_LAG) == "100"


def test_bad_value_of_a_broker_config_is_an_invalid_request(rig):
    """Kafka's ConfigAdminManager.validateBrokerConfigChange; of a topic config it is INVALID_CONFIG."""
    for name in ("1", ""):
        answer = alter(rig, BROKER, name, {"log.retention.ms": "soon"})
        assert answer.error_code == ErrorCode.invalid_request
        assert "soon" in answer.error_message


def replace_configs(rig, configs, **more):
    """AlterConfigs of the topic: its error code."""
    named = [{"name": name, "value": value} for name, value in configs.items()]
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": named}
    return rig.ask(33, 2, resources=[resource], **more).responses[0].error_code


def test_alter_configs_replaces_all(rig):
    alter(rig, TOPIC, "orders", {"retention.ms": "1000", "segment.bytes": "99999"})
    assert replace_configs(rig, {"segment.bytes": "88888"}, validate_only=True) == 0
    assert value_of(rig, TOPIC, "orders", "retention.ms") == "1000"
    assert replace_configs(rig, {"segment.bytes": "88888"}) == 0
    assert value_of(rig, TOPIC, "orders", "retention.ms") == "604800000"
    assert value_of(rig, TOPIC, "orders", "segment.bytes") == "88888"
    assert replace_configs(rig, {"retention.ms": "soon", "segment.bytes": None}) == ErrorCode.invalid_request
    twice = [{"name": "retention.ms", "value": "soon"}] * 2
    resource = {"resource_type": TOPIC, "resource_name": "orders", "configs": twice}
    assert rig.ask(33, 2, resources=[resource]).responses[0].error_code == ErrorCode.invalid_request


def test_offsets_are_found_by_time_and_by_name(rig):
    now = rig.world.now_ms
    for index in range(5):
        rig.produce("orders", [b"a", b"b"], timestamp_ms=now + index * 100)
    found = {each: list_offset(rig, each, version=10) for each in (-1, -2, -3, -4, -5, now + 150, now + 10_000)}
    assert [found[each].offset for each in (-1, -2, -4, -5)] == [10, 0, 0, -1]
    assert [(found[each].offset, found[each].timestamp) for each in (now + 150, now + 10_000)] == [
        (4, now + 200),
        (-1, -1),
    ]
    assert found[-3].timestamp == now + 400
    assert list_offset(rig, topic="nowhere").error_code == ErrorCode.unknown_topic_or_partition


def test_deleted_records_stay_deleted_after_a_restart(rig):
    for _ in range(5):
        rig.produce("orders", [b"a"])
    assert delete_records(rig, "orders", 3).low_watermark == 3
    assert rig.fetch("orders", 2).error_code == ErrorCode.offset_out_of_range
    assert list_offset(rig, -2).offset == 3
    assert delete_records(rig, "orders", 9).error_code == ErrorCode.offset_out_of_range
    rig.run_for(3_000)
    rig.restart()
    assert list_offset(rig, -2).offset == 3
    assert delete_records(rig, "orders", -1).low_watermark == 5


def test_end_offset_of_an_earlier_leader_epoch_is_returned(rig):
    rig.produce("orders", [b"a", b"b"])
    first_epoch = rig.node.broker.partitions["orders", 0].leader_epoch
    rig.restart()
    rig.produce("orders", [b"c"])
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": first_epoch}]}]
    found = rig.ask(23, 4, topics=topics).topics[0].partitions[0]
    assert (found.leader_epoch, found.end_offset) == (first_epoch, 2)


def test_producer_ids_are_never_given_twice_also_over_restarts(rig):
    given = [rig.ask(22, 4).producer_id for _ in range(3)]
    rig.restart()
    given += [rig.ask(22, 4).producer_id for _ in range(3)]
    assert len(set(given)) == 6
    assert rig.ask(22, 4, transactional_id="t").error_code == ErrorCode.not_coordinator
    assert rig.ask(22, 4, transactional_id="").error_code == ErrorCode.invalid_request
    assert rig.ask(22, 4, producer_id=5).error_code == ErrorCode.invalid_request


@pytest.mark.parametrize("leader", [1, 2])
def test_producers_of_a_partition_are_described_by_its_leader_and_by_a_follower(rig, leader):
    """Kafka's Partition.activeProducerState: each replica answers with the producers that it knows."""
    rig.produce("orders", [b"a", b"b"], producer_id=7, epoch=3, sequence=0)
    add_broker(rig, 2)
    set_partition(rig, "orders", leader=leader, replicas=(1, 2), isr=(1, 2))
    known, unknown = rig.ask(61, 0, topics=[{"name": "orders", "partition_indexes": [0, 9]}]).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (known.error_code, unknown.error_code) == (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


def test_log_directories_are_described_with_sizes(rig):
    rig.produce("orders", [b"x" * 1000])
    (directory,) = rig.ask(35, 4, topics=None).results
    sizes = {
        (topic.name, part.partition_index): part.partition_size
        for topic in directory.topics
        for part in topic.partitions
    }
    assert sizes["orders", 0] > 1000
    assert sizes["orders", 1] == 0
    assert directory.usable_bytes > 0


def test_the_cluster_is_described(rig):
    answer = rig.ask(60, 1, include_cluster_authorized_operations=True)
    assert answer.controller_id == 1
    assert [broker.broker_id for broker in answer.brokers] == [1]


def session_fetch(rig, session_id, epoch, items, forget=()):
    fields = fetch_fields("orders", 0) | {"session_id": session_id, "session_epoch": epoch}
    (row,) = fields["topics"][0]["partitions"]
    rows = [row | {"partition": index, "fetch_offset": offset} for index, offset in items]
    fields["topics"] = [{"topic": "orders", "partitions": rows}] if items else []
    fields["forgotten_topics_data"] = [{"topic": "orders", "partitions": list(forget)}] if forget else []
    return rig.ask(1, 12, **fields)


def shown(answer):
    return [
        (part.partition_index, len(part.records or b"") > 0) for topic in answer.responses for part in topic.partitions
    ]


def test_fetch_session_returns_only_changed_partitions(rig):
    first = session_fetch(rig, 0, 0, [(0, 0), (1, 0)])
    session = first.session_id
    assert session > 0
    assert shown(first) == [(0, False), (1, False)]
    assert shown(session_fetch(rig, session, 1, [])) == []
    rig.produce("orders", [b"a"], partition=1)
    assert shown(session_fetch(rig, session, 2, [])) == [(1, True)]
    assert shown(session_fetch(rig, session, 3, [(1, 1)])) == []
    assert shown(session_fetch(rig, session, 4, [], forget=[1])) == []
    rig.produce("orders", [b"b"], partition=1)
    assert shown(session_fetch(rig, session, 5, [])) == []
    assert session_fetch(rig, session, 5, []).error_code == ErrorCode.invalid_fetch_session_epoch
    assert session_fetch(rig, 12345, 1, []).error_code == ErrorCode.fetch_session_id_not_found
    closed = session_fetch(rig, session, -1, [(0, 0)])
    assert closed.session_id == 0
    assert session_fetch(rig, session, 6, []).error_code == ErrorCode.fetch_session_id_not_found


def test_a_parked_session_fetch_is_woken_by_the_partition_that_changed(rig):
    session = session_fetch(rig, 0, 0, [(0, 0), (1, 0)]).session_id
    fields = fetch_fields("orders", 0, max_wait_ms=3_000) | {"session_id": session, "session_epoch": 1, "topics": []}
    waiting = rig.begin(1, 12, client=rig.new_client(), **fields)
    rig.run_for(100)
    assert not waiting.is_done
    rig.produce("orders", [b"a"], partition=1)
    rig.run_for(100)
    assert shown(waiting.answer) == [(1, True)]


@pytest.mark.parametrize(
    "name", ["01", "\N{ARABIC-INDIC DIGIT ONE}", "+1", "1" * 5_000], ids=["01", "arabic", "+1", "long"]
)
def test_configs_of_a_broker_by_another_spelling_of_its_id_are_refused(rig, name):
    assert describe(rig, BROKER, name).error_code == ErrorCode.invalid_request
    assert alter(rig, BROKER, name, {"min.insync.replicas": "2"}).error_code == ErrorCode.invalid_request
    assert rig.store.state.configs == {}
