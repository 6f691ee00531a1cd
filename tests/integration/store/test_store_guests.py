"""Brokers that are no YAK brokers: listed and changed, repeated and refused, and never in the way."""

from support.stores import Caller, brokers, kinds

PLACE = {"host": "h", "port": 9092, "rack": None, "security_protocol": "PLAINTEXT"}


def invite(caller, node_id=9, boot="u1", *, guests_max=1000, **more):
    return caller("register_guest", target_id=node_id, boot_id=boot, guests_max=guests_max, **(PLACE | more))


def change(caller, epoch, node_id=9, *, state="ACTIVE", nonce="n1", **more):
    target = {"target_id": node_id, "target_epoch": epoch, "state": state, "nonce": nonce}
    return caller("change_guest", **target, **(PLACE | more))


def guest(caller, node_id=9):
    found = caller.catch_up().image.external_brokers[node_id]
    return found.broker_epoch, found.state.value, found.host, found.boot_id


def test_a_guest_is_listed_changed_and_closed_and_its_epoch_counts_up(one, backend):
    assert invite(one).value == {"broker_epoch": 1, "created": True}
    assert guest(one) == (1, "ACTIVE", "h", "u1")
    assert change(one, 1, host="g").value == {"broker_epoch": 2}
    assert guest(one) == (2, "ACTIVE", "g", "u1")
    assert change(one, 2, state="CLOSED", host="g", nonce="n2").value == {"broker_epoch": 3}
    assert guest(one) == (3, "CLOSED", "g", "u1")
    assert kinds(backend)[-3:] == ["RegisterBroker", "BrokerChange", "BrokerChange"]
    assert invite(one, boot="u2").value == {"broker_epoch": 4, "created": True}
    assert guest(one) == (4, "ACTIVE", "h", "u2")
    assert 9 not in one.image.brokers


def test_a_repeat_changes_nothing(one, backend):
    invite(one)
    assert invite(one).value == {"broker_epoch": 1, "created": False}
    assert change(one, 1, host="g").code == "OK"
    assert change(one, 1, host="g").value == {"broker_epoch": 2}
    assert change(one, 1, host="g", nonce="other").code == "STALE_EPOCH"
    assert kinds(backend).count("BrokerChange") == 2, "one let broker 1 in, one is of the guest"


def test_a_registration_that_was_closed_does_not_come_back_late(one, backend):
    invite(one)
    change(one, 1, state="CLOSED")
    before = kinds(backend)
    assert invite(one).code == "GUEST_EXISTS"
    assert kinds(backend) == before


def test_an_id_is_taken_by_a_guest_that_is_there_and_by_a_broker_that_is_or_was(backend):
    one, two = brokers(backend, 2)
    invite(one)
    assert invite(one, boot="u2").code == "GUEST_EXISTS"
    assert invite(one, host="elsewhere").code == "GUEST_EXISTS"
    assert invite(one, node_id=2).code == "BROKER_ID_TAKEN"
    assert one.fence(two).code == "OK"
    assert one("unregister", target_id=2).code == "OK"
    assert invite(one, node_id=2).code == "BROKER_ID_TAKEN"
    former = one.catch_up().image.former[2]
    assert (former.host, former.state.value) == ("localhost", "CLOSED")


def test_a_broker_that_boots_takes_its_id_from_a_guest(one):
    invite(one, node_id=2)
    two = Caller(one.backend, 2).join(active=False)
    assert 2 not in one.catch_up().image.external_brokers
    assert one.image.brokers[2].broker_epoch == two.who["broker_epoch"]
    assert invite(one, node_id=2).code == "BROKER_ID_TAKEN"
    assert change(one, 1, node_id=2).code == "NO_BROKER"


def test_a_guest_gets_no_partition_and_nobody_is_fenced_for_it(one):
    invite(one)
    assert one.create("a", replicas=["9"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["1,9"]).code == "INELIGIBLE_BROKER"
    assert one.create("a", replicas=["1"]).code == "OK"
    assert one.reassign("1,9") != "OK"
    assert one("unfence", target_id=9, target_epoch=1).code == "STALE_EPOCH"
    assert one("fence", target_id=9, target_epoch=1).code == "STALE_EPOCH"
    assert one("unregister", target_id=9).code == "NO_BROKER"


def test_the_guest_that_was_closed_first_makes_room(one):
    for number in (7, 8, 9):
        assert invite(one, node_id=number, guests_max=3).code == "OK"
    assert invite(one, node_id=10, guests_max=3).code == "TOO_MANY_GUESTS"
    change(one, 1, node_id=9, state="CLOSED")
    change(one, 1, node_id=8, state="CLOSED")
    assert invite(one, node_id=10, guests_max=3).code == "OK"
    assert sorted(one.catch_up().image.external_brokers) == [7, 8, 10]
    assert invite(one, node_id=8, boot="u2", guests_max=3).code == "OK", "one that comes back needs no room"


def test_who_asks_must_be_a_broker_in_its_present_boot(one):
    one.who["broker_epoch"] += 1
    assert invite(one).code == "STALE_BROKER_EPOCH"
    assert change(one, 1).code == "STALE_BROKER_EPOCH"
