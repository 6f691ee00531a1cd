"""DescribeClientQuotas and AlterClientQuotas: filters, entities, values, and what is kept."""

import pytest
from kio.schema.errors import ErrorCode

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
RATE = ("producer_byte_rate", 1e6)


def described(rig, *components, version=1, strict=False):
    """The error and the quotas by entity."""
    rows = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components]
    answer = rig.ask(48, version, components=rows, strict=strict)
    if answer.entries is None:
        return answer.error_code, None
    entries = {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {v.key: v.value for v in entry.values}
        for entry in answer.entries
    }
    return answer.error_code, entries


def altered(rig, entity, *changes, version=1, validate_only=False):
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes]
    (entry,) = rig.ask(49, version, entries=[{"entity": parts, "ops": ops}], validate_only=validate_only).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == sorted(entity, key=lambda part: part[0])
    return entry.error_code


ANN, APP, ANN_APP, ANY, ANY_IP = (
    [("user", "ann")],
    [("client-id", "app")],
    [("client-id", "app"), ("user", "ann")],
    [("client-id", None), ("user", None)],
    [("ip", None)],
)


@pytest.mark.parametrize("version", [0, 1])
def test_altered_quotas_are_described(rig, version):
    assert described(rig, version=version) == (ErrorCode.none, {})
    assert altered(rig, ANN, RATE, ("request_percentage", 0.5), version=version) == ErrorCode.none
    assert altered(rig, list(reversed(ANN_APP)), ("controller_mutation_rate", 2.5)) == ErrorCode.none
    assert altered(rig, ANY_IP, ("connection_creation_rate", 5.0)) == ErrorCode.none
    assert described(rig, version=version)[1] == {
        (("ip", None),): {"connection_creation_rate": 5.0},
        (("user", "ann"),): {"producer_byte_rate": 1e6, "request_percentage": 0.5},
        (("client-id", "app"), ("user", "ann")): {"controller_mutation_rate": 2.5},
    }


def test_removed_quotas_are_not_described_and_removal_of_an_absent_quota_succeeds(rig):
    altered(rig, ANN, RATE, ("consumer_byte_rate", 2e6))
    assert altered(rig, ANN, ("producer_byte_rate", None), ("no_such_quota", None)) == ErrorCode.none
    assert described(rig)[1] == {(("user", "ann"),): {"consumer_byte_rate": 2e6}}
    assert altered(rig, ANN, ("consumer_byte_rate", None)) == ErrorCode.none
    assert described(rig)[1] == {}
    assert altered(rig, ANN, ("consumer_byte_rate", None)) == ErrorCode.none


def test_validate_only_checks_and_changes_nothing(rig):
    assert altered(rig, ANN, RATE, validate_only=True) == ErrorCode.none
    assert altered(rig, ANN, ("producer_byte_rate", -1.0), validate_only=True) == ErrorCode.invalid_request
    assert described(rig)[1] == {}


def test_an_entity_that_is_named_twice_is_changed_once(rig):
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": "ann"}],
            "ops": [{"key": "producer_byte_rate", "value": value, "remove": False}],
        }
        for value in (1.0, 2.0)
    ]
    answer = rig.ask(49, 1, entries=entries)
    assert [entry.error_code for entry in answer.entries] == [ErrorCode.none, ErrorCode.invalid_request]
    assert described(rig)[1] == {(("user", "ann"),): {"producer_byte_rate": 1.0}}


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [ANN, APP, ANN_APP, ANY]),
        ([], True, []),
        ([("user", EXACT, "ann")], False, [ANN, ANN_APP]),
        ([("user", EXACT, "ann")], True, [ANN]),
        ([("user", DEFAULT, None)], False, [ANY]),
        ([("user", SPECIFIED, None)], False, [ANN, ANN_APP, ANY]),
        ([("user", SPECIFIED, None), ("client-id", SPECIFIED, None)], True, [ANN_APP, ANY]),
        ([("user", EXACT, "ann"), ("client-id", DEFAULT, None)], False, []),
        ([("ip", SPECIFIED, None)], False, []),
    ],
)
def test_describe_returns_the_entities_that_match(rig, components, strict, found):
    for entity in (ANN, APP, ANN_APP, ANY):
        assert altered(rig, entity, RATE) == ErrorCode.none
    error, entries = described(rig, *components, strict=strict)
    assert error == ErrorCode.none
    assert set(entries) == {tuple(entity) for entity in found}


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "ann")], ErrorCode.invalid_request),
        ([("group", EXACT, "ann")], ErrorCode.unsupported_version),
        ([("user", EXACT, "ann"), ("user", DEFAULT, None)], ErrorCode.invalid_request),
        ([("user", EXACT, None)], ErrorCode.invalid_request),
        ([("user", DEFAULT, "ann")], ErrorCode.invalid_request),
        ([("user", SPECIFIED, "ann")], ErrorCode.invalid_request),
        ([("user", 3, None)], ErrorCode.invalid_request),
        ([("ip", DEFAULT, None), ("client-id", DEFAULT, None)], ErrorCode.invalid_request),
    ],
)
def test_describe_with_a_wrong_filter_returns_the_error_of_kafka(rig, components, error):
    assert described(rig, *components) == (error, None)


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ([], [RATE]),
        ([("group", "g")], [RATE]),
        ([("ip", "::1"), ("user", "ann")], [RATE]),
        ([("user", "ann"), ("user", "bob")], [RATE]),
        ([("user", "")], [RATE]),
        ([("user", "u" * 32_768)], [RATE]),
        ([("user", "é" * 20_000)], [RATE]),
        ([("ip", "not an ip")], [("connection_creation_rate", 1.0)]),
        (ANN, [("connection_creation_rate", 1.0)]),
        ([("ip", "::1")], [RATE]),
        (ANN, [RATE, ("producer_byte_rate", 2.0)]),
        (ANN, [("producer_byte_rate", -1.0)]),
        (ANN, [("producer_byte_rate", float("nan"))]),
        (ANN, [("request_percentage", float("inf"))]),
        (ANN, [("producer_byte_rate", 1.5)]),
        (ANN, [("producer_byte_rate", 0.9999999)]),
        (ANN, [("producer_byte_rate", 1e300)]),
        ([("ip", "::1")], [("connection_creation_rate", 3e9)]),
    ],
)
def test_alter_with_a_wrong_entity_or_quota_returns_invalid_request(rig, entity, changes):
    assert altered(rig, entity, *changes) == ErrorCode.invalid_request
    assert described(rig)[1] == {}


def test_largest_long_as_a_quota_is_stored_because_tools_set_it_for_unlimited(rig):
    quota = ("producer_byte_rate", float(2**63 - 1))
    assert altered(rig, ANN, quota) == ErrorCode.none
    assert described(rig)[1] == {tuple(ANN): dict([quota])}


def test_quota_close_to_zero_is_stored_as_given_and_applies_to_connections(rig):
    quota = ("connection_creation_rate", 1e-7)
    assert altered(rig, ANY_IP, quota) == ErrorCode.none
    assert described(rig)[1] == {tuple(ANY_IP): dict([quota])}
    assert rig.node.broker.throttling.quotas.connection("10.0.0.1") == 1_000


def test_quotas_survive_a_restart(rig):
    altered(rig, [("user", "a=b,c<%>"), ("client-id", None)], RATE)
    rig.restart(power_loss=True)
    assert described(rig)[1] == {(("client-id", None), ("user", "a=b,c<%>")): {"producer_byte_rate": 1e6}}
    assert rig.node.broker.throttling.is_active
