"""DescribeAcls, CreateAcls, DeleteAcls: what is refused, stored, found again, and kept over restarts."""

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.acl_rig import AclRig
from tests.unit.noted_calls import note_calls
from yak.acls.bindings import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from yak.acls.filters import AclFilter
from yak.broker.apis.acls import ACLS_PER_REQUEST_MAX
from yak.limits import ACL_NAME_LENGTH_MAX, SLICE_ELEMENTS

NONE, INVALID = ErrorCode.none, ErrorCode.invalid_request
TOPIC, ALLOW, DENY, READ = ResourceType.TOPIC, Permission.ALLOW, Permission.DENY, Operation.READ
ODD_NAMES = ['a"b\\', "größe", "\x00\n\t", "🐃" * 40, "a,b=c:*%2C", "x" * ACL_NAME_LENGTH_MAX, "{}[]", "' OR 1=1",
             "*", " ", "a b", "x" * 250, "\u202e\u200b", "=;%00", "User:*"]  # fmt: skip


@pytest.fixture
def rig():
    return AclRig()


def creation(name="orders", principal="User:ann", **more):
    return {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": principal,
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    } | more


def create(rig, *creations, version=3):
    return [result.error_code for result in rig.ask(30, version, creations=list(creations)).results]


def wanted(**given):
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    } | given


def describe(rig, version=3, **given):
    """(name, principal, host) of the ACLs that a filter selects."""
    answer = rig.ask(29, version, **wanted(**given))
    assert answer.error_code == NONE, answer
    return [(r.resource_name, acl.principal, acl.host) for r in answer.resources for acl in r.acls]


def delete(rig, *filters, version=3):
    results = rig.ask(31, version, filters=list(filters)).filter_results
    return [(r.error_code, [acl.resource_name for acl in r.matching_acls]) for r in results]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_created_acls_are_described_and_deleted(rig, version):
    assert describe(rig, version) == []
    acls = [creation("orders"), creation("paid", "User:bob", host="10.0.0.1", permission_type=DENY)]
    assert create(rig, *acls, version=version) == [NONE, NONE]
    assert describe(rig, version) == [("orders", "User:ann", "*"), ("paid", "User:bob", "10.0.0.1")]
    answer = rig.ask(29, version, **wanted(principal_filter="User:bob"))
    (resource,) = answer.resources
    (acl,) = resource.acls
    assert (resource.resource_type, resource.pattern_type) == (TOPIC, PatternType.LITERAL)
    assert (acl.operation, acl.permission_type) == (READ, DENY)
    filters = [wanted(principal_filter="User:ann"), wanted(resource_name_filter="absent")]
    assert delete(rig, *filters, version=version) == [(NONE, ["orders"]), (NONE, [])]
    assert describe(rig, version) == [("paid", "User:bob", "10.0.0.1")]


def test_acl_that_is_there_already_is_created_without_a_record(rig):
    assert create(rig, creation(), creation()) == [NONE, NONE]
    offset = rig.broker.image.offset
    assert create(rig, creation()) == [NONE]
    assert rig.broker.image.offset == offset
    assert len(describe(rig)) == 1


def test_acl_that_two_filters_select_is_deleted_once(rig):
    create(rig, creation())
    assert delete(rig, wanted(), wanted()) == [(NONE, ["orders"]), (NONE, [])]
    assert rig.broker.image.acls == {}


def test_filters_that_name_a_resource_are_compared_with_its_acls_only(rig, monkeypatch):
    names = [f"t{number:03}" for number in range(200)]
    assert create(rig, *map(creation, names)) == [NONE] * 200
    compared = note_calls(monkeypatch, AclFilter, "matches_entry")
    exact = {"resource_type_filter": TOPIC, "pattern_type_filter": PatternType.LITERAL}
    filters = [wanted(resource_name_filter=name, **exact) for name in names[:150]]
    filters += [wanted(resource_name_filter=names[0], **exact), wanted(pattern_type_filter=PatternType.PREFIXED)]
    filters += [wanted(resource_name_filter=names[160]), wanted(principal_filter="User:ann")]
    rest = [name for name in names[150:] if name != names[160]]
    selected = [[name] for name in names[:150]] + [[], [], [names[160]], rest]
    assert delete(rig, *filters) == [(NONE, each) for each in selected]
    assert len(compared) <= 400, "each ACL once to be taken, and once to be left out"
    assert describe(rig) == []


def test_many_acls_are_described_and_searched_in_slices(rig, monkeypatch):
    count = 3 * SLICE_ELEMENTS
    names = [f"t{number:04}" for number in range(count)]
    assert create(rig, *map(creation, names)) == [NONE] * count
    turns = note_calls(monkeypatch, rig.node.broker.large_requests, "_advance")
    assert [name for name, _, _ in describe(rig)] == names
    assert len(turns) >= 5
    turns.clear()
    assert delete(rig, wanted(principal_filter="User:ann")) == [(NONE, names)]
    assert len(turns) >= 5


@pytest.mark.parametrize("name", ODD_NAMES)
def test_acl_names_with_odd_characters_are_stored_unchanged(rig, name):
    principal, host = f"User:{name}"[:ACL_NAME_LENGTH_MAX], name
    assert create(rig, creation(name, principal, host=host)) == [NONE]
    rig.restart()
    rig.become(rig.client, "User:admin")
    assert describe(rig) == [(name, principal, host)]
    assert delete(rig, wanted(resource_name_filter=name, principal_filter=principal, host_filter=host)) == [
        (NONE, [name])
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 8},
        {"resource_type": -1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"resource_pattern_type": 5},
        {"operation": 0},
        {"operation": 1},
        {"operation": 16},
        {"permission_type": 1},
        {"permission_type": 4},
        {"resource_name": ""},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "mine"},
        {"principal": "ann"},
        {"principal": ":ann"},
        {"principal": "User:"},
        {"host": ""},
        {"resource_name": "x" * (ACL_NAME_LENGTH_MAX + 1)},
        {"principal": "User:" + "x" * ACL_NAME_LENGTH_MAX},
    ],
)
def test_wrong_acl_is_refused_and_the_others_are_created(rig, bad):
    assert create(rig, creation("before"), creation() | bad, creation("after")) == [NONE, INVALID, NONE]
    assert [name for name, _principal, _host in describe(rig)] == ["after", "before"]


FILTER_CODES = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


@pytest.mark.parametrize("part", FILTER_CODES)
@pytest.mark.parametrize(("code", "described"), [(0, INVALID), (99, NONE), (-3, NONE)])
def test_filter_with_an_unknown_code_selects_nothing(rig, part, code, described):
    """Of DescribeAcls only UNKNOWN itself is an error (DescribeAclsRequest), of DeleteAcls all (AclControlManager)."""
    create(rig, creation())
    answer = rig.ask(29, 3, **wanted(**{part: code}))
    assert (answer.error_code, answer.resources) == (described, ())
    assert delete(rig, wanted(**{part: code}), wanted(resource_name_filter="absent")) == [(INVALID, []), (NONE, [])]
    assert len(describe(rig)) == 1


def test_more_acls_than_one_request_may_have_are_refused(rig):
    codes = create(rig, *(creation(f"t{number}") for number in range(ACLS_PER_REQUEST_MAX + 1)))
    assert codes == [NONE] * ACLS_PER_REQUEST_MAX + [ErrorCode.policy_violation]


def test_resource_pattern_has_a_bounded_number_of_acls(rig, monkeypatch):
    monkeypatch.setattr("yak.broker.apis.acls.ACLS_PER_RESOURCE_MAX", 3)
    assert create(rig, *(creation(principal=f"User:{number}") for number in range(4)))[3] == ErrorCode.policy_violation
    assert create(rig, creation(principal="User:0"), creation(principal="User:9")) == [NONE, ErrorCode.policy_violation]


def test_acls_are_in_force_at_once_and_after_a_restart(rig):
    rig.create_topic("orders")
    authorize = ("User:ann", "10.0.0.1", READ, TOPIC, "orders")
    assert not rig.broker.authorization.authorize(*authorize)
    create(rig, creation("ord", resource_pattern_type=PatternType.PREFIXED))
    assert rig.broker.authorization.authorize(*authorize)
    for how in ({}, {"orderly": True}, {"power_loss": True}):
        rig.restart(**how)
        assert rig.broker.authorization.authorize(*authorize)
    rig.become(rig.client, "User:admin")
    delete(rig, wanted())
    assert not rig.broker.authorization.authorize(*authorize)


def test_cluster_acl_has_the_clusters_name(rig):
    assert create(rig, creation(CLUSTER_NAME, resource_type=ResourceType.CLUSTER)) == [NONE]


def test_user_and_token_resources_are_stored(rig):
    for kind in (ResourceType.USER, ResourceType.DELEGATION_TOKEN):
        assert create(rig, creation("ann", resource_type=kind, operation=Operation.DESCRIBE_TOKENS)) == [NONE]
    assert len(describe(rig, resource_type_filter=ResourceType.USER)) == 1
