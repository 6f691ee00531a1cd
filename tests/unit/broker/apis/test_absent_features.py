"""Reads of features that YAK lacks: each gets the answer of a Kafka broker without that feature."""

import pytest
from kio.schema.errors import ErrorCode

from yak.sim.rig import Rig

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --------------------------------------------------------------------------------------------------------- ACLs


ACL = {"principal": "User:ann", "host": "*", "operation": 3, "permission_type": 3}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_acls_without_authorizer_returns_security_disabled(rig, version):
    wanted = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    answer = rig.ask(29, version, resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, **wanted)
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())
    assert "No Authorizer is configured" in answer.error_message


@pytest.mark.parametrize("version", [1, 2, 3])
def test_create_and_delete_acls_without_authorizer_return_security_disabled_for_each(rig, version):
    names = ("orders", "paid")
    creations = [{"resource_type": 2, "resource_name": name, "resource_pattern_type": 3, **ACL} for name in names]
    created = rig.ask(30, version, creations=creations)
    assert [result.error_code for result in created.results] == [ErrorCode.security_disabled] * 2
    matched = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    filters = [
        {"resource_type_filter": 2, "resource_name_filter": name, "pattern_type_filter": 1, **matched} for name in names
    ]
    deleted = rig.ask(31, version, filters=filters)
    assert [(row.error_code, row.matching_acls) for row in deleted.filter_results] == [
        (ErrorCode.security_disabled, ())
    ] * 2


# ------------------------------------------------------------------------------------------------ client quotas


def described_quotas(rig, *components, version=1):
    rows = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in components]
    answer = rig.ask(48, version, components=rows, strict=False)
    return answer.error_code, answer.entries


@pytest.mark.parametrize("version", [0, 1])
def test_describe_client_quotas_returns_none(rig, version):
    for components in ([], [("user", DEFAULT, None)], [("user", EXACT, "ann"), ("client-id", SPECIFIED, None)]):
        assert described_quotas(rig, *components, version=version) == (ErrorCode.none, ())


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
def test_describe_client_quotas_with_a_wrong_filter_returns_the_error_of_kafka(rig, components, error):
    assert described_quotas(rig, *components) == (error, None)


def altered_quota(rig, entity, *changes, version=1):
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in changes]
    (entry,) = rig.ask(49, version, entries=[{"entity": parts, "ops": ops}], validate_only=False).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == entity
    return entry.error_code


@pytest.mark.parametrize("version", [0, 1])
def test_alter_client_quotas_that_sets_a_quota_returns_unsupported_version(rig, version):
    rate = ("producer_byte_rate", 1e6)
    assert altered_quota(rig, [("user", "ann")], rate, version=version) == ErrorCode.unsupported_version
    assert altered_quota(rig, [("ip", None)], ("connection_creation_rate", 5.0)) == ErrorCode.unsupported_version
    assert altered_quota(rig, [("user", None)], ("request_percentage", 0.5)) == ErrorCode.unsupported_version


def test_alter_client_quotas_that_removes_a_quota_succeeds(rig):
    removal = ("producer_byte_rate", None)
    assert altered_quota(rig, [("user", None), ("client-id", "app")], removal) == ErrorCode.none


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ([], [("producer_byte_rate", 1.0)]),
        ([("group", "g")], [("producer_byte_rate", 1.0)]),
        ([("ip", "::1"), ("user", "ann")], [("producer_byte_rate", 1.0)]),
        ([("user", "ann")], [("connection_creation_rate", 1.0)]),
        ([("ip", "::1")], [("producer_byte_rate", 1.0)]),
        ([("user", "ann")], [("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)]),
        ([("user", "ann")], [("producer_byte_rate", -1.0)]),
        ([("user", "ann")], [("producer_byte_rate", float("nan"))]),
        ([("user", "ann")], [("producer_byte_rate", 1.5)]),
    ],
)
def test_alter_client_quotas_with_a_wrong_entity_or_quota_returns_invalid_request(rig, entity, changes):
    assert altered_quota(rig, entity, *changes) == ErrorCode.invalid_request


# ------------------------------------------------------------------------------------------ SCRAM, delegation tokens


def test_describe_user_scram_credentials_of_all_users_returns_none(rig):
    for users in (None, []):
        answer = rig.ask(50, 0, users=users)
        assert (answer.error_code, answer.results) == (ErrorCode.none, ())


def test_describe_user_scram_credentials_of_named_users_returns_resource_not_found(rig):
    answer = rig.ask(50, 0, users=[{"name": name} for name in ("ann", "bob", "ann")])
    assert [(row.user, row.error_code, row.credential_infos) for row in answer.results] == [
        ("ann", ErrorCode.duplicate_resource, ()),
        ("bob", ErrorCode.resource_not_found, ()),
    ]


def test_alter_user_scram_credentials_returns_unsupported_version_once_for_each_user(rig):
    upsertion = {"name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}
    deletions = [{"name": name, "mechanism": 2} for name in ("bob", "ann")]
    answer = rig.ask(51, 0, deletions=deletions, upsertions=[upsertion])
    assert [(row.user, row.error_code) for row in answer.results] == [
        ("bob", ErrorCode.unsupported_version),
        ("ann", ErrorCode.unsupported_version),
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_delegation_token_without_authentication_returns_not_allowed(rig, version):
    answer = rig.ask(41, version, owners=None)
    assert (answer.error_code, answer.tokens) == (ErrorCode.delegation_token_request_not_allowed, ())


# ------------------------------------------------------------------------------------------------- transactions


def test_describe_transactions_returns_transactional_id_not_found(rig):
    answer = rig.ask(65, 0, transactional_ids=["pay", ""])
    assert [(row.transactional_id, row.error_code, row.topics) for row in answer.transaction_states] == [
        ("pay", ErrorCode.transactional_id_not_found, ()),
        ("", ErrorCode.invalid_request, ()),
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_list_transactions_returns_none_and_the_unknown_state_filters(rig, version):
    answer = rig.ask(66, version, state_filters=["Ongoing", "ongoing", "Odd"], producer_id_filters=[7])
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.none, ())
    assert answer.unknown_state_filters == ("ongoing", "Odd")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        (None, ErrorCode.none),
        ("", ErrorCode.none),
        ("pay-.*", ErrorCode.none),
        ("(", ErrorCode.invalid_regular_expression),
    ],
)
def test_list_transactions_with_a_bad_pattern_returns_invalid_regular_expression(rig, pattern, error):
    answer = rig.ask(66, 2, state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern)
    assert (answer.error_code, answer.transaction_states) == (error, ())
