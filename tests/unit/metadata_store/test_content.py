"""A store's content as rows: types of all fields, and what an older version, Lua or damage leaves in them."""

import pytest

from yak.metadata_store.content import rows_of, state_of
from yak.metadata_store.state import StoreState
from yak.ports.metadata_store import TailedRecord

CLUSTER = {"cluster_id": "c", "incarnation": "1", "incarnation_id": "i", "state": "LIVE", "mo": "1", "h": "x"}
BROKER = {"broker_epoch": "1", "boot_id": "b", "directories": "d", "host": "h", "port": "9092", "role": "leader"}
EMPTY = {"hashes": [], "sets": [], "secret": "", "log": []}


def test_empty_store_has_no_rows():
    assert rows_of(StoreState()) == EMPTY
    assert state_of(EMPTY) == StoreState()


def test_empty_lists_of_lua_are_read():
    assert state_of({"hashes": {}, "sets": {}, "secret": "", "log": {}}) == StoreState()


def test_fields_of_a_restored_cluster_and_its_snapshot_keep_their_types():
    state = StoreState(secret="s")
    state.cluster = {"cluster_id": "c", "mo": 5, "h": "x", "ctl_id": -1, "lease_n": 3, "lost": 2, "parents": "a,b"}
    state.cluster |= {"took_part": {"1": [4, "y"]}, "migration_id": 7}
    state.snapshot = TailedRecord(4, "y", "Snapshot", 99, {"topics": [], "unregistered": "2@1"})
    state.log = [TailedRecord(5, "x", "Cluster", 100, {"lost": 2}, "y")]
    state.unregistered = {2: True}
    rows = rows_of(state)
    assert dict(rows["hashes"])["cluster"]["took_part"] == '{"1": [4, "y"]}'
    assert dict(rows["hashes"])["snapshot"]["offset"] == "4"
    assert rows["log"] == [[5, "Cluster", '{"lost": 2}', "x", "y", 100]]
    assert state_of(rows) == state


def test_fields_that_an_older_version_did_not_write_have_defaults():
    topic, partition = (
        {"name": "a", "total": "1", "made": "1"},
        {"replicas": "1", "isr": "1@1", "elr": "", "leader": "1"},
    )
    partition |= {"leader_epoch": "0", "partition_epoch": "0"}
    hashes = [["cluster", CLUSTER], ["b:1", BROKER], ["t:x", topic], ["p:x:0", partition]]
    state = state_of(EMPTY | {"hashes": hashes, "sets": [["brokers", ["1"]]]})
    assert state.cluster["lease_n"] == 0
    assert (state.brokers[1]["rack"], state.brokers[1]["acted_epoch"], state.brokers[1]["port"]) == (None, 0, 9092)
    assert (state.topics["x"]["complete"], state.topics["x"]["creator_id"]) == (True, -1)
    assert (state.partitions["x", 0]["partition"], state.partitions["x", 0]["adding"]) == (0, "")


@pytest.mark.parametrize(
    "damaged",
    [
        {"hashes": [["b:1", BROKER]]},
        {"sets": [["brokers", ["1"]]]},
        {"hashes": [["unknown", {"a": "b"}]]},
        {"hashes": [["cluster", {"mo": "many"}]]},
        {"log": [[1, "Cluster", "{", "x", "", 5]]},
    ],
)
def test_damaged_rows_are_refused(damaged):
    with pytest.raises(ValueError, match=r"."):
        state_of(EMPTY | damaged)
