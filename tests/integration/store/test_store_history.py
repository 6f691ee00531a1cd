import json

from support.stores import Caller, MemoryBackend, RedisBackend, brokers, kinds, topic_id_of

from yak.cluster.image import Image
from yak.cluster.snapshot import write_snapshot


def test_store_functions_return_no_cluster_before_bootstrap(backend):
    assert Caller(backend)("verify").code == "NO_CLUSTER"
    assert Caller(backend)("heartbeat", persisted=0).code == "NO_CLUSTER"


def test_bootstrap_creates_one_cluster_when_another_broker_requests_it_again(backend):
    first = Caller(backend)("bootstrap", new_cluster_id="c1", new_incarnation_id="i1")
    second = Caller(backend)("bootstrap", new_cluster_id="c2", new_incarnation_id="i2")
    assert first.value == {"cluster_id": "c1", "incarnation_id": "i1", "incarnation": 1, "created": True}
    assert second.value == first.value | {"created": False}
    assert kinds(backend) == ["Cluster"]
    stranger = Caller(backend)
    stranger.who["cluster_id"] = "other"
    refused = stranger("bootstrap", new_cluster_id="c2", new_incarnation_id="i2")
    assert (refused.code, refused.value) == ("WRONG_CLUSTER", {"cluster_id": "c1"})


def test_the_log_is_a_chain_without_gaps(one, backend):
    one.create("a", replicas=["1"] * 3)
    records = backend.records()
    assert [record.offset for record in records] == list(range(1, len(records) + 1))
    assert [record.previous_hash for record in records[1:]] == [record.chain_hash for record in records[:-1]]
    assert records[0].previous_hash == ""
    assert len({record.chain_hash for record in records}) == len(records)


def test_another_cluster_and_another_incarnation_are_refused(one):
    one.who["incarnation_id"] = "other"
    assert one("verify").code == "WRONG_INCARNATION"
    one.who["cluster_id"] = "other"
    assert one("verify").code == "WRONG_CLUSTER"


def test_verify_says_what_the_store_knows_of_the_asker(one, backend):
    value = one("verify").value
    assert value["broker"] == {
        "broker_epoch": 2, "boot_id": "1-boot-1", "acted_epoch": 0, "state": "ACTIVE", "host": "localhost",
        "port": 9092,
    }  # fmt: skip
    assert (value["controller_id"], value["controller_epoch"], value["incarnation"]) == (1, 1, 1)
    assert "broker" not in Caller(backend, 5)("verify").value


def test_a_rolled_back_store_is_regressed_and_then_forked(one, backend):
    one.create("a")
    one.catch_up()
    backend.lose_last(2)
    assert one("verify").code == "REGRESSED"
    assert one("heartbeat", persisted=1).code == "REGRESSED"
    fresh = Caller(backend)
    fresh.who |= one.who
    for name in "bcd":
        assert fresh.create(name).code == "OK"
    assert one("verify").code == "FORKED"
    assert one.create("e").code == "FORKED"


def test_a_fork_of_the_same_length_is_noticed(one, backend):
    one.create("a")
    one.catch_up()
    backend.lose_last(2)
    fresh = Caller(backend)
    fresh.who |= one.who
    assert fresh.create("b").offset == one.image.offset
    assert one("verify").code == "FORKED"


def test_an_emptied_store_has_no_cluster(one, backend):
    backend.flush_all()
    assert one("heartbeat", persisted=1).code == "NO_CLUSTER"


def test_producer_id_blocks_follow_each_other(one, backend):
    assert one("alloc_pid").value == {"first": 0, "next": 1000}
    assert one("alloc_pid").value == {"first": 1000, "next": 2000}
    assert one.catch_up().image.next_producer_id == 2000


def test_trimming_keeps_a_snapshot_and_what_others_still_need(one, backend):
    for name in "abcdef":
        one.create(name)
    one.catch_up()
    one("heartbeat", persisted=one.image.offset)
    snapshot = {
        "snapshot": json.dumps(write_snapshot(one.image).payload),
        "snapshot_offset": one.image.offset,
        "snapshot_hash": one.image.chain_hash,
    }
    assert one("trim", **(snapshot | {"snapshot_hash": "x"}), keep=2).code == "BAD_REQUEST"
    assert one("trim", **snapshot, keep=2).value == {"trimmed": one.image.offset - 3}
    late = Caller(backend)
    late.who |= one.who
    late.image = Image(offset=1, chain_hash="whatever")
    refused = late("verify")
    assert (refused.code, refused.value) == ("TRIMMED", {"broker": one("verify").value["broker"]})
    late.who["node_id"] = 7
    assert (late("verify").code, late("verify").value) == ("TRIMMED", {})
    assert one("verify").code == "OK"


def test_a_stale_broker_can_do_nothing(one, backend):
    one.create("a")
    topic_id = topic_id_of("a")
    one.who["broker_epoch"] = 1
    assert one.create("b").code == "STALE_BROKER_EPOCH"
    assert one("delete_topic", topic_id=topic_id).code == "STALE_BROKER_EPOCH"
    assert one("alloc_pid").code == "STALE_BROKER_EPOCH"
    assert one("acquire_lease").code == "STALE_BROKER_EPOCH"
    assert one.alter("broker", "", [["x", "2"]]).code == "STALE_BROKER_EPOCH"


def test_both_stores_come_to_the_same_image(connected):
    """One run of calls on each; the images must be equal in all but hashes and times."""
    images = []
    for backend in (MemoryBackend(), RedisBackend(connected)):
        one, other = brokers(backend, 2)
        one.create("a", replicas=["1,2", "2,1", "2"], configs={"min.insync.replicas": "2", "x": "ü"})
        one.create("b")
        one("fence", target_id=2, target_epoch=other.who["broker_epoch"])
        one.elect(1, partition=1)
        one.elect(-1, partition=2)
        one.alter("topic", "a", [["min.insync.replicas", "1"]])
        one.alter("broker", "", [["y", "1"]])
        one("alloc_pid")
        one.register("boot-2", rack="r1")
        images.append(one.catch_up().image)
    assert images[0].offset == images[1].offset
    assert images[0].without_position() == images[1].without_position()
