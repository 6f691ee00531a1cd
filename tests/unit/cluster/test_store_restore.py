"""Memberships that bring a store back which lost its history: who offers, who waits, who merges, and what comes of it."""

import uuid

import pytest

from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.restore import JUMP, merge
from yak.cluster.restore_commit import commit_arguments
from yak.cluster.restore_offer import unpack
from yak.cluster.restore_status import SeedStatus
from yak.cluster.store_restore import store_before
from yak.cluster.topic_changes import NewTopic, plan_create_topic, plan_unregister_broker
from yak.ports.metadata_store import StoreRequest
from yak.sim.store import SimStore

WAIT_MS = 7_000
"""Looks, the time an operator gets, and the calls."""


@pytest.fixture
def store():
    return SimStore()


@pytest.fixture
def three(store, make_driver, make_identity):
    """Three active brokers with one topic each of them knows."""
    drivers = [make_driver(store, make_identity(node_id)) for node_id in (1, 2, 3)]
    for driver in drivers:
        driver.connect()
    settle(drivers, 3_000)
    create(drivers, "a")
    return drivers


def settle(drivers, ms, step_ms=100):
    for _ in range(0, ms, step_ms):
        for driver in drivers:
            driver.pass_time(step_ms)


def plan_create(image, name):
    replicas = len(image.active_brokers())
    return plan_create_topic(image, NewTopic(name, 1, replicas), uuid.uuid5(uuid.NAMESPACE_DNS, name)).requests


def create(drivers, name):
    done = drivers[0].change(plan_create(drivers[0].image, name))
    assert done.error is None, done
    settle(drivers, 200)


def states(drivers):
    return [driver.lifecycle.state for driver in drivers]


def said(drivers):
    return {say.event for driver in drivers for say in driver.said}


ACTIVE, FROZEN = LifecycleState.ACTIVE, LifecycleState.FROZEN


@pytest.mark.parametrize("how", ["emptied", "rolled back", "rolled back far"])
def test_a_store_that_lost_its_history_is_restored_when_everybody_answered(store, three, how):
    before = three[0].image
    if how == "emptied":
        store.flush_all()
    else:
        store.lose_last(2 if how == "rolled back" else 9)
    settle(three, 2_000)
    assert states(three) == [FROZEN] * 3
    settle(three, WAIT_MS)
    assert states(three) == [ACTIVE] * 3
    assert {"metadata-restore-started", "metadata-restore-offered", "metadata-restore-committed"} <= said(three)
    after = three[0].image
    assert all(driver.image == after for driver in three)
    assert after.incarnation == before.incarnation + 1
    assert after.incarnation_id != before.incarnation_id
    assert after.offset > before.offset + JUMP
    assert after.topics["a"].partitions[0].leader_epoch == before.topics["a"].partitions[0].leader_epoch + 1
    create(three, "b")
    assert all("b" in driver.image.topics for driver in three)


def test_nothing_is_restored_without_a_broker_that_may_know_more(store, three):
    three[2].lose()
    store.flush_all()
    settle(three[:2], 30_000)
    assert states(three[:2]) == [FROZEN, FROZEN]
    assert "broker 3" in three[0].lifecycle.reason
    assert not store.state.log
    three[2].connect().run()
    settle(three, WAIT_MS)
    assert states(three) == [ACTIVE] * 3


def test_of_two_stores_neither_is_restored(store, three, make_identity):
    other = SimStore()
    three[2].lose()
    three[2].store = other
    three[2].connect().run()
    store.flush_all()
    settle(three, 30_000)
    assert states(three) == [FROZEN] * 3
    assert not store.state.log
    assert not other.state.log


def test_the_real_data_come_back_in_time_and_count(store, three):
    saved = store.saved()
    store.flush_all()
    settle(three, 3_000)
    assert states(three) == [FROZEN] * 3
    store.bring_back(saved)
    settle(three, 10_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == 1


def test_the_next_broker_does_it_when_the_first_dies_while_it_writes(store, three):
    store.flush_all()
    while "seed_commit" not in {call.request.script for call in three[0].calls}:
        for driver in three:
            due_ms = driver.lifecycle.next_due()
            driver.now_ms += 50
            if due_ms is not None and due_ms <= driver.now_ms:
                driver.take(driver.lifecycle.on_time(driver.now_ms))
            while driver.connected and driver.calls and driver.calls[0].request.script != "seed_commit":
                driver.answer_one()
    three[0].answer_one()
    three[0].answer_one()
    assert "token" in store.state.seed
    three[0].lose()
    settle(three[1:], 12_000)
    assert states(three[1:]) == [ACTIVE] * 2
    three[0].connect().run()
    settle(three, 5_000)
    assert states(three) == [ACTIVE] * 3
    assert "metadata-restore-adopted" in said(three[:1])


def test_a_broker_that_boots_anew_while_the_store_is_empty_takes_part(store, three, make_driver, make_identity):
    store.flush_all()
    settle(three, 1_000)
    again = make_driver(store, make_identity(3, boot="boot-2"), image=three[2].image)
    again.now_ms = three[0].now_ms
    again.connect().run()
    drivers = [*three[:2], again]
    settle(drivers, WAIT_MS + 2_000)
    assert states(drivers) == [ACTIVE] * 3
    create(drivers, "b")


def test_a_broker_that_comes_after_an_accepted_loss_joins_with_a_new_epoch(store, three):
    late = three[2]
    late.lose()
    store.flush_all()
    settle(three[:2], 2_000)
    restore_by_hand(store, three[0], accept_loss=True)
    settle(three[:2], 3_000)
    assert states(three[:2]) == [ACTIVE, ACTIVE]
    assert "metadata-restore-unclean" in said(three[:1])
    epoch = late.lifecycle.broker_epoch
    late.connect().run()
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3
    assert "metadata-restore-joined-late" in said([late])
    assert late.lifecycle.broker_epoch > epoch
    assert three[0].image.incarnation == late.image.incarnation == 2


def test_a_broker_for_which_partitions_are_held_back_brings_about_another_restore(store, three):
    three[2].lose()
    store.flush_all()
    settle(three[:2], 2_000)
    restore_by_hand(store, three[0])
    settle(three[:2], 3_000)
    assert states(three[:2]) == [ACTIVE, ACTIVE]
    assert three[0].image.topics["a"].partitions[0].quarantined == 1
    three[2].connect().run()
    settle(three, WAIT_MS + 2_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == 3
    assert three[0].image.topics["a"].partitions[0].quarantined == 0


def test_brokers_missing_from_a_second_restore_bring_about_a_third(store, three):
    """An operator restored without broker 3, then at once with broker 3 alone, while the others were slow."""
    late = three[2]
    late.lose()
    store.flush_all()
    settle(three[:2], 2_000)
    restore_by_hand(store, three[0])
    settle(three[:2], 3_000)
    assert three[0].change(plan_create(three[0].image, "b")).error is None
    settle(three[:2], 200)
    for driver in three[:2]:
        driver.lose()
    late.now_ms = three[0].now_ms
    late.connect().run()
    settle([late], 2_000)
    restore_by_hand(store, late, incarnation_id="again")
    settle([late], 3_000)
    assert late.image.incarnation == 3
    for driver in three[:2]:
        driver.now_ms = late.now_ms
        driver.connect().run()
    settle(three, WAIT_MS + 2_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == late.image.incarnation == 4
    assert three[0].image.topics["a"].partitions[0].quarantined == 0
    assert all("b" in driver.image.topics for driver in three)


def restore_by_hand(store, driver, *, incarnation_id="by-hand", **more):
    """As `yak cluster restore` does it."""

    def call(script, **arguments):
        outcome = store.call(StoreRequest(script, {"node_id": -1} | arguments), driver.now_ms)
        assert outcome.code == "OK", outcome
        return outcome.value

    status = SeedStatus.read(call("seed_status"))
    offers = [
        unpack([call("seed_read", seed_nonce=status.seed_nonce, of_node=n, chunk=c)["data"] for c in range(count)])
        for n, count in status.offers.items()
    ]
    plan = merge(offers, store_before(status), incarnation_id=incarnation_id, now_ms=driver.now_ms, **more)
    for arguments in commit_arguments(plan, status.seed_nonce, status.offers_digest, "t"):
        call("seed_commit", **arguments)


def test_a_store_that_goes_back_to_before_a_restore_is_restored_again(store, three):
    saved = store.saved()
    store.flush_all()
    settle(three, WAIT_MS + 2_000)
    assert three[0].image.incarnation == 2
    store.bring_back(saved)
    settle(three, WAIT_MS + 2_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == 3


def test_the_record_of_an_unregistered_broker_comes_back_too(store, make_driver, make_identity):
    three = [make_driver(store, make_identity(node_id)) for node_id in (1, 2, 3)]
    for driver in three:
        driver.connect()
    settle(three, 3_000)
    three[2].lose()
    settle(three[:2], 10_000)
    assert three[0].change(plan_unregister_broker(three[0].image, 3)).error is None
    settle(three[:2], 200)
    store.flush_all()
    settle(three[:2], 2_000 + WAIT_MS)
    assert states(three[:2]) == [ACTIVE] * 2
    assert three[0].image.unregistered.keys() == three[0].image.former.keys() == {3}
