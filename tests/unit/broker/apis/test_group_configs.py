"""The configs of groups: set, described, listed, kept, and in force for members of the consumer protocol."""

import pytest
from kio.schema.errors import ErrorCode

from tests.rig import Rig
from tests.unit.broker.requests import APPEND, BROKER, DELETE, GROUP, SET, alter, describe, restart, rows_of
from tests.unit.broker.test_consumer_groups import heartbeat, make_rig
from tests.unit.noted_calls import note_calls
from yak.broker.apis import describe_configs

INTERVAL = "consumer.assignment.interval.ms"
SESSION, HEARTBEAT, STANDBYS = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "streams.num.standby.replicas",
)


@pytest.fixture
def rig() -> Rig:
    return Rig(
        settings={"group.consumer.session.timeout.ms": "30000", "group.consumer.max.session.timeout.ms": "60000"}
    )


def described(rig, group="g", names=None):
    answer = describe(rig, GROUP, group, names)
    return answer.error_code, rows_of(answer)


def altered(rig, name, value, operation=None, group="g", validate_only=False):
    return alter(rig, GROUP, group, {name: value}, operation, validate_only=validate_only).error_code


def listed(rig):
    return [row.resource_name for row in rig.ask(74, 1, resource_types=[GROUP]).config_resources]


def test_a_group_without_configs_of_its_own_has_those_of_the_broker(rig):
    error, rows = described(rig)
    assert error == ErrorCode.none
    session, heartbeat, standbys = (rows[name] for name in (SESSION, HEARTBEAT, STANDBYS))
    assert [(row.value, row.config_source) for row in (session, heartbeat, standbys)] == [
        ("30000", 4),
        ("5000", 5),
        ("0", 5),
    ]
    assert session.documentation
    assert [(row.name, row.value, row.source) for row in session.synonyms] == [
        ("group.consumer.session.timeout.ms", "30000", 4),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert [(row.name, row.value, row.source) for row in standbys.synonyms] == [("group." + STANDBYS, "0", 5)]
    of_groups_only, other_name = rows["share.isolation.level"].synonyms, rows["streams.assignor.name"].synonyms
    assert [(row.name, row.value, row.source) for row in (*of_groups_only, *other_name)] == [
        ("share.isolation.level", "read_uncommitted", 5),
        ("group.streams.assignors", "sticky", 5),
    ]
    assert [name for name, row in rows.items() if row.read_only] == []
    assert set(described(rig, names=[SESSION, "odd"])[1]) == {SESSION}
    assert listed(rig) == []


def test_a_config_that_a_group_sets_goes_before_the_brokers(rig):
    assert altered(rig, SESSION, "50000") == ErrorCode.none
    row = described(rig)[1][SESSION]
    assert (row.value, row.config_source) == ("50000", 8)
    assert [(each.name, each.value, each.source) for each in row.synonyms] == [
        (SESSION, "50000", 8),
        ("group.consumer.session.timeout.ms", "30000", 4),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert described(rig, "other")[1][SESSION].value == "30000"
    assert listed(rig) == ["g"]
    assert altered(rig, SESSION, None) == ErrorCode.none
    assert described(rig)[1][SESSION].value == "30000"
    assert listed(rig) == []


def test_alter_configs_replaces_all_configs_of_a_group(rig):
    altered(rig, SESSION, "50000")
    resource = {"resource_type": GROUP, "resource_name": "g", "configs": [{"name": STANDBYS, "value": "2"}]}
    (response,) = rig.ask(33, 2, resources=[resource]).responses
    assert response.error_code == ErrorCode.none
    rows = described(rig)[1]
    assert (rows[SESSION].value, rows[STANDBYS].value) == ("30000", "2")


@pytest.mark.parametrize(
    ("name", "value", "operation", "error"),
    [
        (SESSION, "5000", SET, ErrorCode.invalid_config),  # not above the heartbeat interval
        (SESSION, "60001", SET, ErrorCode.invalid_config),  # above the brokers' maximum
        (HEARTBEAT, "30000", SET, ErrorCode.invalid_config),
        (SESSION, "x", SET, ErrorCode.invalid_config),
        (SESSION, "40000", APPEND, ErrorCode.invalid_config),
        (STANDBYS, "-1", SET, ErrorCode.invalid_config),
        (STANDBYS, "3", SET, ErrorCode.invalid_config),
        ("share.isolation.level", "odd", SET, ErrorCode.invalid_config),
        ("share.session.timeout.ms", "44999", SET, ErrorCode.invalid_config),
        ("share.auto.offset.reset", "by_duration:P", SET, ErrorCode.invalid_config),
        (INTERVAL, "15001", SET, ErrorCode.invalid_config),  # above the brokers' maximum
        ("odd", "1", SET, ErrorCode.invalid_config),
        (SESSION, None, DELETE, ErrorCode.none),
    ],
)
def test_a_value_that_a_group_may_not_have_changes_nothing(rig, name, value, operation, error):
    assert altered(rig, name, value, operation) == error
    assert listed(rig) == []


def test_a_config_of_another_kind_does_not_depend_on_the_timeouts_of_the_brokers():
    rig = Rig(settings={"group.consumer.session.timeout.ms": "2000", "group.consumer.heartbeat.interval.ms": "1999"})
    assert altered(rig, STANDBYS, "1") == ErrorCode.none
    assert altered(rig, HEARTBEAT, "3000") == ErrorCode.invalid_config


def test_a_group_needs_a_name(rig):
    assert described(rig, "") == (ErrorCode.invalid_request, {})
    assert altered(rig, SESSION, "50000", group="") == ErrorCode.invalid_request


def test_validate_only_sets_nothing(rig):
    assert altered(rig, SESSION, "50000", validate_only=True) == ErrorCode.none
    assert listed(rig) == []


def test_groups_with_the_same_configs_are_described_once(rig, monkeypatch):
    described = note_calls(monkeypatch, describe_configs, "describe_group")
    altered(rig, SESSION, "50000", group="c")
    resources = [{"resource_type": GROUP, "resource_name": name} for name in "abc"]
    first, second, third = rig.ask(32, 4, resources=resources, include_synonyms=True).results
    assert len(described) == 2
    assert first.configs == second.configs != third.configs


def test_the_session_timeout_of_a_group_is_in_force_for_its_members():
    rig = make_rig(group_consumer_session_timeout_ms="20000")
    altered(rig, SESSION, "6000")
    altered(rig, HEARTBEAT, "700")
    answer = heartbeat(rig, "a")
    assert answer.heartbeat_interval.total_seconds() == 0.7
    rig.run_for(5_900)
    assert heartbeat(rig, "a", answer.member_epoch).error_code == ErrorCode.none
    rig.run_for(6_100)
    assert heartbeat(rig, "a", answer.member_epoch).error_code == ErrorCode.unknown_member_id
    assert heartbeat(rig, "b", group="other").heartbeat_interval.total_seconds() == 5


def test_a_restart_keeps_the_configs_of_groups(rig):
    altered(rig, STANDBYS, "1")
    restart(rig)
    assert described(rig)[1][STANDBYS].value == "1"


def test_the_assignment_interval_of_brokers_and_of_a_group_changes_while_they_run():
    rig = make_rig(group_consumer_assignment_interval_ms="1000")

    def synonyms():
        return [(each.value, each.source) for each in described(rig)[1][INTERVAL].synonyms]

    def joins_at_once(member_id):
        heartbeat(rig, member_id)
        group = rig.node.broker.group_coordinator.of("g").shard.groups["g"].consumer
        return group.state.target_epoch == group.state.epoch

    assert synonyms() == [("1000", 4), ("0", 5)]
    assert [joins_at_once("a"), joins_at_once("b")] == [True, False]
    for resource, value in (("", "2000"), ("1", "3000")):
        assert alter(rig, BROKER, resource, {f"group.{INTERVAL}": value}).error_code == ErrorCode.none
    rig.run_for(2_500)
    assert not joins_at_once("c"), "the broker's own value counts"
    assert altered(rig, INTERVAL, "2000") == ErrorCode.none
    assert synonyms() == [("2000", 8), ("3000", 2), ("2000", 3), ("1000", 4), ("0", 5)]
    assert joins_at_once("d"), "the group's own value counts"
