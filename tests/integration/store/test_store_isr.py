import pytest
from support.stores import Caller, brokers, kinds, topic_id_of


def test_an_isr_below_the_minimum_remembers_eligible_leaders(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"], configs={"min.insync.replicas": "2"})
    assert one.change_isr(one)["elr"] == two.member
    grown = one.change_isr(one, two)
    assert (grown["isr"], grown["elr"]) == (f"{one.member},{two.member}", "")


def test_leader_that_applies_a_smaller_min_isr_leaves_no_eligible_replica(backend):
    one, _two = brokers(backend, 2)
    one.create("a", replicas=["1,2"], configs={"min.insync.replicas": "2"})
    assert one.change_isr(one, min_isr=1)["elr"] == ""


def test_the_minimum_is_not_above_the_number_of_replicas(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"], configs={"min.insync.replicas": "3"})
    assert one.change_isr(one)["elr"] == two.member
    assert one.change_isr(one, two)["elr"] == ""


def test_alter_isr_is_a_compare_and_set_that_knows_its_own_repeat(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    item = one.isr_item(one, nonce="n1")
    before = kinds(backend)
    first = one("alter_isr", partitions=[item])
    assert kinds(backend) == [*before, "PartitionChange"]
    assert one("alter_isr", partitions=[item]) == first
    assert first.value["results"][0]["partition_epoch"] == 1

    def code(caller: Caller, **more) -> str:
        return caller("alter_isr", partitions=[item | more]).value["results"][0]["code"]

    assert code(one, nonce="n2") == "INVALID_UPDATE_VERSION"
    assert code(one, nonce="n2", partition_epoch=2) == "INVALID_UPDATE_VERSION"
    assert code(one, nonce="n2", leader_epoch=1) == "FENCED_LEADER_EPOCH"
    assert code(two, nonce="n2") == "FENCED_LEADER_EPOCH"
    assert code(one, partition=9) == "NO_TOPIC"
    assert kinds(backend) == [*before, "PartitionChange"]


def test_alter_isr_results_contain_the_state_of_the_partition(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    stands = {"topic_id": topic_id_of("a"), "partition": 0, "replicas": "1,2", "adding": "", "removing": ""}
    stands |= {"isr": f"{one.member},{two.member}", "elr": "", "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    refused = one.change_isr(two)
    assert refused == stands | {
        "code": "INELIGIBLE_REPLICA",
        "message": "the leader is not in the new ISR",
        "unclean": False,
    }
    assert one.change_isr(one, partition_epoch=7) == stands | {"code": "INVALID_UPDATE_VERSION", "unclean": False}
    assert one.change_isr(one, topic_id="none") == {"code": "NO_TOPIC"}
    done = one.change_isr(one)
    assert done == stands | {"code": "OK", "unclean": False, "isr": one.member, "partition_epoch": 1}


def test_many_partitions_are_changed_in_one_call_and_one_record(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2", "2,1", "1,2"])
    items = [one.isr_item(one, partition=number) for number in range(3)]
    before = kinds(backend)
    results = one("alter_isr", partitions=items).value["results"]
    assert [result["code"] for result in results] == ["OK", "FENCED_LEADER_EPOCH", "OK"]
    assert kinds(backend) == [*before, "PartitionChange"]
    assert [p.isr for p in one.catch_up().image.topics["a"].partitions] == [(1,), (2, 1), (1,)]
    assert one("alter_isr", partitions=[]).code == "BAD_REQUEST"
    assert one("alter_isr", partitions=items * 100).code == "BAD_REQUEST"
    assert two("alter_isr", partitions=items[1:2]).value["results"][0]["code"] == "INELIGIBLE_REPLICA"


def test_a_second_change_of_one_partition_in_a_call_fails(one):
    one.create("a")
    items = [one.isr_item(one, nonce=nonce) for nonce in ("n1", "n2")]
    results = one("alter_isr", partitions=items).value["results"]
    assert [result["code"] for result in results] == ["OK", "INVALID_UPDATE_VERSION"]


def test_isr_accepts_no_non_replica_duplicate_fenced_broker_or_other_incarnation(backend):
    one, two, three, four = brokers(backend, 4)
    one.create("a", replicas=["1,2,3"])
    one.change_isr(one)
    assert one.change_isr(one, four)["message"] == f"replica {four.member}"
    assert one.change_isr(one, one)["message"] == "a replica is in the new ISR twice"
    old = two.member
    one.fence(three)
    two.restart("boot-2", one)
    assert one.change_isr(one, three)["code"] == "INELIGIBLE_REPLICA"
    assert one.change_isr(one, old)["code"] == "INELIGIBLE_REPLICA"
    assert one.change_isr(one, two)["code"] == "OK"


def test_a_stopping_broker_stays_in_but_does_not_come_in(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"])
    one.change_isr(one, two)
    for broker in (two, three):
        broker("begin_stop", state="STOPPING")
    assert one.change_isr(one, two, three)["code"] == "INELIGIBLE_REPLICA"
    assert one.change_isr(one, two)["code"] == "OK"
    assert one.change_isr(one)["code"] == "OK"
    assert one.change_isr(one, two)["code"] == "INELIGIBLE_REPLICA"


def test_a_fenced_leader_changes_no_isr(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["2,1"])
    one.fence(two)
    assert two.change_isr(two)["code"] == "INELIGIBLE_REPLICA"
    assert two.change_isr(two, one)["code"] == "INELIGIBLE_REPLICA"


def test_high_watermarks_never_go_back_and_log_ends_follow_the_newest_leader(one, backend):
    one.create("a")
    topic_id = topic_id_of("a")
    reports = ([0, 10, {"1": 12}], [0, 5, {"1": 7}], [1, 12, {"1": 12, "2": 9}], [0, 20, {"1": 20}])
    for report in reports:
        assert one("report_hw", partitions=[[topic_id, 0, *report], ["none", 0, 1, 1, {}]]).code == "OK"
    assert backend.high_watermarks() == {f"{topic_id}:0": "1:12"}
    assert backend.log_end_offsets() == {f"{topic_id}:0": {"le": 1, "leo": {"1": 12, "2": 9}}}
    # After an unclean election the log may end below what was reported: its end is told all the same.
    one("report_hw", partitions=[[topic_id, 0, 2, 3, {"2": 4}]])
    assert backend.high_watermarks() == {f"{topic_id}:0": "1:12"}
    assert backend.log_end_offsets() == {f"{topic_id}:0": {"le": 2, "leo": {"2": 4}}}
    one("delete_topic", topic_id=topic_id)
    assert backend.high_watermarks() == {}
    assert backend.log_end_offsets() == {}


@pytest.mark.parametrize(("configs", "is_eligible"), [({}, True), ({"min.insync.replicas": "1"}, False)])
def test_the_minimum_that_a_leader_was_started_with_counts_where_no_config_says_more(backend, configs, is_eligible):
    one, two = brokers(backend, 2, min_isr=2)
    one.create("a", replicas=["2,1"], configs=configs)
    assert two.change_isr(two, min_isr=2)["elr"] == (one.member if is_eligible else "")
