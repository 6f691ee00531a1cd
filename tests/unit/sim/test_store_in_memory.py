import pytest

from yak.cluster.image import Image
from yak.ports.metadata_store import StoreRequest
from yak.sim.store import SimStore

WHO = {"cluster_id": "", "incarnation_id": "", "node_id": 1, "broker_epoch": 2, "controller_epoch": 1}
BOOT = {"boot_id": "b", "directories": "d", "host": "h", "port": 1, "rack": None, "role": "", "lossy": False}


def call(store, script, now_ms=1000, **arguments):
    return store.call(StoreRequest(script, WHO | arguments), now_ms)


@pytest.fixture
def store():
    store = SimStore()
    call(store, "bootstrap", new_cluster_id="c", new_incarnation_id="i")
    call(store, "register", **BOOT)
    call(store, "acquire_lease")
    call(store, "unfence", target_id=1, target_epoch=2)
    return store


def create(store, name, number):
    items = [{"partition": 0, "replicas": "1"}]
    topic_id = f"00000000-0000-4000-8000-{number:012d}"
    return call(store, "create_topic", name=name, topic_id=topic_id, total=1, configs={}, partitions=items)


def test_a_rollback_goes_back_to_a_state_that_was(store):
    states = [Image().apply_all(store.records_after(0))[0]]
    for number, name in enumerate("abc"):
        create(store, name, number)
        states.append(Image().apply_all(store.records_after(0))[0])
    process_id = store.process_id
    # A topic is two records in one call: half of it cannot be lost.
    store.lose_last(3)
    assert Image().apply_all(store.records_after(0))[0] == states[1]
    assert set(store.state.topic_ids) == {"a"}
    assert store.process_id != process_id
    assert create(store, "d", 9).code == "OK"


def test_records_after_a_store_rollback_are_another_history(store):
    create(store, "a", 1)
    before = store.records_after(0)[-1]
    store.lose_last(1)
    create(store, "b", 2)
    after = store.records_after(0)[-1]
    assert after.offset == before.offset
    assert after.chain_hash != before.chain_hash


def test_emptied_store_has_no_records_and_no_cluster(store):
    store.flush_all()
    assert store.records_after(0) == []
    assert call(store, "verify").code == "NO_CLUSTER"


def test_a_restart_keeps_the_data_and_changes_the_process(store):
    process_id = store.process_id
    store.restart()
    assert store.process_id != process_id
    assert call(store, "verify").code == "OK"


def test_records_are_read_from_an_offset_in_pieces(store):
    whole = store.records_after(0)
    assert store.records_after(2) == whole[2:]
    assert store.records_after(0, 2) == whole[:2]
    assert store.records_after(whole[-1].offset) == []


def test_a_reader_of_a_trimmed_log_gets_the_snapshot_first(store):
    from yak.cluster.snapshot import write_snapshot

    for number, name in enumerate("abc"):
        create(store, name, number)
    records = store.records_after(0)
    image = Image().apply_all(records)[0]
    call(store, "heartbeat", persisted=image.offset)
    import json

    snapshot = {"snapshot": json.dumps(write_snapshot(image).payload), "keep": 1}
    call(store, "trim", **snapshot, snapshot_offset=image.offset, snapshot_hash=image.chain_hash)
    create(store, "d", 9)
    late = Image().apply_all(store.records_after(0))[0]
    assert set(late.topics) == set("abcd")
    assert store.records_after(image.offset)[0].offset == image.offset + 1


def test_an_unknown_script_is_refused(store):
    assert call(store, "nonsense").code == "BAD_REQUEST"


def test_the_same_calls_give_the_same_hashes():
    hashes = []
    for _ in range(2):
        store = SimStore()
        call(store, "bootstrap", new_cluster_id="c", new_incarnation_id="i")
        call(store, "register", **BOOT)
        hashes.append(store.state.cluster["h"])
    assert hashes[0] == hashes[1]
