"""`yak acls`: the ACLs that options stand for, what it shows, and what it refuses."""

import json

import pytest

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
from yak.client import acls as client
from yak.commands.options import Globals

ALLOW, DENY, TOPIC, GROUP = Permission.ALLOW, Permission.DENY, ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, CREATE = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE


def acl(name, operation, principal="User:ann", *, kind=TOPIC, permission=ALLOW, host="*", prefixed=False):
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(principal, host, operation, permission))


class Requests:
    """What was asked of the broker."""

    def __init__(self):
        self.found = [acl("orders", READ), acl("o", WRITE, "User:bob", permission=DENY, prefixed=True)]
        self.described, self.created, self.deleted = [], [], []


@pytest.fixture
def requests(monkeypatch):
    requests = Requests()

    def describe(_address, wanted, *, timeout_s):
        assert timeout_s == 1.0
        requests.described.append(wanted)
        return [each for each in requests.found if wanted.matches(each)]

    def delete(_address, acls, *, timeout_s):
        requests.deleted += acls
        return [each for each in requests.found if each in acls]

    monkeypatch.setattr(Globals, "broker_that_answers", lambda _g: ("127.0.0.1:9092", 1.0))
    monkeypatch.setattr(client, "describe_acls", describe)
    monkeypatch.setattr(client, "create_acls", lambda _address, added, timeout_s: requests.created.extend(added))
    monkeypatch.setattr(client, "delete_acls", delete)
    return requests


def test_list_shows_all_acls_and_those_that_apply_to_a_resource(yak, requests):
    assert "User:bob" in yak("acls", "list").out
    rows = json.loads(yak("acls", "list", "--topic", "other", "-o", "json").out)
    assert rows == [
        {"permission": "deny", "principal": "User:bob", "host": "*", "operation": "write", "resource": "topic",
         "name": "o", "pattern": "prefixed"}
    ]  # fmt: skip
    yak("acls", "list", "--topic", "o", "--prefixed", "--principal", "bob")
    assert requests.described[1:] == [
        AclFilter(TOPIC, "other", PatternType.MATCH),
        AclFilter(TOPIC, "o", PatternType.PREFIXED, "User:bob"),
    ]
    requests.found = []
    assert "No ACLs" in (ran := yak("acls", "list")).out + ran.err


def test_list_as_json_is_empty_without_acls(yak, requests):
    requests.found = []
    assert json.loads(yak("acls", "list", "-o", "json").out) == []


@pytest.mark.parametrize(
    ("args", "created"),
    [
        (("--allow", "ann", "--operation", "read", "--topic", "a"), [acl("a", READ)]),
        (("--allow", "User:ann", "--topic", "a"), [acl("a", Operation.ALL)]),
        (("--deny", "*", "--host", "10.0.0.7", "--operation", "ClusterAction", "--cluster"),
         [acl("kafka-cluster", Operation.CLUSTER_ACTION, "User:*", kind=ResourceType.CLUSTER, permission=DENY,
              host="10.0.0.7")]),
        (("--allow", "CN=a,O=b", "--operation", "describe_configs", "--topic", "a-", "--prefixed"),
         [acl("a-", Operation.DESCRIBE_CONFIGS, "User:CN=a,O=b", prefixed=True)]),
        (("--allow", "ann", "--producer", "--topic", "a", "--transactional-id", "t"),
         [acl("a", WRITE), acl("a", DESCRIBE), acl("a", CREATE),
          acl("t", WRITE, kind=ResourceType.TRANSACTIONAL_ID), acl("t", DESCRIBE, kind=ResourceType.TRANSACTIONAL_ID)]),
        (("--allow", "ann", "--consumer", "--topic", "a", "--group", "g"),
         [acl("a", READ), acl("a", DESCRIBE), acl("g", READ, kind=GROUP)]),
        (("--allow", "ann", "--allow", "bob", "--operation", "read", "--operation", "write", "--topic", "a"),
         [acl("a", READ), acl("a", WRITE), acl("a", READ, "User:bob"), acl("a", WRITE, "User:bob")]),
        (("--allow", "ann", "--operation", "describe-tokens", "--user-principal", "bob"),
         [acl("User:bob", Operation.DESCRIBE_TOKENS, kind=ResourceType.USER)]),
    ],
)  # fmt: skip
def test_options_stand_for_acls(yak, requests, args, created):
    ran = yak("acls", "add", *args)
    assert ran.code == 0, ran.err
    assert requests.created == created


@pytest.mark.parametrize("name", ['a"b', "größe", "a b,c", "x" * 300, "'; DROP TABLE"])
def test_names_with_odd_characters_pass(yak, requests, name):
    assert yak("acls", "add", "--allow", name, "--operation", "read", "--topic", name).code == 0
    assert requests.created == [acl(name, READ, f"User:{name}")]


@pytest.mark.parametrize("host", ["nohost.example", "10.0.0.0/24", "10.0.0.1:9092", "[::1]", ""])
def test_add_refuses_a_host_that_no_address_is_equal_to(yak, requests, host):
    args = ("--deny", "ann", "--host", "10.0.0.1", "--host", host, "--topic", "a")
    ran = yak("acls", "add", *args)
    assert ran.code == 2
    assert f'error[bad-acl-host]: "{host}" is no ip' in ran.err
    assert requests.created == []


@pytest.mark.parametrize("host", ["*", "::1", "2001:0db8::0001"])
def test_add_takes_every_form_of_an_address_and_all_hosts(yak, requests, host):
    assert yak("acls", "add", "--deny", "ann", "--host", host, "--operation", "read", "--topic", "a").code == 0
    assert requests.created == [acl("a", READ, permission=DENY, host=host)]


def test_remove_takes_a_host_that_is_no_address(yak, requests):
    requests.found = [acl("orders", READ, host="nohost.example")]
    assert yak("acls", "remove", "--host", "nohost.example", "--yes").code == 0


def test_remove_shows_what_matches_and_removes_it_once_confirmed(yak, requests):
    ran = yak("acls", "remove", "--topic", "orders", "--allow", "ann", "--yes")
    assert ran.code == 0
    assert "removed 1 ACL" in ran.out + ran.err
    assert requests.deleted == [acl("orders", READ)]


def test_remove_of_a_principal_matches_any_resource(yak, requests):
    assert yak("acls", "remove", "--deny", "bob", "--operation", "write", "--yes").code == 0
    assert requests.described == [AclFilter(principal="User:bob", operation=WRITE, permission=DENY)]
    assert requests.deleted == [acl("o", WRITE, "User:bob", permission=DENY, prefixed=True)]


def test_prefixed_without_a_name_selects_prefixes_alone(yak, requests):
    requests.found = [acl("orders", READ), acl("orders-", READ, prefixed=True)]
    rows = json.loads(yak("acls", "list", "--principal", "ann", "--prefixed", "-o", "json").out)
    assert [row["name"] for row in rows] == ["orders-"]
    assert yak("acls", "remove", "--allow", "ann", "--prefixed", "--yes").code == 0
    assert [each.pattern.name for each in requests.deleted] == ["orders-"]


def test_acls_remove_keeps_an_acl_that_was_added_before_the_confirmation(yak, requests, monkeypatch):
    later = acl("orders", DESCRIBE)
    monkeypatch.setattr(Globals, "confirm", lambda _g, _question: requests.found.append(later))
    ran = yak("acls", "remove", "--topic", "orders")
    assert ran.code == 0, ran.err
    assert requests.deleted == [acl("orders", READ)]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("add", "--operation", "read", "--topic", "a"), 2),
        (("add", "--allow", "ann", "--operation", "read"), 2),
        (("add", "--allow", "ann", "--operation", "fly", "--topic", "a"), 2),
        (("add", "--allow", "ann", "--operation", "any", "--topic", "a"), 2),
        (("add", "--allow", "ann", "--operation", "write", "--group", "g"), 2),
        (("add", "--allow", "ann", "--producer", "--operation", "read", "--topic", "a"), 2),
        (("add", "--allow", "ann", "--producer", "--group", "g"), 2),
        (("add", "--allow", "ann", "--consumer", "--topic", "a"), 2),
        (("add", "--allow", "ann", "--producer", "--topic", "a", "--group", "g"), 2),
        (("add", "--allow", "ann", "--consumer", "--topic", "a", "--group", "g", "--cluster"), 2),
        (("add", "--allow", "ann", "--operation", "read", "--topic", "a", "--readonly"), 2),
        (("remove",), 2),
        (("remove", "--topic", "absent", "--yes"), 1),
        (("remove", "--topic", "orders", "--yes", "--readonly"), 2),
    ],
)
def test_acls_command_with_wrong_arguments_is_refused_and_changes_nothing(yak, requests, args, code):
    ran = yak("acls", *args)
    assert (ran.code, requests.created, requests.deleted) == (code, [], []), ran.err
