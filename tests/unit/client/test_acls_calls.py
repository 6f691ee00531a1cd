"""DescribeAcls, CreateAcls and DeleteAcls by hand, against a broker that answers one request."""

import pytest
from fake_brokers import ask
from kio.schema.errors import ErrorCode

from tests.errors import raises_error
from yak.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from yak.acls.filters import AclFilter
from yak.client.acls import create_acls, delete_acls, describe_acls
from yak.errors import Unreachable, UsageError, YakError

ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED),
    AccessControlEntry("User:ann", "10.0.0.1", Operation.READ, Permission.DENY),
)
WANTED = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH, "User:ann", None, Operation.READ)
FAILURES = [
    (ErrorCode.security_disabled, "No Authorizer", YakError, "acls-off"),
    (ErrorCode.cluster_authorization_failed, None, YakError, "not-authorized"),
    (ErrorCode.request_timed_out, None, YakError, "timed-out"),
    (ErrorCode.invalid_request, "bad name", UsageError, "acl-refused"),
]


RESOURCE = {"resource_type": 2, "resource_name": "orders", "pattern_type": 4}
ENTRY = {"principal": "User:ann", "host": "10.0.0.1", "operation": 3, "permission_type": 2}


def description(code=ErrorCode.none, message=None):
    resources = [] if code else [RESOURCE | {"acls": [ENTRY]}]
    return {"error_code": code, "error_message": message, "resources": resources}


def creation(code=ErrorCode.none, message=None):
    return {"results": [{"error_code": code, "error_message": message}]}


def deletion(code=ErrorCode.none, message=None):
    acl = RESOURCE | ENTRY | {"error_code": 0, "error_message": None}
    return {"filter_results": [{"error_code": code, "error_message": message, "matching_acls": [acl]}]}


def test_described_acls_are_those_of_the_filter():
    request, found = ask(29, description(), lambda address: describe_acls(address, WANTED, timeout_s=5))
    assert found == [ACL]
    assert (request.resource_type_filter, request.resource_name_filter) == (2, "orders")
    assert request.pattern_type_filter == 2
    assert (request.principal_filter, request.host_filter, request.operation) == ("User:ann", None, 3)
    assert request.permission_type == 1


def test_acls_are_created_with_all_their_parts():
    request, _none = ask(30, creation(), lambda address: create_acls(address, [ACL], timeout_s=5))
    (added,) = request.creations
    assert (added.resource_type, added.resource_name, added.resource_pattern_type) == (2, "orders", 4)
    assert (added.principal, added.host, added.operation, added.permission_type) == ("User:ann", "10.0.0.1", 3, 2)


def test_deleted_acls_are_returned():
    request, found = ask(31, deletion(), lambda address: delete_acls(address, [ACL], timeout_s=5))
    assert found == [ACL]
    (only,) = request.filters
    assert (only.resource_type_filter, only.resource_name_filter, only.pattern_type_filter) == (2, "orders", 4)
    assert (only.principal_filter, only.host_filter, only.operation, only.permission_type) == (
        "User:ann",
        "10.0.0.1",
        3,
        2,
    )


@pytest.mark.parametrize(("code", "message", "kind", "slug"), FAILURES)
def test_error_of_the_broker_is_raised(code, message, kind, slug):
    calls = (
        (29, description(code, message), lambda address: describe_acls(address, WANTED, timeout_s=5)),
        (30, creation(code, message), lambda address: create_acls(address, [ACL], timeout_s=5)),
        (31, deletion(code, message), lambda address: delete_acls(address, [ACL], timeout_s=5)),
    )
    for api_key, answer, call in calls:
        with raises_error(kind, slug):
            ask(api_key, answer, call)


def test_refused_creation_beside_one_that_was_made_is_no_error_of_all():
    results = creation()["results"] + creation(ErrorCode.invalid_request, "bad name")["results"]
    with pytest.raises(UsageError, match=r"^some of the ACLs were not added") as caught:
        ask(30, {"results": results}, lambda address: create_acls(address, [ACL, ACL], timeout_s=5))
    assert caught.value.why == "bad name"


def test_broker_that_does_not_answer_is_unreachable():
    with pytest.raises(Unreachable) as caught:
        describe_acls("127.0.0.1:1", WANTED, timeout_s=1)
    assert caught.value.why == "127.0.0.1:1 did not answer: Connection refused"


@pytest.mark.parametrize(
    ("api_key", "answer", "call", "done"),
    [
        (30, creation, lambda address: create_acls(address, [ACL], timeout_s=5), "added"),
        (31, deletion, lambda address: delete_acls(address, [ACL], timeout_s=5), "removed"),
    ],
)
def test_a_change_without_a_clear_answer_may_be_made_all_the_same(api_key, answer, call, done):
    for unclear in (answer(ErrorCode.request_timed_out), None):
        with raises_error(YakError, "timed-out", match=rf"^unknown: the ACLs were {done} or not") as caught:
            ask(api_key, unclear, call)
        assert caught.value.why.endswith("; the change may be made all the same, now or later")
        assert caught.value.try_[0] == "yak acls list          before the command is repeated"


def test_a_change_that_was_not_sent_was_not_made():
    with pytest.raises(Unreachable, match=r"^the ACLs were not added"):
        create_acls("127.0.0.1:1", [ACL], timeout_s=1)
