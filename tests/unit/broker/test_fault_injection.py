"""Fault rules on one simulated broker: what the client gets, what the log has, and that others are served as before."""

import datetime as dt
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.acl_rig import error_codes
from tests.unit.broker.raw_connection import RawConnection
from tests.unit.faults.sample_requests import BETWEEN_BROKERS, sample_request
from yak.broker.apis import TABLE
from yak.faults import COMMAND
from yak.protocol.versions import FETCH
from yak.sim.request_fields import fetch_fields, frame_of, produce_fields
from yak.sim.wire import read_answer, record_batch, request_frame

ON = {"yak.fault.injection.enable": "true"}
NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"


@pytest.fixture
def rig() -> Rig:
    rig = Rig(settings=ON)
    rig.create_topic("orders", partitions=2)
    rig.create_topic("other")
    return rig


def command(rig, **wanted):
    data = COMMAND + json.dumps(wanted).encode()
    answer = rig.ask(58, 0, client=rig.new_client(), request_data=data)
    return answer.error_code, json.loads(answer.response_data)


def add(rig, fault, **fields):
    rule_id = fields.pop("id", f"r{len(rules(rig))}")
    error_code, answer = command(rig, do="add", rule={"id": rule_id, "fault": fault, **fields})
    assert error_code == ErrorCode.none, answer
    return answer["result"]


def clear(rig, rule_id=None):
    return command(rig, do="clear", id=rule_id)[1]["result"]


def rules(rig):
    return command(rig, do="list")[1]["result"]


def hits(rig):
    return {each["id"]: (each["calls"], each["hits"]) for each in rules(rig)}


def code(rig, topic="orders", partition=0, client=None, acks=-1):
    answer = produce(rig, topic, partition, client, acks)
    return None if answer is None else answer.responses[0].partition_responses[0].error_code


def produce(rig, topic="orders", partition=0, client=None, acks=-1):
    fields = produce_fields(topic, record_batch([b"x"], rig.world.now_ms), partition=partition, acks=acks)
    return rig.ask(0, 9, client=client, **fields)


def end(rig, topic="orders", partition=0):
    return rig.node.broker.partitions[topic, partition].log.log_end_offset


def batches(rig, topic, *partitions):
    data = [{"index": each, "records": record_batch([b"x"], rig.world.now_ms)} for each in partitions]
    return {"name": topic, "partition_data": data}


def rows_of(rig, *topics):
    """The answers to these batches, by topic and partition."""
    answer = rig.ask(0, 9, acks=-1, topic_data=list(topics))
    return [
        ((topic.name, row.index), row.error_code) for topic in answer.responses for row in topic.partition_responses
    ]


# ------------------------------------------------------------------------------------------------------ inject_error


def test_error_before_the_effect_appends_nothing_and_is_given_once(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, times=1)
    assert code(rig) == ErrorCode.not_leader_or_follower
    assert end(rig) == 0
    assert code(rig) == ErrorCode.none
    assert hits(rig) == {"r0": (2, 1)}


def test_error_after_the_effect_appends_the_record(rig):
    add(rig, "inject_error", api="PRODUCE", error="request_timed_out", after=True, times=1)
    assert code(rig) == ErrorCode.request_timed_out
    assert end(rig) == 1


def test_error_on_the_third_call_leaves_the_first_two_and_the_fourth(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, on_call=3)
    assert [code(rig) for _ in range(4)] == [0, 0, ErrorCode.not_leader_or_follower, 0]


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        ({"client_id": "another"}, 0),
        ({"client_id": "s*"}, 6),
        ({"client_id": "sim"}, 6),
        ({"topic": "other"}, 0),
        ({"topic": "orders"}, 6),
        ({"topic": "orders", "partition": 1}, 0),
        ({"topic": "orders", "partition": 0}, 6),
    ],
)
def test_error_is_narrowed_to_client_topic_and_partition(rig, narrowed, expected):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, **narrowed)
    assert code(rig) == expected
    assert end(rig) == (0 if expected else 1)


@pytest.mark.parametrize("after", [False, True])
def test_error_for_one_partition_leaves_the_other_rows_of_the_request(rig, after):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, topic="orders", partition=1, after=after)
    assert dict(rows_of(rig, batches(rig, "orders", 0, 1), batches(rig, "other", 0))) == {
        ("orders", 0): 0,
        ("orders", 1): 6,
        ("other", 0): 0,
    }
    assert (end(rig), end(rig, partition=1), end(rig, "other")) == (1, int(after), 1)


def test_errors_of_two_rules_go_into_their_rows_and_the_older_one_wins(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, topic="orders", partition=1)
    add(rig, "inject_error", api="Produce", error="KAFKA_STORAGE_ERROR", topic="orders")
    assert rows_of(rig, batches(rig, "orders", 0, 1)) == [
        (("orders", 0), ErrorCode.kafka_storage_error),
        (("orders", 1), ErrorCode.not_leader_or_follower),
    ]


def test_error_of_a_produce_without_acks_closes_the_connection(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER)
    client = rig.new_client()
    assert produce(rig, client=client, acks=0) is None
    assert end(rig) == 0


def test_error_of_a_produce_by_topic_id_is_narrowed_by_name(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, topic="orders")
    topic_id = rig.node.broker.image.topics["orders"].topic_id
    data = batches(rig, "orders", 0)["partition_data"]
    answer = rig.ask(0, 13, acks=-1, topic_data=[{"topic_id": topic_id, "partition_data": data}])
    assert answer.responses[0].topic_id == topic_id
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.not_leader_or_follower
    assert end(rig) == 0


def test_large_produce_gets_its_error_too(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, topic="orders", partition=1)
    found = rows_of(rig, batches(rig, "orders", *[0] * 1500, 1))
    assert len(found) == 1501
    assert [place for place, error_code in found if error_code] == [("orders", 1)]


def test_fetch_of_a_session_gets_an_error_though_nothing_is_new(rig):
    produce(rig)
    first = fetched(rig, session_epoch=0, topics=[("orders", 0, 1), ("orders", 1, 0)])
    add(rig, "inject_error", api="Fetch", error=NOT_LEADER, topic="orders", partition=1, times=1)
    started_ms = rig.world.now_ms
    second = fetched(rig, session_id=first.session_id, session_epoch=1)
    assert [(row.partition_index, row.error_code) for row in second.responses[0].partitions] == [(1, 6)]
    assert rig.world.now_ms - started_ms < 400
    assert hits(rig) == {"r0": (1, 1)}
    third = fetched(rig, session_id=first.session_id, session_epoch=2)
    assert all(row.error_code == 0 for topic in third.responses for row in topic.partitions)


def fetched(rig, session_id=0, session_epoch=-1, topics=()):
    named = [
        {"topic": topic, "partitions": [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}
        for topic, index, offset in topics
    ]
    waits = {"max_wait": dt.timedelta(milliseconds=500), "min_bytes": 1, "max_bytes": 1 << 20}
    return rig.ask(1, 11, **waits, session_id=session_id, session_epoch=session_epoch, topics=named)


def test_session_error_of_fetch_is_the_answers_own(rig):
    add(rig, "inject_error", api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    answer = fetched(rig, session_epoch=0, topics=[("orders", 0, 0)])
    assert (answer.error_code, answer.responses) == (ErrorCode.fetch_session_id_not_found, ())


def test_metadata_of_one_topic_gets_an_error_and_still_lists_the_brokers(rig):
    add(rig, "inject_error", api="Metadata", error="LEADER_NOT_AVAILABLE", topic="orders")
    answer = rig.ask(3, 4, topics=None, allow_auto_topic_creation=False)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"orders": 5, "other": 0}
    assert len(answer.brokers) == 1
    clear(rig)
    add(rig, "inject_error", api="Metadata", error="LEADER_NOT_AVAILABLE", topic="orders", partition=1)
    (orders,) = (topic for topic in rig.ask(3, 4, topics=[{"name": "orders"}], allow_auto_topic_creation=False).topics)
    assert [(row.partition_index, row.error_code) for row in orders.partitions] == [(0, 0), (1, 5)]


def test_creation_of_one_topic_is_refused_and_the_other_is_created(rig):
    add(rig, "inject_error", api="CreateTopics", error="POLICY_VIOLATION", topic="bad")
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("bad", "good")]
    answer = rig.ask(19, 5, topics=wanted)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"bad": 44, "good": 0}
    assert "good" in rig.node.broker.image.topics
    assert "bad" not in rig.node.broker.image.topics


# --------------------------------------------------------------------------------- disconnect_on, delay_on, blackhole


@pytest.mark.parametrize("after", [False, True])
def test_disconnect_ends_the_connection_before_or_after_the_effect(rig, after):
    add(rig, "disconnect_on", api="Produce", after=after, times=1)
    client = rig.new_client()
    assert produce(rig, client=client) is None
    assert end(rig) == int(after)
    assert code(rig) == 0


def test_disconnect_after_the_effect_of_a_waiting_fetch(rig):
    add(rig, "disconnect_on", api="Fetch", after=True)
    client = rig.new_client()
    pending = rig.begin(1, 12, client=client, **fetch_fields("orders", 0, max_wait_ms=300))
    rig.run_for(100)
    assert not pending.is_done
    rig.run_for(400)
    assert pending.is_lost


def test_delayed_answer_comes_late_and_the_next_one_of_its_connection_behind_it(rig):
    add(rig, "delay_on", api="Produce", delay_ms=700, times=1)
    fields = produce_fields("orders", record_batch([b"x"], rig.world.now_ms))
    slow = rig.begin(0, 9, **fields)
    behind = rig.begin(18, 3, client_software_name="x", client_software_version="1")
    rig.run_for(600)
    assert end(rig) == 1
    assert (slow.is_done, behind.is_done) == (False, False)
    assert code(rig, client=rig.new_client()) == 0
    rig.run_for(200)
    assert slow.answer.responses[0].partition_responses[0].error_code == 0
    assert behind.is_done


def test_delays_of_two_rules_add_up_and_an_error_comes_late_too(rig):
    for delay_ms in (300, 400):
        add(rig, "delay_on", api="Heartbeat", delay_ms=delay_ms)
    add(rig, "inject_error", api="Heartbeat", error="REBALANCE_IN_PROGRESS")
    pending = rig.begin(12, 3, group_id="g", generation_id=1, member_id="m")
    rig.run_for(650)
    assert not pending.is_done
    rig.run_for(100)
    assert pending.answer.error_code == ErrorCode.rebalance_in_progress


def test_blackholed_client_is_read_and_not_answered_until_the_rule_is_cleared(rig):
    add(rig, "blackhole_client", client_id="sim", times=2)
    client = rig.new_client()
    first = rig.begin(0, 9, client=client, **produce_fields("orders", record_batch([b"x"], rig.world.now_ms)))
    second = rig.begin(18, 3, client=client, client_software_name="x", client_software_version="1")
    rig.run_for(2_000)
    assert (first.is_done, second.is_done, end(rig)) == (False, False, 0)
    assert code(rig) == 0, "the rule has done its two"
    assert clear(rig, "r0") == ["r0"]
    rig.run_for(50)
    assert (first.is_lost, second.is_lost) == (True, True)
    assert clear(rig) == []
    assert len(rig.node.broker.purgatory) == 0


def test_closed_connection_of_a_blackholed_client_is_forgotten(rig):
    add(rig, "blackhole_client", client_id="*")
    client = rig.new_client()
    rig.begin(18, 3, client=client, client_software_name="x", client_software_version="1")
    rig.run_for(10)
    client.close()
    rig.run_for(10)
    assert len(rig.node.broker.purgatory) == 0
    assert clear(rig) == ["r0"]


# ------------------------------------------------------------------------------------------------------- commands


def test_cleared_rules_leave_the_broker_as_it_was(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER, id="a")
    add(rig, "delay_on", api="Fetch", delay_ms=5, id="b")
    assert rig.node.broker.faults.is_active
    assert clear(rig, "a") == ["a"]
    assert [each["id"] for each in rules(rig)] == ["b"]
    assert clear(rig) == ["b"]
    assert not rig.node.broker.faults.is_active
    assert code(rig) == 0


def test_fault_rules_are_removed_by_a_restart(rig):
    add(rig, "inject_error", api="Produce", error=NOT_LEADER)
    rig.restart()
    assert rules(rig) == []
    assert code(rig) == 0


def test_broker_without_the_config_refuses_every_command_and_stays():
    rig = Rig()
    for wanted in (
        {"do": "list"},
        {"do": "clear"},
        {"do": "add", "rule": {"id": "x", "fault": "freeze_isr", "topic": "t"}},
    ):
        error_code, answer = command(rig, **wanted)
        assert (error_code, answer["error"]["code"]) == (ErrorCode.invalid_request, "faults-off")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"do":"eat"}', b'{"do":"add"}', b'{"do":"add","rule":{}}', b"[" * 5000, b'{"do":"clear","id":1}'],
)  # fmt: skip
def test_malformed_command_is_refused_and_the_broker_stays(rig, data):
    fields = {"request_data": COMMAND + data, "request_principal": None, "client_host_address": b""}
    answer = rig.ask(58, 0, client=rig.new_client(), **fields)
    assert answer.error_code == ErrorCode.invalid_request
    assert json.loads(answer.response_data)["error"]["code"] == "bad-fault"
    assert code(rig) == 0


def test_rule_of_another_brokers_replica_is_refused(rig):
    rule = {"id": "x", "fault": "lag_replica", "topic": "orders", "partition": 0, "broker": 2}
    assert "broker 2" in command(rig, do="add", rule=rule)[1]["error"]["message"]


def test_clients_without_rights_are_refused():
    acls = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:a"}
    rig = Rig(settings=ON | acls)
    error_code, answer = command(rig, do="add", rule={"id": "x", "fault": "freeze_isr", "topic": "t"})
    assert (error_code, answer["error"]["code"]) == (ErrorCode.cluster_authorization_failed, "faults-refused")
    assert command(rig, do="list")[0] == ErrorCode.cluster_authorization_failed


# ----------------------------------------------------------------------------------------------------------- all APIs


@pytest.mark.parametrize("after", [False, True])
def test_every_api_is_answered_with_an_injected_error(rig, after):
    """The newest version of each API, with a request that names one of everything."""
    left_out = BETWEEN_BROKERS | {FETCH} | ({64} if after else set())  # UnregisterBroker of this broker ends it
    apis = {key: api for key, api in TABLE.items() if key not in left_out}
    for key, api in apis.items():
        version = min(max(api.VERSIONS), 3) if key == 24 else max(api.VERSIONS)
        add(rig, "inject_error", id=str(key), api=api.NAME, error="POLICY_VIOLATION", times=1, after=after)
        frame = request_frame(key, version, 1, sample_request(key, version))
        connection = RawConnection(rig)
        connection.send(frame)
        rig.run_for(1_500)
        connection.close()
        answers = connection.answers
        assert len(answers) == 1, api.NAME
        if key == 65:  # kio cannot read the start time of an empty transaction, -1
            assert ErrorCode.policy_violation.to_bytes(2, "big") in answers[0]
            continue
        assert ErrorCode.policy_violation in error_codes(read_answer(key, version, answers[0])[1]), api.NAME
    assert all(each["hits"] == 1 for each in rules(rig)), [each for each in rules(rig) if each["hits"] != 1]


# ----------------------------------------------------------------------------------------------------------- property

RULES = st.fixed_dictionaries(
    {
        "fault": st.sampled_from(["inject_error", "disconnect_on", "delay_on", "blackhole_client"]),
        "api": st.sampled_from(["Produce", "Fetch", "Metadata", "ListOffsets", "ApiVersions"]),
        "error": st.sampled_from([NOT_LEADER, "KAFKA_STORAGE_ERROR", "FETCH_SESSION_ID_NOT_FOUND"]),
        "delay_ms": st.integers(1, 3_000),
        "after": st.booleans(),
        "times": st.none() | st.integers(1, 4),
        "on_call": st.integers(1, 4),
        "topic": st.none() | st.sampled_from(["orders", "other", "none"]),
        "partition": st.none() | st.integers(0, 2),
    }
)
NARROWED = {
    "inject_error": {"api", "error", "after", "topic", "partition"},
    "disconnect_on": {"api", "after", "topic", "partition"},
    "delay_on": {"api", "delay_ms", "topic", "partition"},
    "blackhole_client": set(),
}


@settings(max_examples=40, deadline=None)
@given(st.lists(RULES, max_size=5), st.data())
def test_no_rules_about_one_client_keep_another_from_its_answers(wanted, data):
    """The other client writes and reads every time; each acknowledged record of both is in the log, once each."""
    rig = Rig(settings=ON)
    rig.create_topic("orders", partitions=2)
    for number, fields in enumerate(wanted):
        allowed = NARROWED[fields["fault"]] | {"times", "on_call"}
        rule = {name: value for name, value in fields.items() if name in allowed and value is not None}
        if rule.get("api") == "ApiVersions":
            rule.pop("topic", None)
        if "topic" not in rule:
            rule.pop("partition", None)
        add(rig, fields["fault"], id=str(number), client_id="victim", **rule)
    acked = 0
    for _ in range(data.draw(st.integers(1, 6))):
        victim = rig.new_client()
        frame = victim_frame(rig, data.draw(st.sampled_from([0, 1, 3])))
        rig.node.receive(victim.connection_id, [frame])
        assert code(rig) == 0
        acked += 1
        assert len(fetched(rig, session_epoch=0, topics=[("orders", 0, 0)]).responses) == 1
    assert end(rig) == acked
    clear(rig)
    rig.run_for(10_000)
    assert code(rig) == 0
    assert len(rig.node.broker.purgatory) == 0


def victim_frame(rig, api_key):
    """Writes go to partition 1, so that partition 0 has the other client's records alone."""
    fields = {
        0: produce_fields("orders", record_batch([b"v"], rig.world.now_ms), partition=1),
        1: fetch_fields("orders", 0, partition=1, max_wait_ms=500),
        3: {"topics": None, "allow_auto_topic_creation": False},
    }[api_key]
    version = {0: 9, 1: 12, 3: 4}[api_key]
    return frame_of(api_key, version, 1, fields, "victim")
