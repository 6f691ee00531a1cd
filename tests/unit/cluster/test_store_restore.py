"""Broker lifecycles and a store that lost its history: they offer their images, an operator restores, and they go on."""

import json
import uuid

import pytest

from tests.unit.cluster.conftest import Driver, identity
from yak.cluster.broker_lifecycle import LifecycleState
from yak.cluster.restore import JUMP, StoreBefore, plan_restore, unpack
from yak.cluster.snapshot import write_snapshot
from yak.cluster.topic_changes import NewTopic, plan_create_topic, plan_unregister_broker
from yak.metadata_store.restore import offers_digest
from yak.ports.metadata_store import StoreRequest
from yak.sim.store import SimStore

ACTIVE, FROZEN = LifecycleState.ACTIVE, LifecycleState.FROZEN


@pytest.fixture
def three(store):
    """Three active brokers with one topic each of them knows."""
    drivers = [Driver(store, identity(node_id)) for node_id in (1, 2, 3)]
    for driver in drivers:
        driver.connect()
    settle(drivers, 3_000)
    create(drivers, "a")
    return drivers


def settle(drivers, ms, step_ms=100):
    for _ in range(0, ms, step_ms):
        for driver in drivers:
            driver.pass_time(step_ms)


def create(drivers, name):
    image = drivers[0].image
    topic = NewTopic(name, 1, len(image.active_brokers()))
    done = drivers[0].change(plan_create_topic(image, topic, uuid.uuid5(uuid.NAMESPACE_DNS, name)).requests)
    assert done.error is None, done
    settle(drivers, 200)


def states(drivers):
    return [driver.lifecycle.state for driver in drivers]


def said(drivers):
    return {say.event for driver in drivers for say in driver.said}


def planned(store, incarnation_id="by-hand"):
    state = store.state
    brokers = {node_id: (broker["broker_epoch"], broker["boot_id"]) for node_id, broker in state.brokers.items()}
    before = StoreBefore(state.cluster["mo"], state.cluster["incarnation"], brokers)
    offers = [unpack(packed) for packed in state.offers.values()]
    return plan_restore(offers, before, incarnation_id=incarnation_id, now_ms=7)


def restore_by_hand(store, *, accept_loss=False, incarnation_id="by-hand"):
    """As `yak cluster restore` does it."""
    plan = planned(store, incarnation_id)
    assert plan.is_safe or accept_loss, plan.unknown
    request = StoreRequest("seed_commit", {"node_id": -1} | plan.arguments(offers_digest(store.state.offers)))
    assert store.call(request, 7).code == "OK"
    return plan


@pytest.mark.parametrize("how", ["emptied", "rolled back", "rolled back far"])
def test_store_that_lost_its_history_is_frozen_until_operator_restores_it(store, three, how):
    before = three[0].image
    if how == "emptied":
        store.flush_all()
    else:
        store.lose_last(2 if how == "rolled back" else 9)
    settle(three, 30_000)
    assert states(three) == [FROZEN] * 3
    assert "yak cluster restore" in three[0].lifecycle.reason
    restore_by_hand(store)
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3
    assert {"metadata-restore-offered", "metadata-restore-adopted"} <= said(three)
    assert "metadata-restore-unclean" not in said(three)
    after = three[0].image
    assert all(driver.image == after for driver in three)
    assert after.incarnation == before.incarnation + 1
    assert after.incarnation_id == "by-hand"
    assert after.offset > before.offset + JUMP
    assert all(after.brokers[n].broker_epoch > before.offset + JUMP for n in (1, 2, 3))
    old, new = before.topics["a"].partitions[0], after.topics["a"].partitions[0]
    assert new.leader_epoch > old.leader_epoch
    assert new.leader in (1, 2, 3)
    create(three, "b")
    assert all("b" in driver.image.topics for driver in three)


def test_frozen_broker_offers_once(store, three):
    store.flush_all()
    settle(three, 30_000)
    assert sorted(store.state.offers) == [1, 2, 3]
    assert [driver.scripts.count("seed_offer") for driver in three] == [1, 1, 1]


def test_all_brokers_adopt_a_restored_history_at_once(store, three):
    """Those that have it wait for the others before they acknowledge a record."""
    store.flush_all()
    settle(three, 4_000)
    restore_by_hand(store)
    settle(three, 500)
    assert [driver.image.incarnation_id for driver in three] == ["by-hand"] * 3


def test_restore_without_a_broker_is_unsafe_until_it_answers(store, three):
    three[2].lose()
    store.flush_all()
    settle(three[:2], 5_000)
    assert planned(store).unknown == {3: "it did not answer"}
    three[2].connect().run()
    settle(three, 5_000)
    restore_by_hand(store)
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3


def test_restore_with_only_a_broker_that_left_in_order_missing_is_unsafe(store, three):
    three[2].take(three[2].lifecycle.leave(three[2].now_ms))
    settle(three, 3_000)
    assert three[2].left
    store.flush_all()
    settle(three[:2], 5_000)
    assert list(planned(store).unknown) == [3]


def forked(store, three):
    """Brokers 1 and 2 know topic b, which the store forgot; broker 3 went on without it."""
    three[2].lose()
    create(three[:2], "b")
    for driver in three[:2]:
        driver.lose()
    store.lose_last(2)
    three[2].connect().run()
    settle(three[2:], 15_000)
    assert states(three[2:]) == [ACTIVE]
    three[0].connect().run()
    settle([three[0], three[2]], 4_000)
    assert states([three[0], three[2]]) == [FROZEN] * 2


def test_restore_of_two_histories_is_unsafe(store, three):
    forked(store, three)
    three[1].connect().run()
    settle(three, 4_000)
    plan = planned(store)
    assert not plan.is_safe
    assert all("not known to be the beginning" in words for words in plan.unknown.values())


def test_aborted_restore_lets_the_brokers_of_the_store_continue(store, three):
    forked(store, three)
    three[0].lose()
    request = StoreRequest("seed_abort", {"node_id": -1, "offers_digest": offers_digest(store.state.offers)})
    assert store.call(request, 7).code == "OK"
    settle(three[2:], 8_000)
    assert states(three[2:]) == [ACTIVE]


def test_data_of_the_store_that_come_back_count(store, three):
    saved = store.saved()
    store.flush_all()
    settle(three, 3_000)
    assert states(three) == [FROZEN] * 3
    store.bring_back(saved)
    settle(three, 10_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == 1


def test_broker_that_restarts_while_the_store_is_empty_takes_part(store, three):
    store.flush_all()
    settle(three, 1_000)
    again = Driver(store, identity(3, boot="boot-2"), image=three[2].image)
    again.now_ms = three[0].now_ms
    again.connect().run()
    drivers = [*three[:2], again]
    settle(drivers, 4_000)
    restore_by_hand(store)
    settle(drivers, 9_000)
    assert states(drivers) == [ACTIVE] * 3
    create(drivers, "b")


def test_broker_that_comes_after_an_accepted_loss_joins_with_a_new_epoch(store, three):
    late = three[2]
    late.lose()
    store.flush_all()
    settle(three[:2], 2_000)
    plan = restore_by_hand(store, accept_loss=True)
    assert plan.at_risk == (("a", 0),)
    settle(three[:2], 8_000)
    assert states(three[:2]) == [ACTIVE, ACTIVE]
    assert "metadata-restore-unclean" in said(three[:1])
    epoch = late.lifecycle.broker_epoch
    late.connect().run()
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3
    assert late.lifecycle.broker_epoch > epoch
    assert three[0].image.incarnation == late.image.incarnation == 2


def test_broker_that_went_on_elsewhere_after_its_offer_does_not_join(store, three):
    late, other = three[2], SimStore()
    other.state, other._journal = store.saved()
    store.flush_all()
    settle(three, 4_000)
    late.lose()
    restore_by_hand(store)
    late.store = other
    late.connect().run()
    settle([late], 12_000)
    assert states([late]) == [ACTIVE]
    late.lose()
    late.store = store
    late.connect().run()
    settle([late], 3_000)
    assert states([late]) == [FROZEN]
    assert "continued in another history" in late.lifecycle.reason


def test_broker_whose_connection_is_lost_while_it_writes_the_snapshot_joins(store, three):
    store.flush_all()
    settle(three, 4_000)
    restore_by_hand(store)
    slow = three[2]
    slow.take(slow.lifecycle.on_time(slow.now_ms + 3_000))
    slow.now_ms += 3_000
    slow.answer_one()
    assert "metadata-restore-adopted" in said([slow])
    good, outputs = slow.lifecycle.admit(store.records_after(slow.tail_after), slow.now_ms)
    slow.take(outputs)
    slow.lose()
    slow.connect().run()
    assert states([slow]) == [FROZEN]
    slow.image, _delta = slow.image.apply_all(good)
    slow.take(slow.lifecycle.on_image(slow.image, slow.now_ms))
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3


def test_store_that_goes_back_to_before_a_restore_is_restored_again(store, three):
    saved = store.saved()
    store.flush_all()
    settle(three, 4_000)
    restore_by_hand(store)
    settle(three, 8_000)
    assert three[0].image.incarnation == 2
    store.bring_back(saved)
    settle(three, 4_000)
    assert states(three) == [FROZEN] * 3
    restore_by_hand(store, incarnation_id="again")
    settle(three, 8_000)
    assert states(three) == [ACTIVE] * 3
    assert three[0].image.incarnation == 3


def trim(store, drivers):
    """The controller, which is the first, writes a snapshot, and keeps no record that no broker needs."""
    settle(drivers, 3_000)
    driver = drivers[0]
    image, state = driver.image, store.state
    who = {"node_id": 1, "broker_epoch": driver.lifecycle.broker_epoch, "controller_epoch": state.cluster["ctl_epoch"]}
    snapshot = {"snapshot": json.dumps(write_snapshot(image).payload), "keep": 0}
    snapshot |= {"snapshot_offset": image.offset, "snapshot_hash": image.chain_hash}
    assert store.call(StoreRequest("trim", who | snapshot), driver.now_ms).value["trimmed"]


def close(driver):
    driver.take(driver.lifecycle.leave(driver.now_ms))
    driver.run()
    assert driver.left


def restarted(store, driver, **more):
    again = Driver(store, identity(driver.image.brokers[3].node_id, boot="boot-2", **more), driver.image)
    again.now_ms = driver.now_ms
    return again.connect().run()


def test_broker_that_was_closed_while_the_store_trimmed_its_position_joins_as_the_member_that_it_was(store, three):
    one, two, three_ = three
    close(three_)
    settle([one, two], 500)
    create([one, two], "b")
    trim(store, [one, two])
    again = restarted(store, three_)
    settle([one, two, again], 3_000)
    assert again.lifecycle.state is ACTIVE
    assert set(again.image.topics) == {"a", "b"}
    assert not store.state.brokers[3]["lossy"]
    assert not [say.event for say in again.said if say.level in ("warning", "error")]


def test_trimmed_again_before_the_snapshot_is_on_disk_joins_all_the_same(store, three):
    one, two, three_ = three
    close(three_)
    settle([one, two], 500)
    create([one, two], "b")
    trim(store, [one, two])
    again = Driver(store, identity(3, boot="boot-2"), three_.image)
    again.now_ms = three_.now_ms
    again.connect()
    again.answer_one()
    again.pump_tail()
    again.lose()
    create([one, two], "c")
    trim(store, [one, two])
    again.connect().run()
    settle([one, two, again], 3_000)
    assert again.lifecycle.state is ACTIVE
    assert set(again.image.topics) == {"a", "b", "c"}
    assert not store.state.brokers[3]["lossy"]


def test_broker_closed_before_its_registration_was_on_disk_joins_after_a_trim(store, three):
    one, two, three_ = three
    close(three_)
    settle([one, two], 500)
    for boot in ("boot-3", "boot-4"):
        short = Driver(store, identity(3, boot=boot), three_.image)
        short.now_ms = one.now_ms
        short.connect()
        while "register" not in short.scripts:
            short.answer_one()
        close(short)
        settle([one, two], 500)
    create([one, two], "b")
    trim(store, [one, two])
    again = restarted(store, three_)
    settle([one, two, again], 3_000)
    assert again.lifecycle.state is ACTIVE
    assert not store.state.brokers[3]["lossy"]


@pytest.mark.parametrize("how", ["another registration", "unregistered"])
def test_broker_whose_last_registration_the_trimmed_store_does_not_know_as_closed_is_frozen(store, three, how):
    """Its history may be another one, or its disk older than what it acknowledged: an operator decides."""
    one, two, three_ = three
    old = three_.image
    close(three_)
    if how == "another registration":
        settle([one, two], 500)
        newer = Driver(store, identity(3, boot="boot-3"), three_.image)
        newer.now_ms = one.now_ms
        newer.connect().run()
        settle([one, two, newer], 3_000)
        assert newer.lifecycle.state is ACTIVE
        close(newer)
    else:
        settle([one, two], 500)
        assert one.change(plan_unregister_broker(one.image, 3)).error is None
    settle([one, two], 500)
    create([one, two], "b")
    trim(store, [one, two])
    three_.image = old
    again = restarted(store, three_)
    settle([one, two, again], 3_000)
    assert again.lifecycle.state is FROZEN
    assert "no longer has record" in again.lifecycle.reason
    assert set(again.image.topics) == {"a"}


def test_unregistered_broker_is_not_waited_for_and_stays_unregistered(store, three):
    three[2].lose()
    settle(three[:2], 10_000)
    assert three[0].change(plan_unregister_broker(three[0].image, 3)).error is None
    settle(three[:2], 200)
    store.flush_all()
    settle(three[:2], 4_000)
    restore_by_hand(store)
    settle(three[:2], 8_000)
    assert states(three[:2]) == [ACTIVE] * 2
    assert three[0].image.unregistered.keys() == three[0].image.former.keys() == {3}
    assert store.state.unregistered == {3: True}
