"""The check of last stable offsets finds one that passed an undecided transaction."""

import uuid
from types import SimpleNamespace

import pytest

from yak.ids import TopicPartition
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_batch import TRANSACTIONAL_BIT
from yak.protocol.record_writer import build_batch
from yak.sim.checks.stable_offsets_sound import StableOffsetsSound
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History, Key

PRODUCER, EPOCH = 7, 3
BEGIN = build_batch([(None, b"x")], 0, attributes=TRANSACTIONAL_BIT, producer_id=PRODUCER, producer_epoch=EPOCH)
END = build_marker(PRODUCER, EPOCH, EndTransactionMarker(is_commit=False, coordinator_epoch=0), 0)


class Replica:
    """A copy of one segment, and what its broker says about it."""

    def __init__(self):
        self.history, self.content = History([]), b""
        segment = SimpleNamespace(base_offset=0, path=lambda _suffix: "0.log")
        disk = SimpleNamespace(peek=lambda _path, position: self.content[position:])
        node = SimpleNamespace(disk=disk, node_id=1, broker=SimpleNamespace(partitions={}))
        place = TopicPartition("t", 0)
        self.copy = Copy(node, Key(str(uuid.UUID(int=1)), 0), place)
        self.log = self.copy.log = SimpleNamespace(
            segments=[segment], log_end_offset=0, log_start_offset=0, damage_at_load=None
        )
        self.partition = SimpleNamespace(log=self.log, high_watermark=0, last_stable_offset=0)
        self.copy.partition = node.broker.partitions[place] = self.partition
        self.check = StableOffsetsSound(self.history)

    def append(self, batch):
        """Append a batch of one record."""
        self.content += self.log.log_end_offset.to_bytes(8, "big") + batch[8:]
        self.log.log_end_offset += 1
        self.check.appended(self.copy, self.copy.read_on())

    def move(self, high_watermark, last_stable_offset):
        """The broker's offsets moved."""
        self.partition.high_watermark, self.partition.last_stable_offset = high_watermark, last_stable_offset
        self.check.watermark(self.copy, 0)


def test_stable_offset_behind_an_undecided_transaction_is_a_violation():
    replica = Replica()
    replica.append(build_batch([(None, b"x")], 0))
    replica.append(BEGIN)
    replica.move(2, 1)
    replica.append(END)
    with pytest.raises(Violation, match=r"t-0 on broker 1 is 2, and a transaction from 1 on is not decided"):
        replica.move(2, 2)
    replica.move(3, 3)


def test_marker_that_is_there_when_the_log_is_loaded_decides_and_one_that_is_gone_does_not():
    replica = Replica()
    replica.append(BEGIN)
    replica.append(END)
    replica.partition.high_watermark = replica.partition.last_stable_offset = 1
    replica.check.reopened(replica.copy, Chain())
    replica.move(1, 1)
    replica.content = replica.content[: len(BEGIN)]
    with pytest.raises(Violation, match="a transaction from 0 on"):
        replica.check.cut(replica.copy, Chain(), 1)


def test_stable_offset_may_be_the_log_start_and_anything_where_nothing_is_promised():
    replica = Replica()
    replica.append(BEGIN)
    replica.log.log_start_offset = 1
    replica.move(1, 1)
    replica.log.log_start_offset = 0
    replica.history.forfeited[replica.copy.key] = "lost"
    replica.move(1, 1)
