"""What a quorum's leader writes to the Redis of its projection: differences, and no offset that is older."""

from types import SimpleNamespace

import trio

from yak.metadata_store.state import StoreState
from yak.server.redis_projection import RedisProjection

TOPIC = "t1"


def state() -> StoreState:
    made = StoreState()
    made.cluster = {"cluster_id": "c", "ctl_id": 1, "ctl_epoch": 2, "mo": 9}
    made.brokers[1] = {"broker_epoch": 3, "state": "ACTIVE", "host": "h", "port": 9092, "role": "leader", "rack": None}
    made.topics[TOPIC] = {"name": "orders", "total": 1, "made": 1}
    made.topic_ids["orders"] = TOPIC
    made.partitions[TOPIC, 0] = {
        "replicas": "1,2",
        "isr": "1@3",
        "elr": "",
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 7,
    }
    made.configs["topic:orders"] = {"min.insync.replicas": "2"}
    made.high_watermarks[TOPIC, 0] = (4, 10)
    made.log_end_offsets[TOPIC, 0] = (4, {"1": 12})
    return made


class Leader:
    """A projection of this state, with a Redis that takes everything."""

    def __init__(self, of: StoreState) -> None:
        machine = SimpleNamespace(state=of)
        quorum = SimpleNamespace(machine=machine, epoch=5, is_ready_leader=True)
        broker = SimpleNamespace(quorum=SimpleNamespace(quorum=quorum))
        self.projection = RedisProjection("redis://h:1/0", broker)  # type: ignore[arg-type]
        self.of = of

    def differences(self, *, is_same: bool = False) -> list[list[str]]:
        """The commands that would be written, which count as written then."""
        found = trio.run(lambda: self.projection._differences(self.of, is_same=is_same))
        for name, value, _commands in found:
            self.projection._written[name] = value
            if value is None:
                del self.projection._written[name]
        return [command for _, _, commands in found for command in commands]


def test_new_redis_gets_the_keys_of_a_cluster_with_redis():
    assert Leader(state()).differences() == [
        ["DEL", "{y}:b:1"],
        ["HSET", "{y}:b:1", "broker_epoch", "3", "state", "ACTIVE", "host", "h", "port", "9092", "role", "leader"],
        ["SADD", "{y}:brokers", "1"],
        ["HSET", "{y}:tn", "orders", TOPIC],
        ["HSET", f"{{y}}:t:{TOPIC}", "name", "orders", "total", "1", "made", "1"],
        ["HSET", f"{{y}}:p:{TOPIC}:0", "replicas", "1,2", "isr", "1@3", "elr", "", "leader", "1", "leader_epoch", "4",
         "partition_epoch", "7"],
        ["HSET", "{y}:configs", "topic:orders", '{"min.insync.replicas": "2"}'],
        ["HSET", "{y}:hw", f"{TOPIC}:0", "4:10"],
        ["HSET", "{y}:leo", f"{TOPIC}:0", '{"le": 4, "leo": {"1": 12}}'],
    ]  # fmt: skip


def test_only_changes_are_written():
    leader = Leader(state())
    leader.differences()
    assert leader.differences() == []
    leader.of.high_watermarks[TOPIC, 0] = (4, 12)
    assert leader.differences(is_same=True) == [["HSET", "{y}:hw", f"{TOPIC}:0", "4:12"]]
    leader.of.partitions[TOPIC, 0] |= {"isr": "1@3,2@5", "partition_epoch": 8}
    assert [command[:2] for command in leader.differences()] == [["HSET", f"{{y}}:p:{TOPIC}:0"]]


def test_deleted_topic_leaves_nothing():
    leader = Leader(state())
    leader.differences()
    emptied = leader.of
    for gone in (emptied.topics, emptied.partitions, emptied.configs, emptied.high_watermarks, emptied.log_end_offsets):
        gone.clear()
    emptied.topic_ids.clear()
    assert sorted(leader.differences()) == [
        ["DEL", f"{{y}}:p:{TOPIC}:0"],
        ["DEL", f"{{y}}:t:{TOPIC}"],
        ["HDEL", "{y}:configs", "topic:orders"],
        ["HDEL", "{y}:hw", f"{TOPIC}:0"],
        ["HDEL", "{y}:leo", f"{TOPIC}:0"],
        ["HDEL", "{y}:tn", "orders"],
    ]


def test_offsets_of_an_earlier_term_do_not_replace_newer_ones():
    leader = Leader(state())
    leader.projection._written["hw", (TOPIC, 0)] = (4, 11)
    written = [command[1] for command in leader.differences()]
    assert "{y}:hw" not in written
    assert "{y}:leo" not in written
    leader.of.high_watermarks[TOPIC, 0] = (4, 11)
    leader.of.log_end_offsets[TOPIC, 0] = (4, {"1": 13})
    assert leader.differences() == [["HSET", "{y}:leo", f"{TOPIC}:0", '{"le": 4, "leo": {"1": 13}}']]


def test_metadata_that_are_moved_are_not_projected():
    leader = Leader(state())
    for name, leads in (("LIVE", True), ("EXPORTED", False), ("IMPORTED", False), ("MOVED", False)):
        leader.of.cluster["state"] = name
        assert leader.projection._leads is leads
    leader.of.cluster.clear()
    assert not leader.projection._leads
