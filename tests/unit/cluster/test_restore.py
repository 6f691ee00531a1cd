"""The merge of a restore, rule by rule."""

import itertools
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yak.cluster.hash_chain import TAIL_RECORDS, HashChainTail
from yak.cluster.image import BrokerInfo, Image, PartitionInfo, PendingTopic, RemovedTopic, TopicInfo
from yak.cluster.payload import BadRecord
from yak.cluster.records import BrokerState
from yak.cluster.restore import JUMP, LOST_EPOCH_JUMP, Fate, StoreBefore, merge
from yak.cluster.restore_commit import SLICE_ITEMS, SNAPSHOT_CHARACTERS, commit_arguments
from yak.cluster.restore_offer import LogEnd, Offer, pack, unpack
from yak.cluster.snapshot import read_snapshot, write_snapshot
from yak.ports.metadata_store import TailedRecord

A, B = uuid.UUID(int=1), uuid.UUID(int=2)


def broker(node_id, epoch=0, state=BrokerState.ACTIVE, **more):
    epoch = epoch or 10 + node_id
    return BrokerInfo(node_id, epoch, f"boot-{epoch}", (f"d{node_id}",), "h", 1, None, "leader", state, **more)


def part(number=0, replicas=(1, 2, 3), isr=None, elr=(), leader=1, le=0, pe=0, **more):
    isr = [(n, 10 + n) for n in replicas] if isr is None else isr
    members = (tuple(n for n, _ in isr), tuple(e for _, e in isr), tuple(n for n, _ in elr), tuple(e for _, e in elr))
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


def offer(node_id, known, *, epoch=None, logs=None, leads=(), hash_chain=None, **more):
    epoch = 10 + node_id if epoch is None else epoch
    ends = {(t.topic_id, p.partition): LogEnd(p.leader_epoch, 9) for t in known.topics.values() for p in t.partitions}
    ends |= {(A, number): LogEnd(0, 9, leads=True) for number in leads}
    fields = {"boot_id": f"boot-{epoch or 'new'}", "lossy": False, "directories": (f"d{node_id}",)} | more
    ends = ends if logs is None else logs
    whole = HashChainTail()
    whole.extend(TailedRecord(o, chain(o), "x", 0) for o in range(1, known.offset + 1))
    return Offer(
        node_id, broker_epoch=epoch, host="h", port=1, rack=None, role="leader", image=known, logs=ends,
        hash_chain=whole if hash_chain is None else hash_chain, **fields,
    )  # fmt: skip


def merged(*offers, before=StoreBefore(), **more):  # noqa: B008
    return merge(offers, before, incarnation_id="inc-2", now_ms=1, **more)


def everybody(known):
    return [offer(n, known) for n in sorted(known.brokers)]


def test_all_answered_and_agree():
    known = image(orders(), next_producer_id=3000, controller_epoch=4, controller_id=2)
    plan = merged(*everybody(known))
    assert plan.is_automatic
    after = plan.image
    assert (after.incarnation, after.incarnation_id, after.parents) == (2, "inc-2", ("inc-1",))
    assert after.offset == 50 + JUMP
    assert after.next_producer_id == 3000 + JUMP
    assert (after.controller_id, after.controller_epoch) == (-1, 5)
    [partition] = after.topics["orders"].partitions
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.quarantined) == (1, 1, 1, 0)
    epochs = [after.brokers[n].broker_epoch for n in (1, 2, 3)]
    assert partition.isr_epochs == tuple(epochs)
    assert len(set(epochs)) == 3
    assert 50 < min(epochs) <= max(epochs) < after.offset
    assert {b.state for b in after.brokers.values()} == {BrokerState.ACTIVE}


def test_the_order_of_the_offers_does_not_matter():
    newer = image(orders(part(le=2, pe=3, leader=2)), offset=60)
    offers = [offer(1, image(orders())), offer(2, newer), offer(3, image(orders(), offset=55))]
    plans = [merged(*order) for order in itertools.permutations(offers)]
    assert all(plan == plans[0] for plan in plans)
    assert plans[0].image.topics["orders"].partitions[0].leader == 2
    assert plans[0].image.topics["orders"].partitions[0].leader_epoch == 3


def test_the_newest_state_of_each_partition_counts_and_logs_raise_its_epoch():
    one = image(orders(part(0, le=5, pe=9, leader=2), part(1, le=0, pe=0)))
    two = image(orders(part(0, le=5, pe=8), part(1, le=1, pe=1, leader=3)), offset=49)
    logs = {(A, 0): LogEnd(7, 3), (A, 1): LogEnd(-1, 0)}
    plan = merged(offer(1, one), offer(2, two), offer(3, two, logs=logs))
    zero, first = plan.image.topics["orders"].partitions
    assert (zero.leader, zero.leader_epoch, zero.partition_epoch) == (2, 8, 10)
    assert (first.leader, first.leader_epoch) == (3, 2)


def test_a_partition_with_a_replica_that_did_not_answer_is_held_and_others_live():
    known = image(orders(part(0), part(1, replicas=(1, 2)), part(2, isr=[(1, 11), (2, 12)], elr=[(3, 13)])))
    plan = merged(offer(1, known, leads=(0, 1)), offer(2, known))
    assert list(plan.missing) == [3]
    assert not plan.is_automatic
    held, live, also = plan.image.topics["orders"].partitions
    assert [fate.fate for fate in plan.fates] == [Fate.QUARANTINED, Fate.LIVE, Fate.QUARANTINED]
    assert plan.quarantined_for == (3,)
    assert (held.leader, held.leader_epoch, held.partition_epoch, held.quarantined) == (1, 0, 0, 1)
    assert held.isr == (1, 2, 3)
    assert held.isr_epochs[2] == 13
    assert held.isr_epochs[0] == plan.image.brokers[1].broker_epoch
    assert also.leader == -1, "nobody sits there"
    assert (live.leader, live.leader_epoch, live.quarantined) == (1, 1, 0)
    assert plan.image.brokers[3].state is BrokerState.FENCED
    assert "broker 3 may have acted" in plan.quarantined[0].reason


def test_a_replica_that_only_an_old_image_names_is_waited_for_too():
    moved, before = image(orders(part(replicas=(1, 2), pe=3))), image(orders(part(replicas=(1, 3))), offset=40)
    plan = merged(offer(1, moved), offer(2, before))
    assert plan.quarantined[0].waits_for == (3,)


def test_with_an_accepted_loss_only_those_that_answered_count_and_epochs_jump():
    known = image(orders(part(leader=3)))
    plan = merged(offer(1, known), offer(2, known), accept_loss=True)
    [partition] = plan.image.topics["orders"].partitions
    assert (partition.isr, partition.leader) == ((1, 2), -1)
    assert partition.leader_epoch == 1 + LOST_EPOCH_JUMP
    assert [fate.lost for fate in plan.fates] == [True]
    assert not plan.is_automatic


def test_with_an_accepted_loss_and_nobody_in_sync_who_has_the_most_leads():
    known = image(orders(part(isr=[(3, 13)], leader=3)))
    logs = [{(A, 0): LogEnd(4, 10)}, {(A, 0): LogEnd(5, 7)}]
    plan = merged(offer(1, known, logs=logs[0]), offer(2, known, logs=logs[1]), accept_loss=True)
    assert plan.image.topics["orders"].partitions[0].isr == (2,)


def test_members_of_a_boot_that_lost_something_are_dropped():
    known = image(orders(part(isr=[(1, 11), (2, 12)], elr=[(3, 13)], pe=4), **{"min.insync.replicas": "3"}))
    two = offer(2, known, epoch=0, lossy=True)
    three = offer(3, known, epoch=0)
    [partition] = merged(offer(1, known), two, three).image.topics["orders"].partitions
    assert partition.isr == (1,)
    assert partition.elr == (3,), "it lost nothing"


def test_a_member_whose_registration_nobody_remembers_lost_what_it_says_it_lost():
    known = image(orders())
    plan = merged(offer(1, known), offer(2, known, epoch=60, lossy=True), offer(3, known))
    assert plan.image.topics["orders"].partitions[0].isr == (1, 3)
    assert plan.image.brokers[2].lossy_epoch == plan.image.brokers[2].broker_epoch


def test_a_new_boot_that_lost_nothing_leads_when_no_member_is_left():
    known = image(orders(part(replicas=(1,))), nodes=(1,))
    plan = merged(offer(1, known, epoch=0))
    [partition] = plan.image.topics["orders"].partitions
    assert (partition.isr, partition.isr_epochs, partition.leader) == ((1,), (11,), -1)
    assert plan.image.brokers[1].lossy_epoch <= 11
    assert plan.image.brokers[1].state is BrokerState.FENCED


def test_a_new_boot_without_a_directory_it_had_lost_something():
    known = image(orders())
    plan = merged(offer(1, known), offer(2, known, epoch=0, directories=("other",)), offer(3, known))
    assert plan.image.topics["orders"].partitions[0].isr == (1, 3)


def test_a_broker_with_an_old_disk_did_not_answer():
    known = image(orders(), brokers=[broker(1), broker(2, 40), broker(3)])
    old = image(orders(), offset=30)
    plan = merged(offer(1, known), offer(2, old, epoch=0), offer(3, known))
    assert "registered as 40 after another start" in plan.missing[2]
    assert [fate.fate for fate in plan.fates] == [Fate.QUARANTINED]


def test_a_registration_that_only_the_store_has_is_of_a_boot_that_did_not_answer():
    known = image(orders())
    plan = merged(
        *everybody(known),
        before=StoreBefore(55, 1, {1: (53, "boot-53"), 2: (12, "boot-12"), 3: (13, "twin"), 4: (20, "x")}),
    )
    assert list(plan.missing) == [1, 3, 4]
    assert plan.image.offset == 55 + JUMP


def whole_but_registered_since(*, known_epoch=13, **acted):
    """Broker 3 began again with the disk of boot 13; meanwhile a restore, say, registered it as 53, which all others saw."""
    known = image(orders(), brokers=[broker(1), broker(2), broker(3, 53)])
    mine = image(orders(), brokers=[broker(1), broker(2), broker(3, known_epoch)], offset=40)
    before = StoreBefore(55, 1, {3: (53, "boot-53")}, {3: acted["acted"]} if acted else {})
    return merged(offer(1, known), offer(2, known), offer(3, mine, epoch=0, hash_chain=HashChainTail()), before=before)


def test_registration_that_was_never_unfenced_hides_nothing_from_the_restore():
    plan = whole_but_registered_since(acted=13)
    assert plan.is_automatic
    assert plan.image.topics["orders"].partitions[0].isr == (1, 2)


@pytest.mark.parametrize("more", [{"acted": 53}, {"acted": 20}, {"acted": 13, "known_epoch": 12}, {}])
def test_broker_that_may_have_acted_after_its_image_counts_as_missing(more):
    assert "registered as 53 after another start" in whole_but_registered_since(**more).missing[3]


def test_an_unregistered_broker_is_not_waited_for():
    now = image(orders(part(replicas=(1, 2))), nodes=(1, 2), unregistered={3: 13})
    before = image(orders(part(replicas=(1, 2))), offset=40)
    plan = merged(offer(1, now), offer(2, before))
    assert plan.is_automatic
    assert plan.image.unregistered == {3: 13}
    assert 3 not in plan.image.brokers


def test_a_replica_without_its_log_is_no_member_but_the_last_one_stays():
    known = image(orders(part(0), part(1, replicas=(2,), leader=2)))
    two = offer(2, known, logs={})
    first, alone = merged(offer(1, known), two, offer(3, known)).image.topics["orders"].partitions
    assert first.isr == (1, 3)
    assert alone.isr == (2,)


def test_a_replica_that_never_heard_of_a_topic_may_be_without_its_log():
    plan = merged(offer(1, image(orders())), offer(2, image(offset=40)), offer(3, image(offset=40)))
    assert plan.image.topics["orders"].partitions[0].isr == (1, 2, 3)


def test_a_topic_of_the_newest_image_stays_and_a_deleted_one_is_gone():
    newest = image(orders(), offset=60, removed_topics={B: RemovedTopic("gone")})
    older = image(orders(), orders(name="gone", topic_id=B), offset=50)
    plan = merged(offer(1, newest), offer(2, older), offer(3, older))
    assert list(plan.image.topics) == ["orders"]
    assert B in plan.image.removed_topics


def test_a_topic_that_only_an_older_image_has_stays_without_word_of_its_deletion():
    plan = merged(offer(1, image(orders(), offset=60)), offer(2, image(orders(), orders(name="b", topic_id=B))))
    assert list(plan.image.topics) == ["b", "orders"]


def test_a_topic_that_an_older_image_saw_deleted_stays_when_the_newest_has_it():
    plan = merged(offer(1, image(orders(), offset=60)), offer(2, image(removed_topics={A: RemovedTopic("orders")})))
    assert list(plan.image.topics) == ["orders"]
    assert plan.image.removed_topics == {}


def test_a_name_for_two_topics_is_a_conflict():
    plan = merged(offer(1, image(orders(), offset=60)), offer(2, image(orders(topic_id=B))))
    assert "two topics are called orders" in plan.conflicts[0]
    assert plan.image.topics["orders"].topic_id == A


def test_the_same_epochs_with_another_content_are_for_a_person():
    one, two = image(orders(part(leader=1, le=1, pe=1))), image(orders(part(leader=2, le=1, pe=1)))
    plan = merged(offer(1, one, leads=(0,)), offer(2, two), offer(3, two))
    assert plan.quarantined[0].conflict
    assert not plan.is_automatic
    assert plan.image.topics["orders"].partitions[0].leader == 1, "the one that sits"


def test_images_of_two_histories_are_for_a_person():
    one, two = image(orders(), offset=60), image(orders(), offset=55)
    forked = replace(two, chain_hash="ff" * 20)
    assert not merged(offer(1, one), offer(2, two), offer(3, two)).conflicts
    assert "broker 2 has metadata up to record 55" in merged(offer(1, one), offer(2, forked)).conflicts[0]
    short = HashChainTail()
    assert merged(offer(1, one, hash_chain=short), offer(2, two)).conflicts, "too far behind to be compared"
    assert not merged(offer(1, one, hash_chain=short), offer(2, two), offer(3, one)).conflicts, (
        "the third one has it all"
    )
    rival = replace(one, incarnation_id="inc-1b")
    assert "began 2 times" in merged(offer(1, one), offer(2, rival)).conflicts[0]


def test_a_half_made_topic_stays_half_made_and_a_growing_one_is_whole():
    pending = {
        B: PendingTopic("half", B, 3, {0: part(0)}, {}),
        A: PendingTopic("orders", A, 3, {0: part(0), 1: part(1)}, {}),
    }
    plan = merged(*everybody(image(orders(), pending=pending)))
    assert len(plan.image.topics["orders"].partitions) == 1
    assert sorted(plan.image.pending[A].partitions) == [0, 1]
    assert sorted(plan.image.pending[B].partitions) == [0]
    calls = commit_arguments(plan, "n", "d", "t")
    topics = {item["name"]: item for call in calls if call.get("what") == "topics" for item in call["items"]}
    assert (topics["orders"]["total"], topics["orders"]["made"], topics["orders"]["complete"]) == (3, 2, True)
    assert (topics["half"]["total"], topics["half"]["made"], topics["half"]["complete"]) == (3, 1, False)
    assert sum(len(call["items"]) for call in calls if call.get("what") == "partitions") == 3


def test_the_configs_of_groups_are_written_again():
    configs = {"g": {"consumer.session.timeout.ms": "6000"}}
    calls = commit_arguments(merged(*everybody(image(orders(part()), group_configs=configs))), "n", "d", "t")
    written = {
        item["name"]: item["configs"] for call in calls if call.get("what") == "configs" for item in call["items"]
    }
    assert written == {"group:g": configs["g"]}


def test_a_large_state_is_written_in_bounded_slices():
    plan = merged(*everybody(image(orders(*(part(number) for number in range(1_000))))))
    calls = commit_arguments(plan, "n", "d", "t")
    assert [call["step"] for call in calls] == ["begin", *["write"] * (len(calls) - 2), "end"]
    assert calls[-1]["slices"] == len(calls) - 2
    for call in calls[1:-1]:
        assert len(call["items"]) <= SLICE_ITEMS
        assert call["what"] != "snapshot" or len(call["items"][0]) <= SNAPSHOT_CHARACTERS


def test_an_offer_goes_through_the_store_and_back():
    known = image(
        orders(*(part(number) for number in range(300))), removed_topics={B: RemovedTopic("gone")}, unregistered={9: 4}
    )
    whole = offer(2, known)
    packed = pack(whole)
    back = unpack(packed.chunks)
    assert back.image == whole.image
    assert back.logs == whole.logs
    assert back.hash_chain.to_text() == whole.hash_chain.to_text()
    assert (back.node_id, back.boot_id, back.broker_epoch, back.directories) == (2, "boot-12", 12, ("d2",))
    assert pack(back).digest == packed.digest


@given(st.binary(max_size=200))
def test_what_is_no_offer_is_refused(data):
    with pytest.raises(BadRecord):
        unpack([data.decode("latin-1")])


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


def test_an_image_remembers_what_was_deleted_and_who_was_unregistered(monkeypatch):
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
