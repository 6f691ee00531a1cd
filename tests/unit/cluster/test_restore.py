"""The plan of a restore, rule by rule."""

import itertools
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.cluster.hash_chain import TAIL_RECORDS, HashChainTail
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, PendingTopic, RemovedTopic, TopicInfo
from yak.cluster.payload import BadRecord, IsrMember
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.restore import JUMP, LOST_EPOCH_JUMP, Offer, StoreBefore, pack, plan_restore, unpack
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ports.metadata_store import TailedRecord

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def broker(node_id, epoch=0, state=BrokerState.ACTIVE, **more):
    epoch = epoch or 10 + node_id
    return BrokerInfo(node_id, epoch, f"boot-{epoch}", (f"d{node_id}",), "h", 1, None, "leader", state, **more)


def part(number=0, replicas=(1, 2, 3), isr=None, elr=(), leader=1, le=0, pe=0, **more):
    isr = [(n, 10 + n) for n in replicas] if isr is None else isr
    members = tuple(tuple(map(IsrMember._make, each)) for each in (isr, elr))
    return PartitionInfo(number, replicas, *members, leader, le, pe, **more)


def chain(offset):
    return f"{offset:08x}" * 5


def image(*topics, nodes=(1, 2, 3), brokers=None, offset=50, **more):
    known = {n: broker(n) for n in nodes} if brokers is None else {each.node_id: each for each in brokers}
    return Image(
        "c",
        1,
        "inc-1",
        brokers=known,
        topics={t.name: t for t in topics},
        topic_names={t.topic_id: t.name for t in topics},
        offset=offset,
        chain_hash=chain(offset),
        **more,
    )


def orders(*partitions, name="orders", topic_id=A, **configs):
    return TopicInfo(name, topic_id, partitions or (part(),), configs)


def offer(node_id, known, *, epoch=None, hash_chain=None):
    whole = HashChainTail()
    whole.extend(TailedRecord(o, chain(o), "x", 0) for o in range(1, known.offset + 1))
    epoch = 10 + node_id if epoch is None else epoch
    boot_id = f"boot-{epoch}" if epoch else "boot-new"
    return Offer(node_id, boot_id, epoch, known, whole if hash_chain is None else hash_chain)


def planned(*offers, before=StoreBefore()):  # noqa: B008
    return plan_restore(offers, before, incarnation_id="inc-2", now_ms=1)


def all_of(known):
    return [offer(n, known) for n in sorted(known.brokers)]


def test_restore_from_equal_images_is_safe_and_begins_a_new_incarnation():
    known = image(
        orders(part(elr=[(3, 13)], isr=[(1, 11), (2, 12)], le=4, pe=7)),
        next_producer_id=3000,
        controller_epoch=4,
        controller_id=2,
    )
    plan = planned(*all_of(known))
    assert plan.is_safe
    assert plan.at_risk == ()
    after = plan.image
    assert (after.incarnation, after.incarnation_id, after.parents) == (2, "inc-2", ("inc-1",))
    assert after.offset == 50 + JUMP
    assert after.next_producer_id == 3000 + JUMP
    assert (after.controller_id, after.controller_epoch) == (-1, 5)
    [partition] = after.topics["orders"].partitions
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (NO_LEADER, 5, 8)
    assert partition.isr_members == ((1, 11), (2, 12))
    assert partition.elr_members == ((3, 13),)


def test_restore_fences_all_brokers_except_closed_ones():
    states = (BrokerState.ACTIVE, BrokerState.STOPPING, BrokerState.FENCED, BrokerState.CLOSED)
    known = image(brokers=[broker(n, state=state) for n, state in enumerate(states, 1)])
    after = planned(*all_of(known)).image.brokers
    assert [after[n].state for n in (1, 2, 3, 4)] == [BrokerState.FENCED] * 3 + [BrokerState.CLOSED]
    assert [after[n].must_register_again for n in (1, 2, 3, 4)] == [True, True, False, False]
    assert [after[n].broker_epoch for n in (1, 2, 3, 4)] == [11, 12, 13, 14]


def test_newest_image_counts_in_any_order_of_offers():
    newer = image(orders(part(le=2, pe=3, leader=2)), offset=60)
    offers = [offer(1, image(orders())), offer(2, newer), offer(3, image(orders(), offset=55))]
    plans = [planned(*order) for order in itertools.permutations(offers)]
    assert all(plan == plans[0] for plan in plans)
    assert plans[0].is_safe
    assert plans[0].newest.node_id == 2
    assert plans[0].image.topics["orders"].partitions[0].leader_epoch == 3


def test_broker_that_did_not_answer_makes_the_restore_unsafe_and_epochs_jump():
    known = image(orders(part(0), part(1, replicas=(1, 2))))
    plan = planned(offer(1, known), offer(2, known))
    assert plan.unknown == {3: "it did not answer"}
    assert not plan.is_safe
    assert plan.at_risk == (("orders", 0),)
    assert {each.leader_epoch for each in plan.image.topics["orders"].partitions} == {LOST_EPOCH_JUMP}


def test_closed_broker_that_did_not_answer_makes_the_restore_unsafe():
    """It may have been started again, and have led alone."""
    known = image(orders(), brokers=[broker(1), broker(2), broker(3, state=BrokerState.CLOSED)])
    assert list(planned(offer(1, known), offer(2, known)).unknown) == [3]


def test_broker_that_only_an_old_image_or_the_store_names_makes_the_restore_unsafe():
    now, before = image(orders(), nodes=(1, 2)), image(orders(), nodes=(1, 2, 3), offset=40)
    assert list(planned(offer(1, now), offer(2, before)).unknown) == [3]
    plan = planned(offer(1, now), offer(2, now), before=StoreBefore(55, 4, {1: (11, "boot-11"), 4: (20, "x")}))
    assert list(plan.unknown) == [4]
    assert (plan.image.offset, plan.image.incarnation) == (55 + JUMP, 5)


def test_unregistered_broker_is_not_waited_for():
    now = image(orders(part(replicas=(1, 2))), nodes=(1, 2), unregistered={3: 13})
    plan = planned(offer(1, now), offer(2, image(orders(part(replicas=(1, 2))), offset=40)))
    assert plan.is_safe
    assert plan.image.unregistered == {3: 13}


def test_broker_with_a_disk_older_than_its_registration_makes_the_restore_unsafe():
    known = image(orders(), brokers=[broker(1), broker(2, 40), broker(3)])
    old = image(orders(), offset=30)
    plan = planned(offer(1, known), offer(2, old, epoch=0), offer(3, known))
    assert "registered as 40" in plan.unknown[2]
    plan = planned(*all_of(image(orders())), before=StoreBefore(55, 1, {2: (53, "boot-53")}))
    assert "registered as 53" in plan.unknown[2]


def test_other_process_with_the_same_registration_makes_the_restore_unsafe():
    """The store was rolled back, and a copy of the broker registered in it under the same epoch."""
    plan = planned(*all_of(image(orders())), before=StoreBefore(55, 1, {3: (13, "twin")}))
    assert "registered as 13 after another start" in plan.unknown[3]


def test_running_broker_whose_registration_is_not_on_its_disk_yet_answers():
    known = image(orders(), brokers=[broker(1), broker(2, 40), broker(3)])
    assert planned(offer(1, known), offer(2, image(orders(), offset=30), epoch=40), offer(3, known)).is_safe


def test_offer_from_before_a_restore_is_no_answer_of_a_broker_that_registered_after_it():
    """A store that goes back to before a restore has the offers of then."""
    old = image(orders())
    restored = plan_restore([offer(n, old) for n in (1, 2)], StoreBefore(), incarnation_id="inc-2", now_ms=7).image
    registered = replace(broker(1, epoch=restored.offset + 1), boot_id="boot-11")
    newer = replace(restored, offset=restored.offset + 1, brokers=restored.brokers | {1: registered})
    plan = plan_restore([offer(1, old), offer(2, newer), offer(3, old)], StoreBefore(), incarnation_id="x", now_ms=9)
    assert "after a later restore" in plan.unknown[1]
    again = Offer(1, "boot-11", registered.broker_epoch, newer)
    assert plan_restore([again, offer(2, newer), offer(3, old)], StoreBefore(), incarnation_id="x", now_ms=9).is_safe


def test_images_of_two_histories_make_the_restore_unsafe():
    one, two = image(orders(), offset=60), image(orders(), offset=55)
    forked = replace(two, chain_hash="ff" * 20)
    assert planned(offer(1, one), offer(2, two), offer(3, two)).is_safe
    assert "up to record 55" in planned(offer(1, one), offer(2, forked), offer(3, one)).unknown[2]
    short = HashChainTail()
    too_far_behind = planned(offer(1, one, hash_chain=short), offer(2, two), offer(3, two))
    assert list(too_far_behind.unknown) == [2, 3]
    third_has_all = planned(offer(1, one, hash_chain=short), offer(2, two), offer(3, one))
    assert third_has_all.is_safe
    rival = replace(one, incarnation_id="inc-1b")
    assert list(planned(offer(1, one), offer(2, rival), offer(3, one)).unknown) == [2]


def test_image_of_a_parent_incarnation_is_the_beginning_of_the_restored_one():
    now = replace(image(orders(), offset=60), incarnation=2, incarnation_id="inc-1b", parents=("inc-1",))
    assert planned(offer(1, now), offer(2, image(orders(), offset=70)), offer(3, now)).is_safe


def test_incomplete_topics_stay_incomplete():
    pending = {
        B: PendingTopic("half", B, 3, {0: part(0)}, {}),
        A: PendingTopic("orders", A, 3, {0: part(0), 1: part(1)}, {}),
    }
    after = planned(*all_of(image(orders(), pending=pending))).image
    assert len(after.topics["orders"].partitions) == 1
    assert {n: info.leader for n, info in after.pending[A].partitions.items()} == {0: NO_LEADER, 1: NO_LEADER}
    assert sorted(after.pending[B].partitions) == [0]


def test_offer_goes_through_the_store_and_back():
    known = image(
        orders(*(part(number) for number in range(300))), removed_topics={B: RemovedTopic("gone")}, unregistered={9: 4}
    )
    whole = offer(2, known)
    back = unpack(pack(whole))
    assert back.image == whole.image
    assert back.hash_chain.to_text() == whole.hash_chain.to_text()
    assert (back.node_id, back.boot_id, back.broker_epoch) == (2, "boot-12", 12)


@given(st.binary(max_size=200))
def test_text_that_is_no_offer_is_refused(data):
    with pytest.raises(BadRecord):
        unpack(data.decode("latin-1"))


def test_snapshot_with_quarantined_partitions_of_an_older_version_is_read():
    record = write_snapshot(image(orders()))
    record.payload["topics"][0]["partitions"][0]["held"] = 1
    assert read_snapshot(record) == image(orders())


def test_a_trail_remembers_the_newest_records():
    trail = HashChainTail()
    trail.extend(TailedRecord(o, chain(o), "x", 0) for o in range(1, 3 * TAIL_RECORDS))
    assert trail.holds(3 * TAIL_RECORDS - 1, chain(3 * TAIL_RECORDS - 1))
    assert trail.holds(3 * TAIL_RECORDS - 1, "ab" * 20) is False
    assert trail.holds(1, chain(1)) is None
    assert trail.holds(3 * TAIL_RECORDS, "") is None
    oldest = trail.first
    assert 3 * TAIL_RECORDS - oldest >= TAIL_RECORDS
    trail.extend([TailedRecord(10**6, "inc-2", "Snapshot", 0)])
    assert trail.holds(10**6, "inc-2")
    assert trail.holds(oldest, chain(oldest)) is None


def test_image_retains_deleted_topics_and_unregistered_brokers(monkeypatch):
    monkeypatch.setattr("yak.cluster.metadata_delta.REMOVED_TOPICS_MAX", 2)
    ids = [uuid.UUID(int=number) for number in range(4)]
    payloads = [("RemoveTopic", {"name": "x", "topic_id": str(topic_id)}) for topic_id in ids]
    payloads += [("UnregisterBroker", {"node_id": node_id, "broker_epoch": 10 + node_id}) for node_id in (2, 3)]
    back = {
        "node_id": 3,
        "broker_epoch": 60,
        "boot_id": "b",
        "directories": "d",
        "host": "h",
        "port": 1,
        "role": "leader",
    }
    payloads.append(("RegisterBroker", back))
    known = image(orders())
    records, previous = [], known.chain_hash
    for number, (kind, payload) in enumerate(payloads, 51):
        records.append(TailedRecord(number, chain(number), kind, 0, {"version": 0} | payload, previous))
        previous = chain(number)
    after = known.apply_all(records)[0]
    assert list(after.removed_topics) == ids[2:]
    assert after.unregistered == {2: 12}
    assert read_snapshot(write_snapshot(after)) == after
