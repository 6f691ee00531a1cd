import pytest
from support.stores import brokers, kinds, topic_id_of


def test_configs_are_set_removed_and_replaced(one, backend):
    one.create("a", configs={"x": "1", "y": "2"})
    assert one.alter("topic", "a", [["x", "3"], ["y", None], ["z", "4"]]).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {"x": "3", "z": "4"}
    before = kinds(backend)
    assert one.alter("topic", "a", [["x", "3"]]).code == "OK"
    assert kinds(backend) == before
    assert one.alter("topic", "a", [["q", "5"]], replace=True).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {"q": "5"}
    assert one.alter("topic", "a", [], replace=True).code == "OK"
    assert one.catch_up().image.topics["a"].configs == {}
    assert one.alter("topic", "none", [["x", "1"]]).code == "NO_TOPIC"


def test_config_computed_from_an_older_value_changes_nothing(one, backend):
    one.create("a", configs={"list": "1"})
    assert one.alter("topic", "a", [["list", "1,2", "1"], ["new", "3", None]]).value == {}
    before = kinds(backend)
    for stale in (["list", "1,3", "1"], ["list", "1,3", None], ["new", None, "4"], ["new", "4", None]):
        outcome = one.alter("topic", "a", [["x", "1"], stale])
        assert (outcome.code, outcome.value) == ("OK", {"code": "INVALID_UPDATE_VERSION"}), stale
    assert kinds(backend) == before
    # a repeat of an applied change, whose answer was lost
    assert one.alter("topic", "a", [["list", "1,2", "1"], ["none", None, None]]).value == {}
    assert one.alter("topic", "a", [["list", None, "1,2"]]).value == {}
    assert one.catch_up().image.topics["a"].configs == {"new": "3"}


def test_broker_configs_are_for_one_or_for_all(one):
    assert one.alter("broker", "1", [["x", "1"]]).code == "OK"
    assert one.alter("broker", "", [["x", "2"]]).code == "OK"
    image = one.catch_up().image
    assert image.broker_configs == {1: {"x": "1"}}
    assert image.default_broker_configs == {"x": "2"}


def test_quotas_are_configs_of_entities(one):
    entity = "user=ann,client-id=<default>"
    assert one.alter("quota", entity, [["producer_byte_rate", "1.0"], ["request_percentage", "2.5"]]).code == "OK"
    assert one.catch_up().image.quotas == {entity: {"producer_byte_rate": "1.0", "request_percentage": "2.5"}}
    assert one.alter("quota", entity, [["producer_byte_rate", None], ["request_percentage", None]]).code == "OK"
    assert one.catch_up().image.quotas == {}


@pytest.mark.parametrize("name", ["orders", 'a"b\\', "größe", "\x00\n\t", "🐃,:=*%2C", "x" * 2_048])
def test_acls_are_configs_of_resource_patterns(one, name):
    pattern, entries = f"TOPIC,LITERAL,{name}", [f"ALLOW,READ,*,User:{name}", f"DENY,ALL,%2C,User:{name}"]
    assert one.alter("acl", pattern, [[entry, ""] for entry in entries]).code == "OK"
    assert one.catch_up().image.acls == {pattern: dict.fromkeys(entries, "")}
    assert one.alter("acl", pattern, [[entries[0], ""]]).code == "OK"
    assert one.alter("acl", pattern, [[entries[0], None]]).code == "OK"
    assert one.catch_up().image.acls == {pattern: {entries[1]: ""}}
    assert one.alter("acl", pattern, [[entries[1], None]]).code == "OK"
    assert one.catch_up().image.acls == {}


def test_delegation_tokens_are_configs_of_an_id(one):
    assert one.alter("token", "id", [["owner", "User:ann"], ["expires_ms", "1"]]).code == "OK"
    assert one.alter("token", "id", [["expires_ms", "2"]]).code == "OK"
    assert one.catch_up().image.delegation_tokens == {"id": {"owner": "User:ann", "expires_ms": "2"}}
    assert one.alter("token", "id", [], replace=True).code == "OK"
    assert one.catch_up().image.delegation_tokens == {}


def test_a_new_minimum_isr_raises_every_partition_epoch(one):
    one.create("a", replicas=["1"] * 3)
    assert one.alter("topic", "a", [["min.insync.replicas", "2"]]).code == "OK"
    assert [p.partition_epoch for p in one.catch_up().image.topics["a"].partitions] == [1, 1, 1]


def shrunk(backend) -> list:
    """Topics a and own, led by 1, and b, led by 2, each without a follower; only `own` has a minimum ISR of its own."""
    one, two, three = brokers(backend, 3)
    one.alter("broker", "", [["min.insync.replicas", "2"]])
    one.create("a", replicas=["1,3"])
    one.create("b", replicas=["2,3"])
    one.create("own", replicas=["1,3"], configs={"min.insync.replicas": "2"})
    one.fence(three)
    for name, leader in (("a", 1), ("b", 2), ("own", 1)):
        assert one.elect(leader, name) == "OK"
        assert one.partition(name).elr == (3,)
    return [one, two, three]


def test_another_default_minimum_clears_the_elr_where_no_topic_has_its_own(backend):
    one, _two, _three = shrunk(backend)
    before = {name: topic.partitions[0] for name, topic in one.image.topics.items()}
    assert one.alter("broker", "", [["min.insync.replicas", "1"]]).code == "OK"
    for name in "ab":
        assert one.partition(name).elr == ()
        assert one.partition(name).partition_epoch == before[name].partition_epoch + 1
        assert one.partition(name).leader_epoch == before[name].leader_epoch
    assert one.partition("own") == before["own"]


def test_change_of_min_isr_leaves_the_elr_that_replaces_an_empty_isr(backend):
    """Nothing is committed meanwhile, and nobody else would be left to lead; the next leader's election counts with the new one."""
    one, two, three = shrunk(backend)
    one.unfence(three)
    lost = {"topic_id": topic_id_of("b"), "partition": 0, "lost": True}
    assert two("leave_isr", partitions=[lost]).value["codes"] == ["OK"]
    for minimum in ("3", "1"):
        before = one.partition("b").partition_epoch
        assert one.alter("broker", "", [["min.insync.replicas", minimum]]).code == "OK"
        assert (one.partition("b").isr, one.partition("b").elr) == ((), (3,))
        assert one.partition("b").partition_epoch == before + 1
    assert one.elect(3, "b") == "OK"
    assert (one.partition("b").isr, one.partition("b").elr) == ((3,), ())


def test_min_isr_of_a_single_broker_applies_to_the_partitions_that_the_broker_leads(backend):
    one, _two, three = shrunk(backend)
    assert one.alter("broker", "2", [["min.insync.replicas", "1"]]).code == "OK"
    assert [one.partition(name).elr for name in ("a", "b", "own")] == [(3,), (), (3,)]
    # It can commit alone as a leader, so nobody who left is eligible from then on.
    one.unfence(three)
    one.create("c", replicas=["3,2"])
    one.fence(three)
    assert one.elect(2, "c") == "OK"
    assert (one.partition("c").isr, one.partition("c").elr) == ((2,), ())


def test_other_configs_leave_partitions_alone(backend):
    one, _two, _three = shrunk(backend)
    before = kinds(backend)
    one.alter("broker", "", [["x", "1"]])
    one.alter("topic", "own", [["x", "1"]])
    assert kinds(backend) == [*before, "Config", "Config"]


def test_records_of_a_change_of_many_partitions_are_of_a_bounded_size(one, backend):
    one.create("a", replicas=["1"] * 200)
    one.create("b", replicas=["1"] * 150)
    one.alter("broker", "", [["min.insync.replicas", "1"]])
    changes = [len(r.payload["changes"]) for r in backend.records() if r.kind == "PartitionChange"]
    assert changes == [200, 150]
