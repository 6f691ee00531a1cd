"""A store that lost its history: it takes offers, refuses all other calls, and goes on with the snapshot of a restore."""

import json

import pytest
from support.stores import Caller, brokers

from yak.cluster.image import Image
from yak.cluster.records import NO_LEADER, BrokerState
from yak.cluster.restore import JUMP, Offer, RestorePlan, StoreBefore, pack, plan_restore
from yak.cluster.snapshot import write_snapshot
from yak.metadata_store.restore import offers_digest
from yak.ports.metadata_store import StoreOutcome

ALL = ("1,2,3",)


@pytest.fixture
def three(backend):
    """Three brokers and a topic on all of them."""
    found = brokers(backend, 3)
    assert found[0].create("a", replicas=ALL).code == "OK"
    return [caller.catch_up() for caller in found]


def offer_of(caller: Caller) -> Offer:
    node_id = caller.who["node_id"]
    return Offer(node_id, f"{node_id}-boot-1", caller.who["broker_epoch"], caller.image)


def offer(caller: Caller) -> StoreOutcome:
    packed = pack(offer_of(caller))
    image = caller.image
    return caller("seed_offer", incarnation=image.incarnation, incarnation_id=image.incarnation_id, offer=packed)


def planned(callers: list[Caller], before: StoreBefore = StoreBefore()) -> RestorePlan:  # noqa: B008
    return plan_restore([offer_of(caller) for caller in callers], before, incarnation_id="inc-2", now_ms=7)


def digest_of(callers: list[Caller]) -> str:
    return offers_digest({caller.who["node_id"]: pack(offer_of(caller)) for caller in callers})


def commit(callers: list[Caller]) -> StoreOutcome:
    return callers[0]("seed_commit", **planned(callers).arguments(digest_of(callers)))


def restored(backend, three: list[Caller]) -> list[Caller]:
    """The callers after an emptied store was restored."""
    backend.flush_all()
    assert [offer(caller).code for caller in three] == ["OK"] * 3
    assert commit(three).code == "OK"
    return [adopt(caller) for caller in three]


def adopt(caller: Caller) -> Caller:
    outcome = caller("verify")
    assert outcome.code == "WRONG_INCARNATION", outcome
    caller.who |= {"incarnation_id": outcome.value["incarnation_id"]}
    caller.image = Image().apply_all(caller.backend.records())[0]
    return caller


def rejoin(caller: Caller, controller: Caller) -> Caller:
    """Register again, as a broker that was fenced."""
    assert caller.register(renew=True).code == "OK"
    caller.beat()
    if controller is caller:
        controller.take_office()
    assert controller.unfence(caller).code == "OK"
    return caller.catch_up()


def test_store_that_has_the_history_takes_no_offer(three):
    assert offer(three[0]).code == "NOT_LOST"
    assert three[0]("verify").code == "OK"


@pytest.mark.parametrize("how", ["emptied", "rolled back"])
def test_store_with_offers_refuses_all_other_calls(backend, three, how):
    backend.flush_all() if how == "emptied" else backend.lose_last(1)
    assert offer(three[0]).code == "OK"
    refused = three[2]("verify")
    assert (refused.code, refused.value) == ("SEEDING", {"offered": False})
    assert three[0]("verify").value == {"offered": True}
    for code in (three[1]("heartbeat", persisted=1).code, three[2].create("b").code):
        assert code == "SEEDING"
    late = Caller(backend, 4)
    assert late("bootstrap", new_cluster_id="x", new_incarnation_id="y").code == "SEEDING"
    stranger = Caller(backend, 5)
    stranger.who |= {"cluster_id": "another"}
    stranger.image = three[0].image
    assert offer(stranger).code == "WRONG_CLUSTER"


@pytest.mark.parametrize("how", ["emptied", "rolled back"])
def test_scripts_continue_with_the_restored_state(backend, three, how):
    assert three[0].alter("topic", "a", [["min.insync.replicas", "2"]]).code == "OK"
    assert three[0].alter("broker", "", [["log.retention.ms", "5"]]).code == "OK"
    assert three[0].alter("quota", "user=ann", [["producer_byte_rate", "1.0"]]).code == "OK"
    assert three[0].alter("acl", "TOPIC,LITERAL,a", [["ALLOW,READ,*,User:ann", ""]]).code == "OK"
    assert three[0].alter("token", "id", [["owner", "User:ann"]]).code == "OK"
    assert three[0].create("b", replicas=("1,2", "2,3"), total=3).code == "OK"
    for caller in three:
        caller.catch_up()
    three[2]("heartbeat", persisted=three[2].image.offset, is_full=True)
    backend.flush_all() if how == "emptied" else backend.lose_last(2)
    before = three[0].image
    for caller in three:
        assert offer(caller).code == "OK"
    assert planned(three).is_safe
    assert commit(three).code == "OK"
    for caller in three:
        adopt(caller)
    image = three[0].image
    assert image.incarnation == 2
    assert image.offset == before.offset + JUMP + 1
    assert image.topics["a"].configs == {"min.insync.replicas": "2"}
    assert image.default_broker_configs == {"log.retention.ms": "5"}
    assert image.quotas == {"user=ann": {"producer_byte_rate": "1.0"}}
    assert image.acls == {"TOPIC,LITERAL,a": {"ALLOW,READ,*,User:ann": ""}}
    assert image.delegation_tokens == {"id": {"owner": "User:ann"}}
    # the store has them too: an unchanged value makes no record
    assert three[0].alter("token", "id", [["owner", "User:ann"]]).code == "OK"
    assert three[0].alter("quota", "user=ann", [["producer_byte_rate", "1.0"]]).code == "OK"
    assert three[0].alter("acl", "TOPIC,LITERAL,a", [["ALLOW,READ,*,User:ann", ""]]).code == "OK"
    assert three[0].catch_up().image.offset == image.offset
    assert [len(topic.partitions) for topic in image.pending.values()] == [2]
    assert {each.state for each in image.brokers.values()} == {BrokerState.FENCED}
    assert image.topics["a"].partitions[0].leader == NO_LEADER
    one, two, _three = three
    assert one("verify").code == "OK"
    value = one.beat().value
    assert value["controller_id"] == NO_LEADER
    assert "full" not in value
    rejoin(one, one)
    rejoin(two, one)
    assert one.image.brokers[1].broker_epoch > before.offset + JUMP
    assert one.elect(2) == "OK"
    elected = one.partition("a")
    assert (elected.leader, elected.isr, elected.elr) == (2, (2,), (1, 3))
    assert two.change_isr(two, one)["code"] == "OK"
    assert one.create("c", replicas=("1,2",)).code == "OK"
    assert one.alter("topic", "a", [["min.insync.replicas", None]]).code == "OK"
    assert one("alloc_pid").value["first"] >= JUMP


def test_restored_store_names_the_part_of_each_broker(backend, three):
    restored(backend, three)
    late = Caller(backend, 3)
    late.who |= {"cluster_id": "cluster-a", "incarnation_id": "incarnation-a"}
    value = late("verify").value
    assert value["parents"] == "incarnation-a"
    assert value["lost"] == 0
    assert value["took_part"][0] < three[0].image.offset
    other = Caller(backend, 9)
    other.who |= {"cluster_id": "cluster-a", "incarnation_id": "incarnation-a"}
    assert "took_part" not in other("verify").value
    assert offer(late).code == "WRONG_INCARNATION"


def test_broker_whose_disk_lacks_its_last_registration_is_lossy_in_the_restored_store(backend, three):
    restored(backend, three)
    again = three[1].register("boot-2", last_epoch=0)
    assert again.value["lossy"] is True


def test_commit_and_abort_need_the_offers_that_the_operator_read(backend, three):
    backend.flush_all()
    offer(three[0])
    plan = planned(three[:1])
    offer(three[1])
    assert three[0]("seed_commit", **plan.arguments(digest_of(three[:1]))).code == "OFFERS_CHANGED"
    assert three[0]("seed_abort", offers_digest=digest_of(three[:1])).code == "OFFERS_CHANGED"
    assert commit(three[:2]).code == "OK"
    assert commit(three[:2]).code == "SEED_OVER"


def test_accepted_loss_is_in_the_metadata_log(backend, three):
    backend.flush_all()
    offer(three[0])
    offer(three[1])
    plan = planned(three[:2])
    assert list(plan.unknown) == [3]
    assert commit(three[:2]).code == "OK"
    assert adopt(three[2])("verify").code == "OK"
    assert backend.records()[-1].payload["lost"] == 1


def test_aborted_restore_leaves_the_store_as_it_was(backend, three):
    backend.lose_last(1)
    behind = Caller(backend, 1)
    offer(three[0])
    assert behind("verify").code == "SEEDING"
    assert three[0]("seed_abort", offers_digest=digest_of(three[:1])).code == "OK"
    assert behind("verify").code == "OK"
    backend.flush_all()
    offer(three[0])
    assert three[0]("seed_abort", offers_digest=digest_of(three[:1])).code == "OK"
    assert three[0]("verify").code == "NO_CLUSTER"
    assert three[0]("seed_abort", offers_digest="").code == "NO_CLUSTER"


def test_history_that_begins_with_a_snapshot_is_known_by_it(backend, three):
    one = restored(backend, three)[0]
    head = backend.records()[0]
    assert head.kind == "Snapshot"
    one.image = Image().apply(head)
    assert one("verify").code == "OK"
    one.image = Image(offset=head.offset, chain_hash="another")
    assert one("verify").code == "TRIMMED"


def test_trim_keeps_the_history_of_a_broker_that_holds_just_the_restored_snapshot(backend, three):
    one = rejoin(restored(backend, three)[0], three[0])
    head = backend.records()[0]
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
