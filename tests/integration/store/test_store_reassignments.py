from support.stores import Caller, brokers, kinds


def shape(one: Caller):
    """Replicas, adding, removing, ISR and leader of the partition."""
    p = one.partition()
    return p.replicas, p.adding_replicas, p.removing_replicas, p.isr, p.leader


def test_a_reassignment_adds_then_waits_and_is_completed_by_the_isr(backend):
    one, two, three, four = brokers(backend, 4)
    one.create("a", replicas=["1,2"])
    before = one.partition()
    assert four.reassign("3,1") == "OK"
    assert shape(one) == ((3, 1, 2), (3,), (2,), (1, 2), 1)
    assert one.partition().partition_epoch == before.partition_epoch + 1
    assert one.partition().leader_epoch == before.leader_epoch
    done = one.change_isr(one, two, three)
    assert (done["replicas"], done["adding"], done["removing"]) == ("3,1", "", "")
    assert shape(one) == ((3, 1), (), (), (1, 3), 1)
    # One that goes is not to be heard again from before, should it come back.
    assert one.partition().leader_epoch == before.leader_epoch + 1


def test_the_leaders_epoch_moves_on_only_when_a_replica_goes_or_another_leads(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2"])
    assert one.reassign("2,1") == "OK"
    assert one.partition().leader_epoch == 0
    assert one.reassign("1,2,3") == "OK"
    one.change_isr(one, two, three)
    assert (one.partition().replicas, one.partition().leader_epoch) == ((1, 2, 3), 0)
    assert one.reassign("1,2") == "OK"
    assert (one.partition().replicas, one.partition().leader_epoch) == ((1, 2), 1)
    assert one.reassign("1,2,3") == "OK"
    assert one.reassign(None) == "OK"
    assert (one.partition().replicas, one.partition().leader_epoch) == ((1, 2), 2)


def test_a_leader_that_is_to_go_hands_over_when_its_reassignment_is_complete(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1"])
    assert one.reassign("2,3") == "OK"
    assert one.change_isr(one, three)["leader"] == 1
    item = one.isr_item(one, two, three, nonce="last")
    done = one("alter_isr", partitions=[item]).value["results"][0]
    assert (done["code"], done["leader"], done["leader_epoch"]) == ("OK", 2, 1)
    assert shape(one) == ((2, 3), (), (), (2, 3), 2)
    # The answer may have got lost: the old leader asks again and is told the same.
    assert one("alter_isr", partitions=[item]).value["results"][0] == done


def test_a_stopping_target_counts_but_does_not_get_the_lead(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1"])
    one.reassign("2,3")
    one.change_isr(one, two)
    two("begin_stop", state="STOPPING")
    one.change_isr(one, two, three)
    assert shape(one) == ((2, 3), (), (), (2, 3), 3)


def test_reassignment_is_not_completed_while_no_target_replica_can_lead(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    two("begin_stop", state="STOPPING")
    assert one.reassign("2") == "OK"
    assert shape(one) == ((2, 1), (), (1,), (1, 2), 1)
    one.change_isr(one, two)
    assert shape(one) == ((2, 1), (), (1,), (1, 2), 1)


def test_removing_only_is_done_at_once_when_those_that_stay_are_in_sync(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"], configs={"min.insync.replicas": "2"})
    assert one.reassign("2,3") == "OK"
    assert shape(one) == ((2, 3), (), (), (2, 3), 2)
    two.change_isr(two)
    assert one.partition().elr == (3,)
    assert three.reassign("2") == "OK"
    assert shape(one) == ((2,), (), (), (2,), 2)
    assert one.partition().elr == ()


def test_removing_waits_while_one_that_stays_is_behind(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"])
    one.change_isr(one, three)
    assert one.reassign("1,2") == "OK"
    assert shape(one) == ((1, 2, 3), (), (3,), (1, 3), 1)
    one.change_isr(one, two, three)
    assert shape(one) == ((1, 2), (), (), (1, 2), 1)


def test_a_target_that_is_fenced_is_not_counted_as_in_sync(backend):
    one, _two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2,3"])
    one.fence(three)
    assert one.reassign("2,3") == "OK"
    assert shape(one) == ((2, 3, 1), (), (1,), (1, 2, 3), 1)


def test_another_order_is_taken_at_once(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1,2"])
    one.fence(two)
    assert one.reassign("2,1") == "OK"
    assert shape(one) == ((2, 1), (), (), (1, 2), 1)
    before = kinds(backend)
    assert one.reassign("2,1") == "OK"
    assert kinds(backend) == before


def test_cancelling_goes_back_to_the_replicas_of_before(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["1,2"])
    assert one.reassign(None) == "NO_REASSIGNMENT"
    one.reassign("2,3")
    one.fence(two)
    one.change_isr(one, three)
    assert one.reassign(None) == "OK"
    assert shape(one) == ((2, 1), (), (), (1,), 1)
    assert one.reassign(None) == "NO_REASSIGNMENT"


def test_cancelling_moves_the_lead_from_a_replica_that_goes(backend):
    one, two, three, four = brokers(backend, 4)
    one.create("a", replicas=["1,2"])
    one.reassign("3,4")
    one.change_isr(one, two, three)
    assert one.elect(3) == "OK"
    before = one.partition()
    assert four.reassign(None) == "OK"
    assert shape(one) == ((1, 2), (), (), (1, 2), 1)
    assert one.partition().leader_epoch == before.leader_epoch + 1


def test_cancelling_is_refused_when_only_a_replica_that_goes_has_everything(backend):
    one, two, three = brokers(backend, 3)
    one.create("a", replicas=["2"], configs={"min.insync.replicas": "1"})
    one.reassign("1,3")
    two.change_isr(two, three)
    one.fence(two)
    assert one.elect(3) == "OK"
    assert shape(one)[3:] == ((3,), 3)
    assert one.reassign(None) == "INELIGIBLE_REPLICA"
    assert one.reassign("1") == "INELIGIBLE_REPLICA"
    assert shape(one)[3:] == ((3,), 3)


def test_another_target_replaces_the_one_under_way(backend):
    one, two, _three, four = brokers(backend, 4)
    one.create("a", replicas=["1,2"])
    one.reassign("1,3")
    assert one.reassign("1,4") == "OK"
    assert shape(one) == ((1, 4, 2), (4,), (2,), (1, 2), 1)
    one.change_isr(one, two, four)
    assert shape(one) == ((1, 4), (), (), (1, 4), 1)


def test_the_lead_moves_when_its_replica_is_not_of_the_next_target(backend):
    one, two, three, _four = brokers(backend, 4)
    one.create("a", replicas=["1,2"])
    one.reassign("3,4")
    one.change_isr(one, two, three)
    assert one.elect(3) == "OK"
    before = one.partition()
    assert one.reassign("2,4") == "OK"
    assert shape(one) == ((2, 4, 1), (4,), (1,), (1, 2), 2)
    assert one.partition().leader_epoch == before.leader_epoch + 1
    assert three.change_isr(three)["code"] == "FENCED_LEADER_EPOCH"


def test_invalid_reassignments_are_reported_for_each_partition(backend):
    one, two = brokers(backend, 2)
    one.create("a", replicas=["1"])
    assert one.reassign("1,9") == "INELIGIBLE_BROKER"
    assert one.reassign("1,1") == "INELIGIBLE_BROKER"
    assert one.reassign("") == "INELIGIBLE_BROKER"
    assert one.reassign("2", partition_epoch=5) == "INVALID_UPDATE_VERSION"
    assert one.reassign("2", partition=9) == "NO_TOPIC"
    assert one("alter_replicas", partitions=[]).code == "BAD_REQUEST"
    assert shape(one) == ((1,), (), (), (1,), 1)
    two.who["broker_epoch"] = 1
    assert two("alter_replicas", partitions=[]).code == "STALE_BROKER_EPOCH"


def test_completed_reassignment_is_recognized_when_requested_again(backend):
    one, _two = brokers(backend, 2)
    one.create("a", replicas=["1"])
    assert one.reassign("1,2", partition_epoch=0) == "OK"
    before = kinds(backend)
    assert one.reassign("1,2", partition_epoch=0) == "OK"
    assert one.reassign("2", partition_epoch=0) == "INVALID_UPDATE_VERSION"
    assert kinds(backend) == before


def test_a_change_of_the_isr_under_way_fails_after_a_reassignment(backend):
    one, two, _three = brokers(backend, 3)
    one.create("a", replicas=["1,2"])
    item = one.isr_item(one)
    two.reassign("1,2,3")
    assert one("alter_isr", partitions=[item]).value["results"][0]["code"] == "INVALID_UPDATE_VERSION"
    assert one.change_isr(one)["code"] == "OK"
