"""Every API has its rules, asks for nothing else, refuses a client without rights, and serves one with exactly these."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.acl_rig import ADMIN, AclRig, error_codes, transactional_batch
from yak.acls.bindings import Operation, ResourceType
from yak.broker.apis import TABLE
from yak.broker.apis.authorization_rules import RULES
from yak.broker.authorization import AUTHORIZATION_ERRORS
from yak.sim.request_fields import create_fields, fetch_fields, produce_fields
from yak.sim.wire import record_batch

TOPIC, GROUP, TXN = "orders", "readers", "payments"
ACL = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:x", "host": "*"}
ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
RESOURCES = [{"resource_type": 2, "resource_name": TOPIC}, {"resource_type": 32, "resource_name": GROUP},
             {"resource_type": 4, "resource_name": "1"}]  # fmt: skip
OFFSETS = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
IN_TXN = {"transactional_id": TXN, "group_id": GROUP}
REQUESTS = {
    0: [(9, produce_fields(TOPIC, record_batch([b"v"], 0))),
        (9, produce_fields(TOPIC, transactional_batch([b"v"])) | {"transactional_id": TXN})],
    1: [(12, fetch_fields(TOPIC, 0))],
    2: [(5, {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"timestamp": -1}]}]})],
    3: [(12, {"topics": [{"name": TOPIC}]}),
        (9, {"topics": [{"name": "new"}], "include_cluster_authorized_operations": True})],
    8: [(8, {"group_id": GROUP, "topics": OFFSETS})],
    9: [(8, {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]})],
    10: [(4, {"coordinator_keys": [GROUP]}), (3, {"key": TXN, "key_type": 1})],
    11: [(5, {"group_id": "joined", "protocol_type": "consumer", "protocols": [{"name": "range"}]})],
    12: [(4, {"group_id": GROUP, "member_id": "m"})],
    13: [(4, {"group_id": GROUP, "members": [{"member_id": "m"}]})],
    14: [(4, {"group_id": GROUP, "member_id": "m"})],
    15: [(5, {"groups": [GROUP], "include_authorized_operations": True})],
    16: [(4, {})],
    17: [(1, {"mechanism": "SCRAM-SHA-256"})],
    18: [(0, {})],
    19: [(7, create_fields("made", {}) | {"validate_only": True})],
    20: [(5, {"topic_names": [TOPIC]})],
    21: [(2, {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]})],
    22: [(4, {"producer_id": -1, "producer_epoch": -1}),
         (4, {"transactional_id": TXN, "producer_id": -1, "producer_epoch": -1})],
    23: [(4, {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [{"current_leader_epoch": -1}]}]})],
    24: [(3, {"v3_and_below_transactional_id": TXN, "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}]}),
         (4, {"transactions": [{"transactional_id": TXN, "topics": [{"name": TOPIC, "partitions": [0]}]}]})],
    25: [(3, IN_TXN)],
    26: [(3, {"transactional_id": TXN})],
    27: [(1, {"markers": [{"topics": [{"name": TOPIC, "partition_indexes": [0]}]}]})],
    28: [(3, IN_TXN | {"generation_id": -1, "topics": OFFSETS})],
    29: [(3, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1})],
    30: [(3, {"creations": [ACL | {"operation": 3, "permission_type": 3}]})],
    31: [(3, {"filters": [ANY_ACL | {"resource_name_filter": "nothing"}]})],
    32: [(4, {"resources": RESOURCES})],
    33: [(2, {"resources": RESOURCES, "validate_only": True})],
    34: [(2, {"dirs": [{"path": "/none", "topics": [{"name": TOPIC, "partitions": [0]}]}]})],
    35: [(4, {"topics": None})],
    36: [(2, {})],
    37: [(3, {"topics": [{"name": TOPIC, "count": 2}]})],
    38: [(3, {"owner_principal_type": "User", "owner_principal_name": "ann"})],
    39: [(2, {"hmac": b"unknown"})],
    40: [(2, {"hmac": b"unknown"})],
    41: [(3, {"owners": None})],
    42: [(2, {"groups_names": ["absent"]})],
    43: [(2, {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]})],
    44: [(1, {"resources": RESOURCES, "validate_only": True})],
    45: [(0, {"topics": [{"name": TOPIC, "partitions": [{"replicas": [1]}]}]})],
    46: [(0, {"topics": None})],
    47: [(0, {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{}]}]})],
    48: [(1, {"components": []})],
    49: [(1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "x"}]}]})],
    50: [(0, {"users": None})],
    51: [(0, {"deletions": [{"name": "x", "mechanism": 1}]})],
    52: [(2, {})],
    53: [(1, {})],
    54: [(1, {})],
    55: [(2, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]})],
    57: [(2, {})],
    58: [(0, {})],
    59: [(1, {})],
    60: [(0, {"include_cluster_authorized_operations": True})],
    61: [(0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]})],
    64: [(0, {"broker_id": 9})],
    65: [(0, {"transactional_ids": ["never begun"]})],
    66: [(2, {"duration_filter": -1})],
    68: [(1, {"group_id": "consumers", "member_id": "m", "topic_partitions": [], "subscribed_topic_names": [TOPIC],
              "rebalance_timeout": dt.timedelta(minutes=1)})],
    69: [(1, {"group_ids": [GROUP], "include_authorized_operations": True})],
    74: [(1, {})],
    75: [(0, {"topics": [{"name": TOPIC}], "response_partition_limit": 10})],
    80: [(1, {})],
    81: [(0, {})],
    82: [(0, {})],
}  # fmt: skip
"""By API key: a version, and the fields that matter."""
FILTERED = {16, 41, 60, 66}
"""APIs that leave out what the client may not see, instead of refusing."""
BROKERS_ONLY = {key for key, rules in RULES.items() if any(rule.note == "brokers only" for rule in rules)}


@pytest.fixture(scope="module")
def rig():
    rig = AclRig()
    rig.create_topic(TOPIC)
    assert not error_codes(rig.ask_filled(38, 3, {}, rig.client))  # a token that others may not see
    for key_type in (0, 1):
        rig.ask(10, 3, key=GROUP, key_type=key_type)
    rig.run_for(2_000)
    return rig


def prepare(rig, api_key):
    """Restore what an earlier request of this API removed."""
    if TOPIC not in rig.broker.image.topics:
        rig.create_topic(TOPIC)
    if api_key == 47:
        for version, given in REQUESTS[8]:
            assert not error_codes(rig.ask_filled(8, version, given, rig.client))


def test_every_api_has_rules_and_a_request_here():
    assert RULES.keys() == TABLE.keys() == REQUESTS.keys()


def asked_for(rig, monkeypatch):
    """The operations that handlers ask for from here on."""
    found, authorization = set(), rig.broker.authorization

    def noting(method):
        def noted(call, operation, kind, *name):
            found.add((call.api_key, operation, kind))
            return method(call, operation, kind, *name)

        return noted

    for name in ("allows", "may_see", "allows_any"):
        monkeypatch.setattr(authorization, name, noting(getattr(authorization, name)))
    return found


@pytest.mark.parametrize("api_key", sorted(TABLE))
def test_client_without_acls_is_refused(rig, api_key, monkeypatch):
    prepare(rig, api_key)
    found = asked_for(rig, monkeypatch)
    for version, given in REQUESTS[api_key]:
        answer = rig.ask_filled(api_key, version, given, rig.user("stranger"))
        if api_key in BROKERS_ONLY:
            assert answer is None, "the connection is closed"
        elif RULES[api_key] and api_key not in FILTERED:
            codes = error_codes(answer)
            assert codes, answer
            assert codes <= AUTHORIZATION_ERRORS, answer
    stated = {(api_key, rule.operation, rule.kind) for rule in RULES[api_key]}
    assert found <= stated


@pytest.mark.parametrize("api_key", sorted(TABLE.keys() - BROKERS_ONLY))
def test_client_with_the_acls_of_the_rules_is_served(rig, api_key, monkeypatch):
    user = f"user{api_key}"
    for rule in RULES[api_key]:
        rig.acl(rule.operation, rule.kind, "*", user)
    prepare(rig, api_key)
    found = asked_for(rig, monkeypatch)
    for version, given in REQUESTS[api_key]:
        answer = rig.ask_filled(api_key, version, given, rig.user(user))
        assert answer is not None
        assert not error_codes(answer) & AUTHORIZATION_ERRORS, answer
    stated = {(api_key, rule.operation, rule.kind) for rule in RULES[api_key]}
    assert found <= stated


ALTERNATIVES = {
    (3, Operation.CREATE, ResourceType.TOPIC), (3, Operation.CREATE, ResourceType.CLUSTER),
    (3, Operation.DESCRIBE, ResourceType.CLUSTER), (1, Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    (19, Operation.CREATE, ResourceType.CLUSTER), (19, Operation.CREATE, ResourceType.TOPIC),
    (20, Operation.DELETE, ResourceType.TOPIC), (20, Operation.DESCRIBE, ResourceType.TOPIC),
    (20, Operation.DELETE, ResourceType.CLUSTER),
    (22, Operation.WRITE, ResourceType.TOPIC), (22, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    (23, Operation.DESCRIBE, ResourceType.TOPIC), (23, Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    (27, Operation.ALTER, ResourceType.CLUSTER), (27, Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    (65, Operation.DESCRIBE, ResourceType.TOPIC), (69, Operation.DESCRIBE, ResourceType.TOPIC),
}  # fmt: skip
"""Rules without which a request still works: another one does, or its answer only has less."""
NEEDED = [
    (key, index)
    for key, rules in sorted(RULES.items())
    if key not in BROKERS_ONLY | FILTERED
    for index, rule in enumerate(rules)
    if (key, rule.operation, rule.kind) not in ALTERNATIVES
]


@pytest.mark.parametrize(("api_key", "missing"), NEEDED)
def test_client_that_lacks_one_of_the_rules_is_refused(rig, api_key, missing):
    user = f"user{api_key}without{missing}"
    rules = RULES[api_key]
    for index, rule in enumerate(rules):
        if index != missing:
            rig.acl(rule.operation, rule.kind, "*", user)
    rig.acl(rules[missing].operation, rules[missing].kind, "*", user, deny=True)
    prepare(rig, api_key)
    codes = set()
    for version, given in REQUESTS[api_key]:
        codes |= error_codes(rig.ask_filled(api_key, version, given, rig.user(user)))
    assert codes & AUTHORIZATION_ERRORS


@pytest.mark.parametrize("api_key", sorted(TABLE.keys() - BROKERS_ONLY))
def test_super_user_is_never_refused(rig, api_key):
    prepare(rig, api_key)
    for version, given in REQUESTS[api_key]:
        channel = rig.new_client()
        rig.become(channel, ADMIN)
        answer = rig.ask_filled(api_key, version, given, channel)
        assert not error_codes(answer) & AUTHORIZATION_ERRORS


def test_without_an_authorizer_no_client_is_refused():
    rig = AclRig(**{"authorizer.class.name": ""})
    rig.create_topic(TOPIC)
    for api_key in sorted(TABLE.keys() - BROKERS_ONLY):
        prepare(rig, api_key)
        for version, given in REQUESTS[api_key]:
            codes = error_codes(rig.ask_filled(api_key, version, given, rig.user("stranger")))
            # Kafka lets every client create tokens of every user then
            assert bool(codes & AUTHORIZATION_ERRORS) == (api_key == 38), api_key
            assert (ErrorCode.security_disabled in codes) == (api_key in (29, 30, 31))
