import pytest
from support.stores import Caller, brokers, topic_id_of

UNCLEAN = "unclean.leader.election.enable"


def test_a_restarted_sole_replica_is_elected_in_the_next_epochs(one):
    one.create("a")
    one.register("boot-2")
    one.take_office()
    assert one.elect(1) == "INELIGIBLE_REPLICA"
    one.unfence(one)
    assert one.elect(1, partition_epoch=7) == "INVALID_UPDATE_VERSION"
    assert one.elect(1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 1)
    assert [member.broker_epoch for member in partition.isr_members] == [one.who["broker_epoch"]]


def test_a_lossy_sole_replica_leads_only_as_unclean(one, backend):
    one.create("a")
    one.register("boot-2", lossy=True)
    one.take_office()
    one.unfence(one)
    assert one.elect(1) == "INELIGIBLE_REPLICA"
    assert one.elect(1, unclean=True) == "OK"
    assert backend.records()[-1].payload["changes"][0]["unclean"] is True


@pytest.mark.parametrize("resource", ["topic", "broker"])
def test_unclean_election_by_a_config_is_refused_once_the_config_has_another_value(backend, resource):
    one, other = brokers(backend, 2)
    one.create("a", replicas=["2,1"])
    other.change_isr(other)
    where = {"resource_type": resource, "resource_name": "a" if resource == "topic" else "", "replace": False}
    one("alter_configs", **where, changes=[[UNCLEAN, "true"]])
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect(1, unclean=True, unclean_config="") == "INVALID_UPDATE_VERSION"
    one("alter_configs", **where, changes=[[UNCLEAN, "false"]])
    assert one.elect(1, unclean=True, unclean_config="true") == "INVALID_UPDATE_VERSION"
    one("alter_configs", **where, changes=[[UNCLEAN, "true"]])
    assert one.elect(1, unclean=True, unclean_config="true") == "OK"


def test_unclean_election_without_a_config_does_not_depend_on_one(backend):
    one, other = brokers(backend, 2)
    one.create("a", replicas=["2,1"], configs={UNCLEAN: "false"})
    other.change_isr(other)
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect(1, unclean=True, unclean_config=None) == "OK"


def test_a_leader_that_is_fenced_gives_way_to_an_isr_member(backend):
    one, other = brokers(backend, 2)
    one.create("a", replicas=["2,1"])
    assert one.elect(-1) == "INELIGIBLE_REPLICA"
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect(2) == "INELIGIBLE_REPLICA"
    assert one.elect(1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())


def test_a_partition_whose_only_member_is_fenced_has_no_leader_but_keeps_its_isr(backend):
    one, other = brokers(backend, 2)
    one.create("a", replicas=["2"])
    one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
    assert one.elect(-1) == "OK"
    partition = one.partition()
    assert (partition.leader, partition.isr, partition.leader_epoch) == (-1, (2,), 1)


def test_elections_have_bounds_and_report_partitions_that_do_not_exist(one):
    item = {"topic_id": "none", "partition": 0, "leader": 1, "partition_epoch": 0, "unclean": False}
    assert one("elect", partitions=[]).code == "BAD_REQUEST"
    assert one("elect", partitions=[item] * 201).code == "BAD_REQUEST"
    assert one("elect", partitions=[item]).value == {"codes": ["NO_TOPIC"]}


def test_a_second_election_of_one_partition_in_a_call_fails(one):
    one.create("a")
    item = {"topic_id": str(one.catch_up().image.topics["a"].topic_id), "partition": 0, "leader": 1}
    item |= {"partition_epoch": 0, "unclean": False}
    assert one("elect", partitions=[item, item]).value == {"codes": ["OK", "INVALID_UPDATE_VERSION"]}
    assert one.partition().leader_epoch == 1


def test_stopping_leader_resigns_and_stays_in_the_isr_until_stopped(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["2,1"])
    two("begin_stop", state="STOPPING")
    assert one.elect(-1) == "INELIGIBLE_REPLICA"
    assert one.elect(2) == "INELIGIBLE_REPLICA"
    assert one.elect(1) == "OK"
    assert (one.partition().leader, one.partition().isr) == (1, (2, 1))


def test_stopping_isr_member_is_alive_so_no_replica_outside_is_elected(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["2,1"], configs={"min.insync.replicas": "2"})
    two.change_isr(two)
    assert one.partition().elr == (1,)
    two("begin_stop", state="STOPPING")
    assert one.elect(1) == "INELIGIBLE_REPLICA"
    assert one.elect(1, unclean=True) == "INELIGIBLE_REPLICA"
    two("begin_stop", state="CLOSED")
    assert one.elect(1, unclean=True) == "OK"
    assert backend.records()[-1].payload["changes"][0]["unclean"] is False
    assert (one.partition().isr, one.partition().elr) == ((1,), (2,))


def test_a_former_member_leads_only_while_nothing_could_be_committed_without_it(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["2,1,3"], configs={"min.insync.replicas": "2"})
    two.change_isr(two, three)
    assert one.partition().elr == ()
    two.change_isr(two)
    assert one.partition().elr == (3,)
    one.fence(two)
    assert one.elect(1) == "INELIGIBLE_REPLICA"
    assert one.elect(3) == "OK"
    assert (one.partition().isr, one.partition().elr) == ((3,), (2,))


def test_a_former_member_that_lost_something_is_not_eligible(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["2,1"], configs={"min.insync.replicas": "2"})
    one.fence(two)
    assert one.elect(1) == "OK"
    assert one.partition().elr == (2,)
    two.restart("boot-2", one, last_epoch=0)
    two.restart("boot-3", one)
    three = brokers(backend, 1)[0]
    three.who |= one.who
    two.take_office(claimed_epoch=1, fast=True)
    assert two.elect(2) == "INELIGIBLE_REPLICA"


def test_a_new_boot_of_a_member_is_not_in_the_isr_until_the_leader_takes_it_in(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    before = two.member
    two.restart("boot-2", one)
    assert one.elect(2) == "INELIGIBLE_REPLICA"
    assert one.partition().isr == (1, 2)
    assert one.change_isr(one, before)["code"] == "INELIGIBLE_REPLICA"
    # Among the live members it is not any more.
    assert one.elect(1) == "OK"
    assert one.partition().isr == (1,)


def unclean_topic(backend):
    """Topic `a` whose one member, broker 2, is gone; 1 and 3 left the ISR long ago."""
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["2,1,3"])
    two.change_isr(two)
    one.fence(two)
    assert one.elect(-1) == "OK"
    return one, two, three


def test_unclean_election_elects_any_active_replica_when_no_clean_one_is_available(backend):
    one, _two, _three = unclean_topic(backend)
    assert one.elect(3) == "INELIGIBLE_REPLICA"
    assert one.elect(3, unclean=True) == "OK"
    assert backend.records()[-1].payload["changes"][0]["unclean"] is True
    partition = one.partition()
    assert (partition.leader, partition.isr, partition.elr) == (3, (3,), ())


def test_an_unclean_election_is_refused_while_a_clean_one_is_possible(backend):
    one, two, _three = unclean_topic(backend)
    two.restart("boot-2", one)
    assert one.elect(3, unclean=True) == "INELIGIBLE_REPLICA"
    assert one.elect(2, unclean=True) == "OK"
    assert backend.records()[-1].payload["changes"][0]["unclean"] is False


def test_a_fenced_broker_and_a_stranger_are_not_elected_even_as_unclean(backend):
    one, _two, three = unclean_topic(backend)
    one.fence(three)
    assert one.elect(3, unclean=True) == "INELIGIBLE_REPLICA"
    assert one.elect(9, unclean=True) == "INELIGIBLE_REPLICA"


def test_isr_member_that_is_not_alive_and_lost_records_prevents_no_unclean_election(backend):
    one, two, _three = unclean_topic(backend)
    two.restart("boot-2", one, lossy=True)
    assert one.elect(2) == "INELIGIBLE_REPLICA"
    assert one.elect(3, unclean=True) == "OK"


def _without_leader(backend) -> list[Caller]:
    """Brokers 1 to 4; topic `a` on 2, 3 and 4 has lost its leader 2, and 3 is eligible. 2 and 3 started with a minimum of 2."""
    one, two, three, four = brokers(backend, 4, min_isr=2)
    one.create("a", replicas=["2,3,4"])
    two.change_isr(two, three)
    two.change_isr(two)
    one.fence(two)
    assert one.elect(-1) == "OK"
    assert (one.partition().leader, one.partition().isr, one.partition().elr) == (-1, (2,), (3,))
    return [one, two, three, four]


@pytest.mark.parametrize(("more", "elr"), [({"keeps_elr_without_leader": True}, (3,)), ({}, ())])
def test_reassignment_without_a_leader_keeps_the_elr_unless_the_call_is_of_an_earlier_version(backend, more, elr):
    one, two, three, _four = _without_leader(backend)
    assert one.reassign("3,2,4", **more) == "OK"
    assert (one.partition().leader, one.partition().isr, one.partition().elr) == (-1, (2,), elr)
    two.restart("boot-2", one, lossy=True)
    assert one.elect(3) == ("OK" if elr else "INELIGIBLE_REPLICA")
    if elr:
        # the leader's own minimum counts again; 2 has lost something
        assert (one.partition().isr, one.partition().elr) == ((3,), ())
        assert three.change_isr(three)["code"] == "OK"


@pytest.mark.parametrize(("more", "elr"), [({"keeps_elr_without_leader": True}, (3,)), ({}, ())])
def test_member_that_leaves_the_isr_without_a_leader_stays_eligible(backend, more, elr):
    one, two, three, _four = brokers(backend, 4, min_isr=2)
    one.create("a", replicas=["2,3,4"])
    two.change_isr(two, three)
    for each in (two, three):
        one.fence(each)
    assert one.elect(-1) == "OK"
    item = {"topic_id": topic_id_of("a"), "partition": 0, "lost": False, **more}
    assert three("leave_isr", partitions=[item]).value["codes"] == ["OK"]
    assert (one.partition().isr, one.partition().elr) == ((2,), elr)


@pytest.mark.parametrize(("more", "elr"), [({"keeps_elr_without_leader": True}, (3,)), ({}, ())])
@pytest.mark.parametrize(("kind", "name"), [("topic", "a"), ("broker", "")])
def test_change_of_min_isr_without_a_leader_leaves_the_elr_to_the_next_election(backend, kind, name, more, elr):
    one, two, _three, _four = _without_leader(backend)
    before = one.partition().partition_epoch
    changes = [["min.insync.replicas", "1"]]
    change = {"resource_type": kind, "resource_name": name, "changes": changes, "replace": False, **more}
    assert one("alter_configs", **change).code == "OK"
    assert (one.partition().elr, one.partition().partition_epoch) == (elr, before + 1)
    two.restart("boot-2", one)
    assert one.elect(2) == "OK"
    assert (one.partition().isr, one.partition().elr) == ((2,), ())
