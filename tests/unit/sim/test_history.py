"""What the checks see of a copy: its batches as far as a reader can see them."""

import uuid
from types import SimpleNamespace

from yak.ids import TopicPartition
from yak.protocol.record_writer import build_batch
from yak.sim.history import Chain, History, Key

PLACE = TopicPartition("t", 0)
KEY = Key(str(uuid.UUID(int=1)), 0)


def batch(offset: int, epoch: int) -> bytes:
    data = bytearray(build_batch([(b"k", b"v")], 10_000))
    data[:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


class Bench:
    """One broker with a follower's copy of two batches, the first of which has diverged."""

    def __init__(self) -> None:
        segment = SimpleNamespace(base_offset=0, path=lambda _suffix: "0.log")
        self.log = SimpleNamespace(segments=[segment], generation=0, swaps=0, log_end_offset=2, log_start_offset=0)
        role = {"is_leader": False, "leader_epoch": 1, "partition_epoch": 0, "isr": (), "pending_isr": None}
        self.partition = SimpleNamespace(log=self.log, topic_id=KEY.topic_id, high_watermark=0, truncation=None, **role)
        self.node = SimpleNamespace(
            node_id=1,
            starts_count=1,
            disk=SimpleNamespace(peek=lambda _path, position: (batch(0, 0) + batch(1, 1))[position:]),
            broker=SimpleNamespace(partitions={PLACE: self.partition}),
        )
        self.history = History([self.node])
        committed = self.history.committed[KEY] = Chain()
        for offset in (0, 1):
            committed.add(offset, offset + 1, 1, int.from_bytes(batch(offset, 1)[17:21], "big"))
        self.history.observe(self.node)

    @property
    def agrees(self) -> bool:
        """Whether the checks take the copy for one with all that is committed."""
        return self.history.copies[KEY][1].chain.at(2) == self.history.committed[KEY].at(2)

    def start_again(self) -> None:
        """The broker loads the log as it is."""
        self.node.starts_count += 1
        self.log = self.partition.log = SimpleNamespace(**vars(self.log))
        self.history.observe(self.node)


def test_divergence_below_the_log_start_is_not_detected_before_or_after_a_restart():
    bench = Bench()
    assert not bench.agrees
    bench.log.log_start_offset = 1
    bench.history.observe(bench.node)
    assert bench.agrees
    bench.start_again()
    assert bench.agrees


def test_divergence_is_detected_again_when_a_start_loses_the_log_start():
    bench = Bench()
    bench.log.log_start_offset = 1
    bench.history.observe(bench.node)
    bench.log.log_start_offset = 0
    bench.start_again()
    assert not bench.agrees
