"""Valid batches that stand in the wrong place: a coordinator believes none, a follower says so and asks later."""

import uuid

import pytest

from tests.unit.broker import group_requests as ask
from tests.unit.broker.test_coordinator import make_rig
from yak.config.log_config import LogConfig
from yak.errors import ProtocolViolation
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import TopicPartition
from yak.protocol.record_batch import iterate_headers
from yak.replication.partition import Partition
from yak.sim.disk import SimDisk
from yak.sim.wire import record_batch
from yak.storage.log_store import LogStore


@pytest.mark.parametrize("taken", [0, 2])
def test_a_coordinator_believes_no_commit_that_stands_where_another_was(taken: int) -> None:
    rig = make_rig()
    for offset in (5, 6, 7, 8):
        assert ask.commit(rig, {0: offset}) == [0]
    disk, path = rig.node.disk, f"/data/{OFFSETS_TOPIC}-0/{0:020d}.log"
    whole = disk.peek(path, 0)
    rig.restart(orderly=True)
    places = [(place, place + header.size_bytes) for place, header in iterate_headers(whole)]
    begin, end = places[taken]
    victim = disk.contents()[path]
    assert victim.damage(places[1][0] if taken else places[3][0], whole[begin:end])
    rig.restart(orderly=True)
    rig.run_for(2_000)
    assert any(notice.event == "coordinator-log-unreadable" for notice in rig.node.notices)
    victim.data[:] = victim.sound()
    rig.run_for(5_000)
    assert ask.committed(rig, [0]) == [8]


def test_an_answer_to_where_the_log_ends_that_is_not_what_comes_next_is_refused() -> None:
    store = LogStore.open(SimDisk(), ["/data"], 1, lambda: uuid.UUID(int=9), 0, lambda _topic: LogConfig())
    log = store.create(TopicPartition("t", 0), uuid.UUID(int=7), LogConfig())
    batches = [bytearray(record_batch([b"value"], 0)) for _ in range(4)]
    for offset, batch in enumerate(batches):
        batch[:8] = offset.to_bytes(8, "big")
    for batch in batches[:2]:
        log.append_as_follower(bytes(batch), 0)
    partition = Partition(log.topic_partition, log.topic_id, log)
    assert partition.may_follow(batches[2], 2)
    for wrong in (batches[0], batches[3]):
        with pytest.raises(ProtocolViolation, match="the log ends at 2"):
            partition.may_follow(wrong, 2)
        assert not partition.may_follow(wrong, 1), "an answer to an older question"
