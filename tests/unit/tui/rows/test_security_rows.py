"""Users, ACLs and quotas as rows, and the commands and sentences that go with them."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.acls.bindings import (
    CLUSTER_NAME,
    SUPPORTED,
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from yak.errors import Unreachable, UsageError, YakError
from yak.quotas.quota_types import CLIENT_ID, IP, USER
from yak.tui.rows import security
from yak.tui.source.security import Quota


def acl(kind, name, pattern_type=PatternType.LITERAL, host="*", operation=Operation.READ, permission=Permission.ALLOW):
    entry = AccessControlEntry("User:ann", host, operation, permission)
    return AclBinding(ResourcePattern(kind, name, pattern_type), entry)


def texts(row):
    return [cell.text for cell in row.cells]


def test_user_row_has_its_mechanisms_and_one_number_for_equal_iterations():
    assert texts(security.user_row("ann", {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096})) == [
        "ann", "SCRAM-SHA-256, SCRAM-SHA-512", "4 096",
    ]  # fmt: skip
    assert texts(security.user_row("bob", {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}))[2] == "4 096, 8 192"


def test_acl_row_has_the_names_of_the_command():
    prefixed = acl(ResourceType.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED, "10.0.0.7", permission=Permission.DENY)
    assert texts(security.acl_row("key", prefixed)) == [
        "User:ann", "deny", "read", "transactional-id pay-", "prefixed", "10.0.0.7",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        (Quota(((CLIENT_ID, "loader"),), "producer_byte_rate", 1e6), ["client-id=loader", "1 000 000 B/s"]),
        (Quota(((USER, None), (CLIENT_ID, "x")), "request_percentage", 12.5), ["user=<default>,client-id=x", "12.5%"]),
        (Quota(((IP, "10.0.0.7"),), "connection_creation_rate", 20.0), ["ip=10.0.0.7", "20/s"]),
    ],
)
def test_quota_row_has_the_limit_with_its_unit(quota, expected):
    assert [texts(security.quota_row("key", quota))[0], texts(security.quota_row("key", quota))[2]] == expected


def test_removal_of_a_user_needs_its_name():
    removal = security.user_removal("ann smith", {"SCRAM-SHA-256": 4096})
    assert removal.typed == "ann smith"
    assert shlex.split(removal.command) == ["yak", "users", "remove", "ann smith", "--yes"]


@pytest.mark.parametrize(
    ("binding", "resource"),
    [
        (acl(ResourceType.TOPIC, "orders"), "--topic orders"),
        (acl(ResourceType.TOPIC, "*"), "--topic '*'"),
        (acl(ResourceType.GROUP, "bill", PatternType.PREFIXED), "--group bill --prefixed"),
        (acl(ResourceType.CLUSTER, "kafka-cluster"), "--cluster"),
        (acl(ResourceType.USER, "User:bob"), "--user-principal User:bob"),
        (acl(ResourceType.DELEGATION_TOKEN, "t1"), "--delegation-token t1"),
    ],
)
def test_removal_of_an_acl_has_a_command_that_removes_only_it(binding, resource):
    assert security.acl_removal("key", binding).command == (
        f"yak acls remove --allow User:ann --host '*' --operation read {resource} --yes"
    )


def test_removal_of_a_denying_acl_says_denies():
    binding = acl(ResourceType.TOPIC, "pay", PatternType.PREFIXED, "10.0.0.7", permission=Permission.DENY)
    removal = security.acl_removal("key", binding)
    assert removal.text == (
        "This ACL no longer denies User:ann, from host 10.0.0.7, read of topic pay and all whose names begin so. "
        "Other ACLs stay."
    )
    assert "--deny User:ann --host 10.0.0.7" in removal.command


def test_removal_of_a_quota_names_the_entity_and_the_quota():
    quota = Quota(((USER, "ann"), (CLIENT_ID, None)), "consumer_byte_rate", 1000.0)
    assert security.quota_removal("key", quota).command == (
        "yak quotas remove --user ann --client-id-default consumer_byte_rate"
    )


ACL_FORM = {
    "permission": "allow", "principal": "ann", "operation": "read", "resource": "topic", "name": "orders",
    "prefixed": "false", "host": "*",
}  # fmt: skip
QUOTA_FORM = {"user": "", "client-id": "loader", "ip": "", "quota": "producer_byte_rate", "value": "1000000"}


@given(
    st.sampled_from([(kind, each) for kind, known in SUPPORTED.items() for each in (Operation.ALL, *known)]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
    st.text(min_size=1),
    st.booleans(),
)
def test_form_of_an_acl_makes_the_acl_that_its_fields_say(kind_and_operation, permission, name, is_prefixed):
    kind, operation = kind_and_operation
    is_cluster = kind is ResourceType.CLUSTER
    pattern_type = PatternType.PREFIXED if is_prefixed and not is_cluster else PatternType.LITERAL
    expected = acl(kind, CLUSTER_NAME if is_cluster else name, pattern_type, operation=operation, permission=permission)
    form = ACL_FORM | {
        "permission": permission.name.lower(),
        "operation": operation.name.lower().replace("_", "-"),
        "resource": kind.name.lower().replace("_", "-"),
        "name": name,
        "prefixed": str(is_prefixed).lower(),
    }
    assert security.acl_of(form) == expected


def test_form_of_an_acl_has_the_command_that_adds_it():
    form = ACL_FORM | {"principal": "User:bob", "permission": "deny", "prefixed": "true", "host": "10.0.0.7"}
    assert security.acl_command(security.acl_of(form)) == (
        "yak acls add --deny User:bob --host 10.0.0.7 --operation read --topic orders --prefixed"
    )


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"name": ""}, "Name is needed"),
        ({"operation": "cluster-action"}, "cluster-action is no operation of a topic"),
        ({"host": "db.example"}, '"db.example" is no ip'),
    ],
)
def test_form_of_an_acl_that_no_broker_accepts_is_refused(wrong, text):
    with pytest.raises(UsageError, match=text):
        security.acl_of(ACL_FORM | wrong)


def test_form_of_a_quota_has_the_command_that_sets_it():
    quota = security.quota_of(QUOTA_FORM | {"user": security.DEFAULT, "value": "1234567.5"})
    assert quota == Quota(((USER, None), (CLIENT_ID, "loader")), "producer_byte_rate", 1234567.5)
    assert (
        security.quota_command(quota) == "yak quotas set --user-default --client-id loader producer_byte_rate=1234567.5"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"client-id": ""}, {"ip": "10.0.0.7"}, {"value": "1MB"}, {"value": "0"}, {"value": "inf"}, {"value": "nan"}],
)
def test_form_of_a_quota_that_no_broker_accepts_is_refused(wrong):
    with pytest.raises(UsageError):
        security.quota_of(QUOTA_FORM | wrong)


@pytest.mark.parametrize("code", ["not-authorized", "acl-refused", "quota-refused", "user-refused"])
def test_refusal_names_the_acl_that_is_needed(code):
    error = YakError(code, "the quotas could not be read", why="Cluster authorization failed.")
    assert security.is_refusal(error)
    assert security.error_text(error, "describe-configs") == (
        "The quotas could not be read: Cluster authorization failed. Reading them needs describe-configs of the cluster, which a "
        "super user allows: yak acls add --allow USER --operation describe-configs --cluster"
    )


def test_error_text_explains_acls_off_and_silent_brokers():
    off = YakError("acls-off", "the ACLs could not be read", why="the brokers have no authorizer")
    assert security.is_refusal(off)
    assert "yak help acls-off" in security.error_text(off, "describe")
    silent = Unreachable("unreachable", "the ACLs could not be read", why="a:1 did not answer: timed out")
    assert not security.is_refusal(silent)
    assert security.error_text(silent, "describe") == (
        "The ACLs could not be read: a:1 did not answer: timed out. The brokers are asked again every 10 s."
    )
