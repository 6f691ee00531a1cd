"""Rebuilding the store from offers: nothing is used before the last slice, and what is held back stays as it is."""

import json
from dataclasses import replace

import pytest
from support.stores import Caller, brokers, topic_id_of

from yak.cluster.image import Image
from yak.cluster.records import NO_LEADER
from yak.cluster.restore import JUMP, Plan, merge
from yak.cluster.restore_commit import commit_arguments
from yak.cluster.restore_offer import LogEnd, Offer, pack, unpack
from yak.cluster.restore_status import SeedStatus
from yak.cluster.snapshot import write_snapshot
from yak.cluster.store_restore import store_before, why_not_automatic

ALL = ("1,2,3",)


@pytest.fixture
def three(backend):
    """Three brokers and a topic on all of them."""
    found = brokers(backend, 3)
    assert found[0].create("a", replicas=ALL).code == "OK"
    return [caller.catch_up() for caller in found]


def begin(caller: Caller, nonce: str = "seed-1"):
    return caller("seed_begin", new_seed_nonce=nonce, incarnation=caller.image.incarnation)


def offer_of(caller: Caller) -> Offer:
    node_id = caller.who["node_id"]
    known = caller.image.brokers[node_id]
    logs = {
        (topic.topic_id, info.partition): LogEnd(info.leader_epoch, 5, info.leader == node_id)
        for topic in caller.image.topics.values()
        for info in topic.partitions
    }
    return Offer(
        node_id,
        known.boot_id,
        caller.who["broker_epoch"],
        lossy=False,
        directories=known.directories,
        host=known.host,
        port=known.port,
        rack=None,
        role=known.role,
        image=caller.image,
        logs=logs,
    )


def offer(caller: Caller, nonce: str = "seed-1", **changes):
    packed = pack(replace(offer_of(caller), **changes))
    # In three pieces, however small it is.
    text = "".join(packed.chunks)
    third = len(text) // 3
    pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
    more = {"seed_nonce": nonce, "chunks": 3, "digest": packed.digest, "header": packed.header}
    return [caller("seed_offer", chunk=number, data=data, **more) for number, data in enumerate(pieces)]


def status_of(caller: Caller) -> SeedStatus:
    outcome = caller("seed_status")
    assert outcome.code == "OK", outcome
    return SeedStatus.read(outcome.value)


def planned(caller: Caller, **more) -> tuple[Plan, SeedStatus]:
    """The merge of what was offered, as read back from the store."""
    status = status_of(caller)
    offers = []
    for node_id, count in status.offers.items():
        pieces = [caller("seed_read", seed_nonce=status.seed_nonce, of_node=node_id, chunk=n) for n in range(count)]
        offers.append(unpack([piece.value["data"] for piece in pieces]))
    return merge(offers, store_before(status), incarnation_id="inc-2", now_ms=7, **more), status


def commit(caller: Caller, plan: Plan, status: SeedStatus, token: str = "t") -> list[str]:
    calls = commit_arguments(plan, status.seed_nonce, status.offers_digest, token)
    return [caller("seed_commit", **call).code for call in calls]


def restored(backend, three: list[Caller]) -> list[Caller]:
    """The callers after an emptied store was restored."""
    backend.flush_all()
    assert begin(three[0]).value == {"seed_nonce": "seed-1", "begun": True}
    for caller in three:
        offer(caller)
    plan, status = planned(three[0])
    assert plan.is_automatic
    assert set(commit(three[0], plan, status)) == {"OK"}
    return [adopt(caller) for caller in three]


def adopt(caller: Caller) -> Caller:
    outcome = caller("verify")
    assert outcome.code == "WRONG_INCARNATION", outcome
    caller.who |= {"incarnation_id": outcome.value["incarnation_id"]}
    caller.image = Image().apply_all(caller.backend.records())[0]
    if outcome.value["boot_id"] == f"{caller.who['node_id']}-boot-1":
        caller.who["broker_epoch"] = outcome.value["broker_epoch"]
    return caller


def test_a_store_that_has_our_history_is_not_seeded(three):
    assert begin(three[0]).code == "NOT_LOST"
    assert three[0]("verify").code == "OK"


@pytest.mark.parametrize("how", ["emptied", "rolled back"])
def test_nothing_else_is_done_while_it_is_seeded(backend, three, how):
    backend.flush_all() if how == "emptied" else backend.lose_last(1)
    assert begin(three[0]).code == "OK"
    assert begin(three[1], "seed-2").value == {"seed_nonce": "seed-1", "begun": False}
    for code in (three[2]("verify").code, three[1]("heartbeat", persisted=1).code, three[2].create("b").code):
        assert code == "SEEDING"
    late = Caller(backend, 4)
    assert late("bootstrap", new_cluster_id="x", new_incarnation_id="y").code == "SEEDING"
    stranger = Caller(backend, 5)
    stranger.who |= {"cluster_id": "another"}
    assert begin(stranger).code == "WRONG_CLUSTER"


def test_an_offer_counts_when_all_of_it_is_there(backend, three):
    backend.flush_all()
    begin(three[0])
    assert [outcome.value["complete"] for outcome in offer(three[1])] == [False, False, True]
    status = status_of(three[0])
    assert list(status.offers) == [2]
    assert status.missing() == [1, 3]
    assert status.headers[2]["offset"] == three[1].image.offset
    # It is made anew from its first piece on.
    digest = status.offers_digest
    again = three[1]("seed_offer", seed_nonce="seed-1", chunk=0, chunks=2, data="x", digest="d", header={})
    assert again.value == {"complete": False}
    assert status_of(three[0]).offers_digest != digest
    assert (
        three[1]("seed_offer", seed_nonce="old", chunk=0, chunks=1, data="", digest="", header={}).code == "SEED_OVER"
    )


def test_the_brokers_of_a_rolled_back_store_are_waited_for_too(backend, three):
    backend.lose_last(1)
    begin(three[0])
    status = status_of(three[0])
    assert sorted(status.brokers) == status.missing() == [1, 2, 3]
    assert status.offset < three[0].image.offset


@pytest.mark.parametrize("how", ["emptied", "rolled back"])
def test_the_merged_state_is_what_the_scripts_go_on_with(backend, three, how):
    assert three[0].alter("topic", "a", [["min.insync.replicas", "2"]]).code == "OK"
    assert three[0].alter("broker", "", [["log.retention.ms", "5"]]).code == "OK"
    for caller in three:
        caller.catch_up()
    three[2]("heartbeat", persisted=three[2].image.offset, is_full=True)
    backend.flush_all() if how == "emptied" else backend.lose_last(2)
    before = three[0].image
    begin(three[0])
    for caller in three:
        offer(caller)
    plan, status = planned(three[0])
    assert plan.is_automatic
    assert set(commit(three[0], plan, status)) == {"OK"}
    for caller in three:
        adopt(caller)
    image = three[0].image
    assert image.incarnation == 2
    assert image.offset == before.offset + JUMP + 1
    assert image.topics["a"].configs == {"min.insync.replicas": "2"}
    assert image.default_broker_configs == {"log.retention.ms": "5"}
    one, two, three_ = three
    assert one("verify").code == "OK"
    assert one.beat().value["controller_id"] == NO_LEADER
    assert "full" not in one.beat().value
    one.take_office()
    assert one.fence(three_).code == "OK"
    assert one.change_isr(one, two)["code"] == "OK"
    assert one.create("b", replicas=("1,2",)).code == "OK"
    assert one.alter("topic", "a", [["min.insync.replicas", None]]).code == "OK"
    assert one("alloc_pid").value["first"] >= JUMP
    repeat = two.register()
    assert repeat.value == {"broker_epoch": two.image.brokers[2].broker_epoch, "lossy": False, "secret": ""}


def test_who_took_part_is_told_so_and_a_stranger_to_it_is_not(backend, three):
    restored(backend, three)
    late = Caller(backend, 3)
    late.who |= {"cluster_id": "cluster-a", "incarnation_id": "incarnation-a"}
    value = late("verify").value
    assert value["parents"] == "incarnation-a"
    assert value["took_part"][0] < three[0].image.offset
    assert value["is_held_for"] is False
    other = Caller(backend, 9)
    other.who |= {"cluster_id": "cluster-a", "incarnation_id": "incarnation-a"}
    assert "took_part" not in other("verify").value


def test_a_commit_needs_the_very_offers_that_were_merged(backend, three):
    backend.flush_all()
    begin(three[0])
    offer(three[0])
    plan, status = planned(three[0])
    offer(three[1])
    assert commit(three[0], plan, status)[0] == "OFFERS_CHANGED"


def test_a_commit_that_stopped_half_way_is_made_anew_by_the_next(backend, three):
    backend.flush_all()
    begin(three[0])
    for caller in three:
        offer(caller)
    plan, status = planned(three[0])
    calls = commit_arguments(plan, status.seed_nonce, status.offers_digest, "first")
    for call in calls[:-2]:
        assert three[0]("seed_commit", **call).code == "OK"
    assert three[1]("verify").code == "SEEDING"
    assert status_of(three[1]).is_committing
    # A slice is missing.
    assert three[0]("seed_commit", **calls[-1]).code == "BAD_REQUEST"
    assert three[0]("seed_abort", seed_nonce="seed-1").code == "HALF_DONE"
    assert set(commit(three[1], plan, status, "second")) == {"OK"}
    assert three[0]("seed_commit", **calls[-2]).code == "SEED_OVER"
    assert adopt(three[1]).image.topics["a"].partitions[0].leader == 1


def test_a_restore_that_is_given_up_leaves_the_store_as_it_was(backend, three):
    backend.lose_last(1)
    behind = Caller(backend, 1)
    begin(three[0])
    assert three[0]("seed_abort", seed_nonce="another").code == "SEED_OVER"
    assert three[0]("seed_abort", seed_nonce="seed-1").code == "OK"
    assert behind("verify").code == "OK"
    backend.flush_all()
    begin(three[0])
    assert three[0]("seed_abort", seed_nonce="seed-1").code == "OK"
    assert three[0]("verify").code == "NO_CLUSTER"
    assert three[0]("seed_status").value == {"seed_nonce": ""}


def test_what_is_held_stays_as_it_is_until_the_missing_broker_answers(backend, three):
    one, two, missing = three
    assert one.create("b", replicas=("1,2",)).code == "OK"
    for caller in three:
        caller.catch_up()
    backend.flush_all()
    begin(one)
    offer(one)
    offer(two)
    plan, status = planned(one)
    assert list(plan.missing) == [3]
    assert [(fate.topic, fate.partition) for fate in plan.quarantined] == [("a", 0)]
    assert set(commit(one, plan, status)) == {"OK"}
    adopt(one)
    adopt(two)
    held, live = one.partition("a"), one.partition("b")
    assert (held.quarantined, held.leader, held.leader_epoch) == (1, 1, 0)
    assert (live.quarantined, live.leader_epoch) == (0, 1)
    assert missing.image.brokers[3].broker_epoch in held.isr_epochs
    one.take_office()
    assert one.elect(2) == "HELD"
    assert one.change_isr(one, two)["code"] == "HELD"
    assert one.reassign("1,2") == "HELD"
    leave = two("leave_isr", partitions=[{"topic_id": topic_id_of("a"), "partition": 0, "lost": False}])
    assert leave.value["codes"] == ["HELD"]
    barrier = {"topic_id": topic_id_of("a"), "partition": 0, "leader_epoch": 0, "nonce": "n"}
    assert one("barrier", partition_epoch=held.partition_epoch, **barrier).code == "HELD"
    assert one.alter("topic", "a", [["min.insync.replicas", "2"]]).code == "OK"
    assert one.partition("a") == held
    # The missing one is waited for: it may begin again, and then nothing is held any more.
    assert missing("verify").value["is_held_for"] is True
    assert begin(missing, "seed-2").code == "OK"
    two.catch_up()
    for caller in three:
        offer(caller, "seed-2")
    plan, status = planned(one)
    assert plan.is_automatic, why_not_automatic(plan)
    assert set(commit(one, plan, status)) == {"OK"}
    assert adopt(missing).partition("a").quarantined == 0


@pytest.mark.parametrize("was_let_in", [False, True])
def test_who_died_before_he_went_on_in_what_was_restored_lacks_nothing(backend, three, was_let_in):
    one, two, missing = three
    backend.flush_all()
    begin(one)
    offer(one)
    offer(two)
    plan, status = planned(one)
    assert set(commit(one, plan, status)) == {"OK"}
    adopt(one)
    if was_let_in:
        other = two.other_view()
        other.image = two.image
        assert adopt(other)("heartbeat", persisted=other.image.offset).code == "OK"
    begin(missing, "seed-2")
    offer(one, "seed-2")
    offer(missing, "seed-2")
    # its disk has the metadata of before, and the boot that offered then is dead
    offer(two, "seed-2", boot_id="2-boot-2", broker_epoch=0)
    plan, _status = planned(one)
    assert plan.is_automatic is not was_let_in, why_not_automatic(plan)


def test_a_history_that_begins_with_a_snapshot_is_known_by_it(backend, three):
    one = restored(backend, three)[0]
    head = backend.records()[0]
    assert head.kind == "Snapshot"
    one.image = Image().apply(head)
    assert one("verify").code == "OK"
    one.image = Image(offset=head.offset, chain_hash="another")
    assert one("verify").code == "TRIMMED"


def test_a_trim_leaves_who_holds_just_what_was_restored_his_way_on(backend, three):
    one = restored(backend, three)[0]
    head = backend.records()[0]
    one.catch_up()
    one.take_office()
    one.catch_up()
    trimmed = one(
        "trim",
        snapshot=json.dumps(write_snapshot(one.image).payload),
        snapshot_offset=one.image.offset,
        snapshot_hash=one.image.chain_hash,
        keep=1_000,
    )
    assert trimmed.value == {"trimmed": 0}
    newest, one.image = one.image, Image().apply(head)
    assert one("verify").code == "OK"
    assert backend.records()[-1].offset == newest.offset
    one.image = Image(offset=head.offset, chain_hash="another")
    assert one("verify").code == "TRIMMED"
