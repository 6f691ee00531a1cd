"""A broker takes itself out of partitions that it cannot serve."""

from support.stores import brokers, kinds, topic_id_of

from yak.cluster.payload import parse_isr


def leave(caller, *, lost: bool, partition: int = 0, **more: str) -> str:
    item = {"topic_id": topic_id_of("a"), "partition": partition, "lost": lost, **more}
    return caller("leave_isr", partitions=[item]).value["codes"][0]


def stands(caller) -> dict:
    """The partition, as a refused change of its ISR tells it."""
    return caller("alter_isr", partitions=[caller.isr_item(caller, partition_epoch=99)]).value["results"][0]


def test_a_leader_that_leaves_leads_nothing_and_the_others_stay_in_sync(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    assert leave(one, lost=False) == "OK"
    found = stands(one)
    assert (found["leader"], found["leader_epoch"], found["partition_epoch"]) == (-1, 1, 1)
    assert (found["isr"], found["elr"]) == (two.member, "")


def test_replica_that_leaves_below_min_isr_stays_eligible_unless_records_were_lost(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"], configs={"min.insync.replicas": "3"})
    assert leave(two, lost=False) == "OK"
    assert stands(one)["elr"] == two.member
    assert leave(three, lost=True) == "OK"
    found = stands(one)
    assert (found["isr"], found["elr"]) == (one.member, two.member)
    assert leave(two, lost=True) == "OK"
    assert stands(one)["elr"] == ""


def test_the_last_one_in_sync_stays(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    assert leave(two, lost=True) == "OK"
    before = kinds(backend)
    assert leave(one, lost=True) == "LAST_MEMBER"
    assert leave(one, lost=False) == "LAST_MEMBER"
    assert stands(one)["leader"] == 1
    assert kinds(backend) == before


def test_the_last_one_in_sync_may_go_with_its_records_where_others_have_all_that_counts(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"], configs={"min.insync.replicas": "2"})
    assert leave(two, lost=False) == "OK"
    assert leave(one, lost=False) == "LAST_MEMBER"
    assert leave(one, lost=True) == "OK"
    found = stands(one)
    assert (found["isr"], found["elr"], found["leader"]) == ("", two.member, -1)


def test_the_last_one_in_sync_yields_to_an_eligible_leader_that_it_names(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"], configs={"min.insync.replicas": "3"})
    assert leave(two, lost=False) == "OK"
    assert leave(three, lost=False) == "OK"
    assert leave(one, lost=False, yields_to="") == "LAST_MEMBER"
    assert leave(one, lost=False, yields_to=two.member) == "OK"
    found = stands(one)
    assert (found["leader"], found["leader_epoch"], found["partition_epoch"]) == (2, 1, 3)
    assert (found["isr"], found["elr"]) == (two.member, f"{one.member},{three.member}")


def test_the_last_one_in_sync_yields_to_no_broker_that_may_not_lead(backend):
    one, two, three, four = brokers(backend, 4)
    one.create("a", replicas=["1,2,3,4"], configs={"min.insync.replicas": "4"})
    for each in (two, three):
        assert leave(each, lost=False) == "OK"
    assert leave(four, lost=True) == "OK"
    old = two.member
    two.restart("boot-2", one, lossy=True)
    one.fence(three)
    before = kinds(backend)
    for each in (old, two.member, three.member, four.member, one.member, "9@1"):
        assert leave(one, lost=False, yields_to=each) == "LAST_MEMBER", each
    assert stands(one)["leader"] == 1
    assert kinds(backend) == before


def test_replica_with_possible_later_loss_does_not_replace_the_last_isr_member(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"], configs={"min.insync.replicas": "3"})
    assert leave(three, lost=False) == "OK"
    assert leave(two, lost=False) == "OK"
    three.restart("boot-2", one, lossy=True)
    two.restart("boot-2", one, lossy=True)
    before = kinds(backend)
    assert leave(one, lost=True) == "LAST_MEMBER"
    assert stands(one)["isr"] == one.member
    assert kinds(backend) == before


def test_the_only_one_in_sync_that_has_all_stays_and_one_that_may_have_lost_something_too_goes(backend):
    controller, two, three, four = brokers(backend, 4)
    controller.create("a", replicas=["2,3,4"])
    for each in (three, four):
        each.restart("boot-2", controller, lossy=True)
    before = kinds(backend)
    assert leave(two, lost=False) == "LAST_MEMBER"
    assert leave(two, lost=True) == "LAST_MEMBER"
    assert len(parse_isr(stands(two)["isr"])) == 3
    assert kinds(backend) == before
    two.restart("boot-2", controller, lossy=True)
    assert leave(two, lost=False) == "OK"


def test_the_only_one_in_sync_that_has_all_may_go_where_an_eligible_one_has_all_too(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"], configs={"min.insync.replicas": "3"})
    assert leave(three, lost=False) == "OK"
    two.restart("boot-2", one, lossy=True)
    assert leave(one, lost=False) == "OK"
    assert three.member in stands(three)["elr"]


def test_leaving_the_isr_again_changes_nothing_and_an_unknown_partition_is_reported(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    assert leave(two, lost=False) == "OK"
    before = kinds(backend)
    assert leave(two, lost=False) == "OK"
    assert leave(two, lost=True, partition=7) == "NO_TOPIC"
    assert kinds(backend) == before


def test_a_lost_log_outside_the_isr_voids_the_change_that_would_bring_it_back(backend):
    """The leader judged by the log that is lost; an empty one would count as in sync."""
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    assert leave(two, lost=True) == "OK"
    expansion = one.isr_item(one, two, partition_epoch=1)
    assert leave(two, lost=True) == "OK"
    assert one("alter_isr", partitions=[expansion]).value["results"][0]["code"] == "INVALID_UPDATE_VERSION"
    assert stands(one)["isr"] == one.member
    before = kinds(backend)
    assert leave(two, lost=False) == "OK"
    assert kinds(backend) == before
