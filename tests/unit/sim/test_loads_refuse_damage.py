"""The check on loads of damaged logs, with a coordinator whose disk and state the test sets."""

import uuid
from collections import Counter
from types import SimpleNamespace

import pytest

from yak.ids import TopicPartition
from yak.protocol.record_batch import CRC_START
from yak.protocol.record_writer import build_batch
from yak.sim.checks.loads_refuse_damage import LoadsRefuseDamage
from yak.sim.deliveries import Violation
from yak.sim.disk import SimDisk
from yak.sim.history import Copy, Key

KEY = Key(str(uuid.UUID(int=1)), 0)
PATH = "/d/__consumer_offsets-0/00000000000000000000.log"
RECORD_AT = 70
"""Within the records of the first batch."""


class Coordinator:
    """Broker 1 leads `__consumer_offsets-0`, whose log has two batches of one record, and begins to load it."""

    def __init__(self) -> None:
        disk = SimDisk()
        disk.make_directory("/d/__consumer_offsets-0")
        file = disk.open(PATH, create=True)
        for offset in range(2):
            batch = bytearray(build_batch([(b"key", b"value")], 1_000))
            batch[:8] = offset.to_bytes(8, "big")
            file.append([batch])
        self.content = disk.contents()[PATH]
        topic_partition = TopicPartition("__consumer_offsets", 0)
        self.log = SimpleNamespace(log_start_offset=0, log_end_offset=2)
        partition = SimpleNamespace(topic_id=KEY.topic_id, topic_partition=topic_partition, log=self.log)
        self.coordinated = SimpleNamespace(partition=partition, is_loading=True)
        runtime = SimpleNamespace(coordinated={0: self.coordinated})
        self.node = SimpleNamespace(
            node_id=1,
            disk=disk,
            directories=["/d"],
            broker=SimpleNamespace(group_coordinator=SimpleNamespace(runtime=runtime)),
        )
        self.history = SimpleNamespace(copies={KEY: {1: Copy(self.node, KEY, topic_partition)}}, counts=Counter())
        self.check = LoadsRefuseDamage(self.history)

    def damage(self, position: int) -> None:
        self.content.damage(position, bytes((self.content.data[position] ^ 1,)))

    def step(self) -> None:
        self.check.stepped(self.node)

    def complete(self) -> None:
        self.coordinated.is_loading = False
        self.step()


@pytest.fixture
def coordinator():
    return Coordinator()


def test_completed_load_of_a_sound_log_is_no_violation(coordinator):
    coordinator.step()
    coordinator.complete()
    assert coordinator.history.counts["loads of damaged logs"] == 0


@pytest.mark.parametrize("position", [CRC_START - 1, CRC_START, RECORD_AT], ids=["crc", "attributes", "record"])
def test_completed_load_of_a_damaged_batch_is_a_violation(coordinator, position):
    coordinator.damage(position)
    coordinator.step()
    assert coordinator.history.counts["loads of damaged logs"] == 1
    with pytest.raises(Violation, match="completed the load of __consumer_offsets-0"):
        coordinator.complete()


def test_load_of_a_damaged_batch_that_continues_is_no_violation(coordinator):
    coordinator.damage(RECORD_AT)
    coordinator.step()
    coordinator.step()


def test_batch_damaged_after_the_load_began_is_no_violation(coordinator):
    coordinator.step()
    coordinator.damage(RECORD_AT)
    coordinator.complete()


def test_batch_cut_before_the_load_completed_is_no_violation(coordinator):
    coordinator.damage(RECORD_AT)
    coordinator.step()
    coordinator.content.truncate(0)
    coordinator.complete()


def test_damaged_batch_below_the_log_start_is_no_violation(coordinator):
    coordinator.log.log_start_offset = 1
    coordinator.damage(RECORD_AT)
    coordinator.step()
    coordinator.complete()


def test_damage_before_the_checksum_is_left_to_the_other_checks(coordinator):
    coordinator.damage(7)
    coordinator.step()
    coordinator.complete()
