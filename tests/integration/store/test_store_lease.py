import pytest
from support.stores import Caller, brokers, kinds


def test_heartbeat_answer_to_the_controller_has_the_counters_of_all_brokers(backend):
    one, other = brokers(backend, 2)
    value = other("heartbeat", persisted=3).value
    assert (value["state"], value["controller_id"], value["controller_epoch"]) == ("ACTIVE", 1, 1)
    assert "heartbeats" not in value
    mine = one("heartbeat", persisted=3).value
    assert mine["heartbeats"] == {"1": 2, "2": 2}
    assert mine["lease_n"] == 2


@pytest.mark.parametrize("way", ["has room again", "closed", "unregistered"])
def test_heartbeat_answers_with_the_full_brokers_until_these_have_room_or_left(backend, way):
    one, two, three = brokers(backend, 3)
    assert "full" not in one("heartbeat", persisted=3, is_full=False).value
    for caller in (three, two):
        caller("heartbeat", persisted=3, is_full=True)
    assert one("heartbeat", persisted=3, is_full=False).value["full"] == [2, 3]
    one.fence(three)
    assert two("heartbeat", persisted=3, is_full=False).value["full"] == [3]
    if way == "has room again":
        assert "full" not in three("heartbeat", persisted=3, is_full=False).value
    elif way == "closed":
        assert three("begin_stop", state="CLOSED").code == "OK"
    else:
        assert one("unregister", target_id=3).code == "OK"
    assert "full" not in one("heartbeat", persisted=3, is_full=False).value


def test_a_closed_broker_frees_its_node_id_and_its_lease(one, backend):
    assert one("begin_stop", state="CLOSED").code == "OK"
    assert one("heartbeat", persisted=1).code == "STALE_BROKER_EPOCH"
    other = Caller(backend, 2).join()
    assert other.controller_epoch == 2
    again = Caller(backend)
    again.who |= one.who
    assert again.register("boot-2", "elsewhere").code == "OK"


def test_a_new_boot_takes_the_lease_of_its_dead_one_at_once(one):
    one.register("boot-2")
    assert one("acquire_lease").value == {"controller_epoch": 2}


def claim(caller: Caller, renewals: int | None = None, *, epoch: int = 1, fast: bool = False):
    return caller("acquire_lease", claimed_epoch=epoch, claimed_renewals=renewals, fast=fast)


def test_only_heartbeats_of_the_controller_in_its_controller_epoch_renew_the_lease(backend):
    one, two = brokers(backend, 2)
    start = one.beat().value["lease_n"]
    assert one.beat().value["lease_n"] == start + 1
    assert two.beat().value["lease_n"] == start + 1
    # A holder that does not know that it is one does not renew.
    one.controller_epoch = 0
    told = one.beat().value
    assert told["lease_n"] == start + 1
    assert "heartbeats" in told


def test_controller_lease_is_refused_to_a_broker_with_no_claim_or_a_wrong_claim(backend):
    one, two = brokers(backend, 2)
    renewals = one.beat().value["lease_n"]
    held = two("acquire_lease")
    assert held.code == "LEASE_HELD"
    assert held.value == {"controller_id": 1, "controller_epoch": 1, "lease_n": renewals}
    assert claim(two, renewals - 1).value == held.value
    assert claim(two, renewals, epoch=2).code == "LEASE_HELD"
    assert claim(two).code == "LEASE_HELD"
    before = kinds(backend)
    assert one("acquire_lease").value == {"controller_epoch": 1}
    assert kinds(backend) == before


def test_a_lease_that_stood_still_is_taken_and_its_holder_fenced_first(backend):
    one, two = brokers(backend, 2)
    renewals = one.beat().value["lease_n"]
    assert claim(two, renewals).value == {"controller_epoch": 2}
    assert kinds(backend)[-2:] == ["BrokerChange", "ControllerChange"]
    image = two.catch_up().image
    assert (image.controller_id, image.controller_epoch) == (2, 2)
    assert image.brokers[1].state == "FENCED"
    assert one.fence(two).code == "FENCED_CONTROLLER"
    # Repeated, or arriving late after another took the office, it changes nothing.
    before = kinds(backend)
    assert claim(two, renewals).value == {"controller_epoch": 2}
    assert claim(one, renewals).code == "LEASE_HELD"
    assert kinds(backend) == before


def test_a_heartbeat_in_between_makes_the_claim_fail(backend):
    one, two = brokers(backend, 2)
    renewals = one.beat().value["lease_n"]
    one.beat()
    assert claim(two, renewals).code == "LEASE_HELD"
    assert two.catch_up().image.brokers[1].state == "ACTIVE"


def test_a_fenced_broker_may_claim_a_lease_that_stood_still_but_not_on_suspicion(backend):
    one, two, three = brokers(backend, 3)
    one.fence(two)
    renewals = one.beat().value["lease_n"]
    assert claim(two, fast=True).code == "LEASE_HELD"
    assert claim(three, fast=True).code == "OK"
    assert claim(two, renewals, epoch=2).code == "OK"


def test_a_dead_controller_is_replaced_on_suspicion_within_the_limit(backend):
    _one, two, three = brokers(backend, 3)
    assert claim(two, fast=True).value == {"controller_epoch": 2}
    assert two.catch_up().image.brokers[1].state == "FENCED"
    assert claim(three, epoch=2, fast=True).code == "LEASE_HELD"
    backend.pass_time(20_000)
    assert claim(three, epoch=2, fast=True).value == {"controller_epoch": 3}


def test_a_holder_that_closed_or_was_unregistered_has_no_hold(backend):
    one, two, three = brokers(backend, 3)
    one("begin_stop", state="CLOSED")
    assert two.take_office() == 2
    two("begin_stop", state="CLOSED")
    three("unregister", target_id=2)
    assert three.take_office() == 3


def test_fenced_controller_holds_the_lease_until_renewals_stop(backend):
    one, two = brokers(backend, 2)
    renewals = one.beat().value["lease_n"]
    one.fence(one)
    assert two("acquire_lease").code == "LEASE_HELD"
    before = kinds(backend)
    assert claim(two, renewals).code == "OK"
    assert kinds(backend) == [*before, "ControllerChange"]


def test_stopping_controller_holds_the_lease_until_renewals_stop(backend):
    one, two = brokers(backend, 2)
    one("begin_stop", state="STOPPING")
    assert two("acquire_lease").code == "LEASE_HELD"
    assert claim(two, one.beat().value["lease_n"]).code == "OK"
    assert two.catch_up().image.brokers[1].state == "FENCED"


def test_a_leader_role_broker_relieves_a_follower_role_controller_without_fencing_it(backend):
    one, two, three = brokers(backend, 3, role="follower")
    two.take_office(claimed_epoch=1, fast=True)
    one.beat()
    assert two.unfence(one).code == "OK"
    assert three("acquire_lease").code == "LEASE_HELD"
    assert one("acquire_lease").code == "OK"
    assert three.catch_up().image.controller_id == 1
    assert three.image.brokers[2].state == "ACTIVE"


def test_leader_role_broker_that_is_not_active_replaces_no_controller(backend):
    _one, two = brokers(backend, 2, role="follower")
    two.take_office(claimed_epoch=1, fast=True)
    late = Caller(backend, 3).join(active=False)
    assert late("acquire_lease").code == "LEASE_HELD"
