"""Truncation of a follower's log: no turn waits for the disk, and no append precedes the sync of the truncation."""

from __future__ import annotations

import errno

import pytest

from tests.cluster_rig import ClusterRig
from tests.unit.broker.requests import delete_records, delete_topic
from yak.ids import TopicPartition
from yak.limits import PRODUCER_BATCHES_REMEMBERED
from yak.ports.disk import DiskFull
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_batch import TRANSACTIONAL_BIT, iterate_headers, read_header
from yak.protocol.record_writer import build_batch
from yak.protocol.replica_fetch import FetchedPartition
from yak.replication.replica_fetcher import ReplicaFetcher
from yak.sim.store_line import STORE
from yak.storage.log_directory import LOWERED_RECOVERY_POINTS

LONG_US = 500_000


class Watch:
    """What one broker does to its files, and whether in a turn."""

    def __init__(self, rig: ClusterRig, node_id: int) -> None:
        self.seen: list[tuple[str, str, bool]] = []
        self._in_turn = False
        node = rig.nodes[node_id - 1]
        self._step, self._may_fail = node.broker.step, node.disk.may_fail
        node.broker.step, node.disk.may_fail = self.step, self.may_fail

    def step(self, event, now_ms):
        self._in_turn = True
        try:
            return self._step(event, now_ms)
        finally:
            self._in_turn = False

    def may_fail(self, operation, path):
        self.seen.append((operation, path, self._in_turn))
        self._may_fail(operation, path)

    def waits(self) -> list[tuple[str, str]]:
        """What waited for the device in a turn."""
        return [(what, path) for what, path, in_turn in self.seen if in_turn and what in ("sync", "write_file")]

    def changes(self, place: str = "orders-0") -> list[str]:
        """In which order a partition's records and names were changed and synced, repetitions left out."""
        files = {f"/data/{place}": "names", f"/data/{place}/00000000000000000000.log": "records"}
        found = [
            f"{what} {files[path]}" for what, path, _ in self.seen if path in files and what not in ("open", "read")
        ]
        return [each for number, each in enumerate(found) if found[number - 1 : number] != [each]]


def make_rig(**configs: str) -> ClusterRig:
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"}, hands_back=False)
    rig.create_topic("orders", min_insync_replicas="2", **configs)
    rig.produce("orders", [b"a"], keys=[b"a"])
    return rig


@pytest.fixture(params=[{}, {"flush_messages": "1"}], ids=["", "flushed"])
def rig(request) -> ClusterRig:
    """With flush.messages=1 a truncation goes below the recovery point, which is lowered first."""
    return make_rig(**request.param)


def diverge(rig: ClusterRig) -> tuple[int, int]:
    """Depose a leader that has two records more than the others; gives it, and the new leader."""
    deposed = rig.leader("orders")
    others = [node for node in rig.info("orders").replicas if node != deposed]
    for node in others:
        rig.cluster.cut(f"n{deposed}", f"n{node}")
    rig.begin_produce("orders", [b"x", b"y"], acks=1)
    rig.run_until(lambda: rig.replica(deposed, "orders").log_end_offset == 3)
    # it hears of its successor when it can ask for that one's records
    rig.cluster.cut(f"n{deposed}", STORE)
    rig.elect("orders", others[0])
    rig.run_until(lambda: all(rig.replica(node, "orders").leader_id == others[0] for node in others))
    for party in (f"n{others[0]}", f"n{others[1]}", STORE):
        rig.cluster.reconnect(f"n{deposed}", party)
    return deposed, others[0]


def is_being_truncated(rig: ClusterRig, node_id: int) -> bool:
    return rig.replica(node_id, "orders").truncation is not None


def test_truncation_waits_for_no_sync_in_a_turn_and_no_append_precedes_its_sync(rig):
    watch = Watch(rig, rig.leader("orders"))
    deposed, leader = diverge(rig)
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    rig.run_until(lambda: rig.replica(leader, "orders").is_leader)
    rig.produce("orders", [b"b"])
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert watch.waits() == []
    changes = watch.changes()
    changes = changes[changes.index("truncate records") :]
    assert changes[:4] == ["truncate records", "sync records", "sync names", "append records"]
    assert rig.replica(deposed, "orders").log_end_offset == 2


def test_partition_under_truncation_is_not_fetched_and_ignores_an_answer_under_way(rig):
    deposed, leader = diverge(rig)
    node = rig.nodes[deposed - 1]
    node.jobs.delays_us = {"truncate": LONG_US}
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    rig.run_until(lambda: rig.replica(leader, "orders").is_leader)
    rig.begin_produce("orders", [b"b"], acks=1)
    rig.run_until(lambda: rig.replica(leader, "orders").log_end_offset == 2)
    replica = rig.replica(deposed, "orders")
    rig.run_until(lambda: replica.log_end_offset == 1)
    batch = rig.replica(leader, "orders").log.read(1, 10_000, 2, at_least_one=True)
    fetcher: ReplicaFetcher = node.broker.replica_fetchers._fetchers[leader]
    topic_id = replica.topic_id.bytes
    assert (topic_id, 0) in fetcher._named
    fetcher._take(FetchedPartition(topic_id, 0, 0, 2, 2, 0, memoryview(bytes(batch)), None, None))
    rig.run_for(LONG_US // 4000)
    assert (replica.log_end_offset, is_being_truncated(rig, deposed)) == (1, True)
    node.jobs.delays_us = {}
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert replica.log_end_offset == 2


def test_replica_elected_before_the_sync_of_its_truncation_syncs_before_it_appends():
    rig = make_rig()
    deposed, _ = diverge(rig)
    rig.nodes[deposed - 1].jobs.delays_us = {"truncate": 4 * LONG_US}
    replica = rig.replica(deposed, "orders")
    rig.run_until(lambda: replica.log is not None and replica.log.unsynced_truncation is not None)
    rig.elect("orders", deposed)
    rig.run_until(lambda: replica.is_leader)
    watch = Watch(rig, deposed)
    assert rig.produce("orders", [b"b"]).base_offset == 1
    assert watch.changes()[:3] == ["sync records", "sync names", "append records"]
    assert rig.produce("orders", [b"c"]).base_offset == 2
    assert watch.waits() == [("sync", "/data/orders-0/00000000000000000000.log"), ("sync", "/data/orders-0")]
    rig.run_until(lambda: not is_being_truncated(rig, deposed))
    assert rig.produce("orders", [b"d"]).base_offset == 3
    rig.run_until(lambda: rig.is_in_sync("orders"))


def test_replica_elected_before_its_truncation_keeps_and_commits_its_records():
    rig = make_rig(flush_messages="1")
    deposed, _ = diverge(rig)
    rig.nodes[deposed - 1].jobs.delays_us = {"truncate": LONG_US}
    replica = rig.replica(deposed, "orders")
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    assert (replica.log_end_offset, replica.log.recovery_point) == (3, 1)
    rig.elect("orders", deposed)
    rig.run_until(lambda: replica.is_leader)
    rig.run_until(lambda: rig.is_in_sync("orders"))
    rig.run_until(lambda: replica.high_watermark == 3)
    assert "log-truncated" not in rig.events(deposed)


def test_leader_elected_during_a_truncation_decides_the_divergence_again(rig):
    deposed, _ = diverge(rig)
    other = next(node for node in (1, 2, 3) if node not in (deposed, rig.leader("orders")))
    rig.nodes[deposed - 1].jobs.delays_us = {"truncate": LONG_US}
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    rig.elect("orders", other)
    rig.run_until(lambda: rig.replica(other, "orders").is_leader)
    rig.nodes[deposed - 1].jobs.delays_us = {}
    assert rig.produce("orders", [b"b"]).base_offset == 1
    rig.run_until(lambda: rig.is_in_sync("orders") and not is_being_truncated(rig, deposed))
    assert rig.replica(deposed, "orders").log_end_offset == 2


@pytest.mark.parametrize("operation", ["write_file", "truncate", "sync"])
def test_truncation_that_fails_takes_the_directory_offline(operation):
    rig = make_rig(flush_messages="1")
    deposed, _ = diverge(rig)
    part = "lowered" if operation == "write_file" else "orders-0"
    rig.nodes[deposed - 1].disk.fail_next(operation, path_contains=part)
    rig.run_until(lambda: "log-directory-offline" in rig.events(deposed))
    assert rig.replica(deposed, "orders").log is None
    assert not is_being_truncated(rig, deposed)
    rig.run_for(LONG_US // 500)
    assert rig.nodes[deposed - 1].broker is not None


def test_topic_deleted_during_a_truncation_leaves_no_files(rig):
    deposed, _ = diverge(rig)
    rig.nodes[deposed - 1].jobs.delays_us = {"truncate": LONG_US}
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    delete_topic(rig, "orders", node_id=deposed)
    rig.run_for(LONG_US // 500)
    assert not [path for path in rig.nodes[deposed - 1].disk.contents() if "orders" in path]
    assert "log-directory-offline" not in rig.events(deposed)
    rig.create_topic("orders", min_insync_replicas="2")
    assert rig.produce("orders", [b"a"]).base_offset == 0


def test_failed_sync_of_a_truncation_takes_the_directory_offline_though_the_topic_was_deleted():
    rig = make_rig()
    deposed, _ = diverge(rig)
    node = rig.nodes[deposed - 1]
    node.jobs.delays_us = {"truncate": LONG_US, "delete": 100 * LONG_US}
    replica = rig.replica(deposed, "orders")
    rig.run_until(lambda: replica.log is not None and replica.log.unsynced_truncation is not None)
    delete_topic(rig, "orders", node_id=deposed)
    rig.run_until(lambda: replica.log is None)
    node.disk.fail_next("sync", path_contains=".log")
    rig.run_until(lambda: "log-directory-offline" in rig.events(deposed))


def test_stop_waits_for_the_sync_of_a_truncation_and_is_clean(rig):
    deposed, _ = diverge(rig)
    node = rig.nodes[deposed - 1]
    node.jobs.delays_us = {"truncate": LONG_US}
    rig.run_until(lambda: is_being_truncated(rig, deposed))
    began_ms = rig.world.now_ms
    node.stop()
    rig.run_until(lambda: node.broker is None)
    assert rig.world.now_ms - began_ms >= LONG_US // 1000 - 50
    node.jobs.delays_us = {}
    assert node.disk.exists("/data/.kafka_cleanshutdown")
    assert not node.disk.contents()["/data/orders-0/00000000000000000000.log"].cut
    node.start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(deposed, "orders").log_end_offset == 1


def test_many_truncations_of_one_turn_share_their_jobs():
    rig = ClusterRig(hands_back=False)
    rig.create_topic("many", partitions=120, replication_factor=2)
    node_id = max((1, 2, 3), key=lambda node: sum(rig.leader("many", index) == node for index in range(120)))
    node = rig.nodes[node_id - 1]
    led = [index for index in range(120) if rig.leader("many", index) == node_id]
    for other in {1, 2, 3} - {node_id}:
        rig.cluster.cut(f"n{node_id}", f"n{other}")
    for index in led:
        rig.begin_produce("many", [b"x"], partition=index, acks=1)
    rig.run_until(lambda: all(rig.replica(node_id, "many", index).log_end_offset == 1 for index in led))
    node.pause()
    rig.run_until(lambda: all(rig.leader("many", index) not in (node_id, -1) for index in led))
    for other in {1, 2, 3} - {node_id}:
        rig.cluster.reconnect(f"n{node_id}", f"n{other}")
    for index in led:
        rig.run_until(lambda index=index: rig.replica(rig.leader("many", index), "many", index).is_leader)
        rig.produce("many", [b"b"], partition=index)
    watch, started = Watch(rig, node_id), []
    run = node.broker.jobs.run
    node.broker.jobs.run = lambda kind, *more: (started.append(kind), run(kind, *more))
    node.resume()
    rig.run_until(lambda: all(rig.is_in_sync("many", index) for index in led))
    assert rig.events(node_id).count("log-truncated") == len(led)
    assert 1 <= started.count("truncate") < len(led) / 2
    assert [path for _, path in watch.waits() if "many" in path] == []


def replace_committed() -> tuple[ClusterRig, int]:
    """An unclean election of a replica with one record; the former leader, with four that are committed, starts behind it."""
    rig = ClusterRig(settings={"log.flush.offset.checkpoint.interval.ms": "500"}, hands_back=False)
    rig.create_topic("orders", replication_factor=2, unclean_leader_election_enable="true")
    rig.produce("orders", [b"a"])
    first, second = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[second - 1].kill()
    for _ in range(3):
        assert rig.produce("orders", [b"b"]).error_code == 0
    rig.run_for(2_000)
    node = rig.nodes[first - 1]
    node.kill()
    rig.nodes[second - 1].start()
    rig.run_until(lambda: rig.leader("orders") == second and rig.replica(second, "orders").is_leader)
    node.start()
    rig.run_until(lambda: node.broker is not None and ("orders", 0) in node.broker.partitions)
    assert rig.replica(first, "orders").high_watermark == 4
    return rig, first


@pytest.mark.parametrize("checkpoints", [False, True])
def test_kill_after_a_truncation_below_the_high_watermark_exposes_no_record_early(checkpoints):
    """The high watermark of a checkpoint, also of one during the truncation, counts records that are gone."""
    rig, first = replace_committed()
    node = rig.nodes[first - 1]
    if checkpoints:
        node.jobs.delays_us = {"truncate": 4 * LONG_US}
        rig.run_until(lambda: is_being_truncated(rig, first))
        rig.run_for(1_200)
    rig.run_until(lambda: "truncated-below-high-watermark" in rig.events(first))
    node.jobs.delays_us["checkpoint"] = 60_000_000
    rig.run_for(600)
    node.kill()
    node.jobs.delays_us = {}
    node.start()
    rig.run_until(lambda: node.broker is not None)
    assert node.broker.log_store.high_watermarks[TopicPartition("orders", 0)] <= 1


def test_damaged_log_keeps_the_high_watermark_that_a_truncation_lowered():
    """A checkpoint had the one of the last stop: after a restart that finds no damage, truncated records count."""
    rig, first = replace_committed()
    node, partition = rig.nodes[first - 1], rig.replica(first, "orders")
    rig.run_until(lambda: "truncated-below-high-watermark" in rig.events(first))
    node.jobs.delays_us["image"] = 60_000_000
    node.enter(lambda: node.broker.log_failures.log_damaged(partition, "a wrong CRC, once"))
    rig.run_for(2_000)
    node.kill()
    node.jobs.delays_us = {}
    node.start()
    rig.run_until(lambda: node.broker is not None)
    assert node.broker.log_store.high_watermarks[TopicPartition("orders", 0)] <= 1


def test_truncation_whose_recovery_point_finds_no_room_is_repeated():
    rig = make_rig(flush_messages="1")
    deposed, _ = diverge(rig)
    rig.nodes[deposed - 1].disk.fail_next("write_file", errno.ENOSPC, path_contains="lowered")
    rig.run_until(lambda: "log-directory-full" in rig.events(deposed))
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(deposed, "orders").log_end_offset == 1
    assert "log-directory-offline" not in rig.events(deposed)


def test_truncation_for_another_leader_waits_for_the_recovery_point_that_found_no_room():
    """In memory it is lower already. On the disk it would count records behind the truncation as synced."""
    rig = make_rig(flush_ms="1")
    deposed, leader = diverge(rig)
    disk = rig.nodes[deposed - 1].disk
    for _ in range(3):
        disk.fail_next("write_file", errno.ENOSPC, path_contains="lowered")
    rig.run_until(lambda: "log-directory-full" in rig.events(deposed))
    [other] = {1, 2, 3} - {deposed, leader}
    rig.elect("orders", other)
    rig.run_until(lambda: rig.replica(deposed, "orders").log_end_offset == 1)
    assert rig.replica(deposed, "orders").leader_id == other
    assert disk.exists(f"/data/{LOWERED_RECOVERY_POINTS}")


def test_stop_truncates_no_log_that_is_being_closed():
    """A truncation that found no room is repeated within a second. The close has noted the log end by then."""
    rig = make_rig()
    behind, leader = rig.followers("orders")[0], rig.leader("orders")
    node = rig.nodes[behind - 1]
    node.stop()
    rig.run_until(lambda: node.broker is None)
    rig.run_until(lambda: behind not in rig.info("orders").isr)
    for _ in range(3):
        rig.produce("orders", [b"b"])
    delete_records(rig, "orders", 4, node_id=leader)
    node.disk.fail_next("open", errno.ENOSPC, path_contains=f"orders-0/{4:020}.log")
    node.start()
    rig.run_until(lambda: "log-directory-full" in rig.events(behind))
    node.jobs.delays_us = {"checkpoint": 3_000_000}
    node.stop()
    rig.run_until(lambda: node.broker is None)
    assert not node.disk.exists(f"/data/orders-0/{4:020}.log")
    node.jobs.delays_us = {}
    node.start()
    rig.run_until(lambda: rig.is_in_sync("orders"))


def batches(rig: ClusterRig, node_id: int) -> dict[int, int]:
    """The producer id of each batch in a replica's log, by base offset."""
    log, disk = rig.replica(node_id, "orders").log, rig.nodes[node_id - 1].disk
    data = b"".join(disk.peek(segment.path(".log"), 0) for segment in log.segments)
    return {header.base_offset: header.producer_id for _, header in iterate_headers(data)}


def append(rig: ClusterRig, *found: bytes) -> None:
    """Append batches of a producer's transactions to the leader's log."""
    partition = rig.replica(rig.leader("orders"), "orders")
    for batch in found:
        partition.log.append(read_header(batch), batch, partition.leader_epoch, rig.world.now_ms)


def transactional(key: bytes, sequence: int, producer_id: int = 7) -> bytes:
    return build_batch(
        [(key, b"x")],
        0,
        attributes=TRANSACTIONAL_BIT,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )


def marker(producer_id: int, *, is_commit: bool) -> bytes:
    return build_marker(producer_id, 0, EndTransactionMarker(is_commit, coordinator_epoch=0), 0)


def make_compacting_rig(settings: dict[str, str] | None = None, *, min_isr: str = "2") -> ClusterRig:
    """A topic of small segments that are compacted soon, and whose markers are removed at once."""
    cleaner = {"replica.lag.time.max.ms": "2000", "log.cleaner.backoff.ms": "20"}
    rig = ClusterRig(settings=cleaner | (settings or {}), hands_back=False)
    configs = {"cleanup_policy": "compact", "segment_bytes": "700", "delete_retention_ms": "0"}
    rig.create_topic("orders", min_insync_replicas=min_isr, min_cleanable_dirty_ratio="0", **configs)
    return rig


def commit_the_next_transaction(rig: ClusterRig) -> None:
    """Append another transaction of producer 7, until compaction removed the records 1 and 3, of its first one."""
    append(rig, *(transactional(b"c", sequence) for sequence in range(1, 1 + PRODUCER_BATCHES_REMEMBERED)))
    append(rig, marker(7, is_commit=True))
    while {1, 3} & batches(rig, rig.leader("orders")).keys():
        rig.produce("orders", [b"2"], keys=[b"b"])
        rig.run_for(500)


def test_follower_behind_the_removal_of_an_aborted_transaction_drops_its_records():
    """Otherwise the commit of the producer's next transaction would commit them too."""
    rig = make_compacting_rig()
    rig.produce("orders", [b"1"], keys=[b"b"])
    append(rig, transactional(b"a", 0))
    rig.produce("orders", [b"1"], keys=[b"b"])
    rig.run_until(lambda: rig.is_in_sync("orders"))
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[behind - 1].kill()
    append(rig, marker(7, is_commit=False))
    commit_the_next_transaction(rig)
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert batches(rig, behind) == batches(rig, leader)
    assert rig.replica(behind, "orders").last_stable_offset == rig.replica(behind, "orders").high_watermark
    assert "open-transaction-copied-again" in rig.events(behind)
    assert "truncated-below-high-watermark" not in rig.events(behind)
    regressed = [each.level for each in rig.nodes[leader - 1].notices if each.event == "replica-end-regressed"]
    assert regressed == ["info"], "it was not in sync, so nothing counted on its log"


def test_follower_copies_transactions_again_until_none_is_open_whose_marker_the_truncation_removed():
    """The truncation to the first record of an open transaction reopens one that began before that record."""
    rig = make_compacting_rig()
    rig.produce("orders", [b"1"], keys=[b"b"])
    append(rig, transactional(b"a", 0), transactional(b"d", 0, producer_id=8), marker(7, is_commit=False))
    rig.produce("orders", [b"1"], keys=[b"b"])
    rig.run_until(lambda: rig.is_in_sync("orders"))
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    rig.nodes[behind - 1].kill()
    append(rig, marker(8, is_commit=True))
    commit_the_next_transaction(rig)
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert batches(rig, behind) == batches(rig, leader)


def test_retention_of_the_open_transaction_during_a_truncation_to_it_ends_no_broker():
    """With a full disk a truncation waits, and retention makes room: its offset was in no segment any more."""
    rig = make_rig(cleanup_policy="compact,delete", segment_bytes="700", flush_messages="1")
    append(rig, transactional(b"a", 0))
    for _ in range(16):
        rig.produce("orders", [b"1"], keys=[b"b"])
    rig.run_until(lambda: rig.is_in_sync("orders"))
    behind = rig.followers("orders")[0]
    node = rig.nodes[behind - 1]
    node.kill()
    append(rig, marker(7, is_commit=False))
    rig.produce("orders", [b"1"], keys=[b"b"])
    node.disk.fail_next("write_file", errno.ENOSPC, path_contains="lowered")
    node.start()
    rig.run_until(lambda: "log-directory-full" in rig.events(behind))
    log = rig.replica(behind, "orders").log
    assert is_being_truncated(rig, behind)
    log.remove_segments(log.segments[:1], rig.world.now_ms)
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert "broker-halted" not in rig.events(behind)


def test_follower_with_a_full_disk_until_the_marker_was_removed_drops_the_aborted_records(monkeypatch):
    """The session lasts meanwhile. The commit of the producer's next transaction committed the records here."""
    rig = make_compacting_rig({"replica.fetch.max.bytes": "1", "replica.fetch.response.max.bytes": "1"}, min_isr="1")
    rig.run_until(lambda: rig.is_in_sync("orders"))
    leader, behind = rig.leader("orders"), rig.followers("orders")[0]
    node = rig.nodes[behind - 1]
    node.kill()
    rig.run_until(lambda: behind not in rig.info("orders").isr)
    rig.produce("orders", [b"1"], keys=[b"b"])
    append(rig, transactional(b"a", 0))
    rig.produce("orders", [b"1"], keys=[b"b"])
    node.start()
    rig.run_until(lambda: node.broker is not None and ("orders", 0) in node.broker.partitions)
    rig.run_until(lambda: rig.replica(behind, "orders").log_end_offset == 2)
    may_fail = node.disk.may_fail

    def full(operation, path):
        if operation == "append" and "orders-0" in path:
            raise DiskFull(errno.ENOSPC, "No space left on device", path)
        may_fail(operation, path)

    monkeypatch.setattr(node.disk, "may_fail", full)
    append(rig, marker(7, is_commit=False))
    commit_the_next_transaction(rig)
    monkeypatch.undo()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert batches(rig, behind) == batches(rig, leader)
    assert rig.replica(behind, "orders").last_stable_offset == rig.replica(behind, "orders").high_watermark
    assert "truncated-below-high-watermark" not in rig.events(behind)


def test_follower_behind_a_transaction_that_is_open_on_the_leader_keeps_its_records():
    """Otherwise a hanging transaction would be copied with all that follows it at each start of a broker."""
    rig = ClusterRig(settings={"replica.lag.time.max.ms": "2000"}, hands_back=False)
    rig.create_topic("orders", min_insync_replicas="2", cleanup_policy="compact")
    append(rig, transactional(b"a", 0))
    rig.produce("orders", [b"1"], keys=[b"b"])
    rig.run_until(lambda: rig.is_in_sync("orders"))
    behind = rig.followers("orders")[0]
    rig.nodes[behind - 1].kill()
    rig.produce("orders", [b"2"], keys=[b"b"])
    rig.nodes[behind - 1].start()
    rig.run_until(lambda: rig.is_in_sync("orders"))
    assert rig.replica(behind, "orders").last_stable_offset == 0
    assert "open-transaction-copied-again" not in rig.events(behind)
