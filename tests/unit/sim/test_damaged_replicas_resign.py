"""The check on replicas that know their damage, with a broker, a store and a clock that the test sets."""

import uuid
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from yak.ids import TopicPartition
from yak.ports.metadata_store import StoreRequest
from yak.sim.checks import damaged_replicas_resign
from yak.sim.checks.damaged_replicas_resign import PATIENCE_MS, DamagedReplicasResign
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Key

KEY = Key(str(uuid.UUID(int=1)), 0)
TOPIC_PARTITION = TopicPartition("t", 0)
LEAVES = {"topic_id": str(KEY.topic_id), "partition": 0, "lost": True}


class Damaged:
    """Broker 1 knows of a damaged batch of `t-0`, whose ISR has the brokers 1 and 2."""

    def __init__(self) -> None:
        self.row = {"isr": "1@5,2@6", "leader": 1}
        self.damage = SimpleNamespace(is_leaving=False)
        self.partition = SimpleNamespace(topic_id=KEY.topic_id, topic_partition=TOPIC_PARTITION, log=None)
        self.replica_fetchers = Mock(is_naming=Mock(return_value=False))
        self.broker = SimpleNamespace(
            damaged_replicas=_Known(self),
            partitions={TOPIC_PARTITION: self.partition},
            replica_fetchers=self.replica_fetchers,
        )
        self.store_line = SimpleNamespace(reaches=lambda: True, break_percent=0, slow_us=0)
        self.node = SimpleNamespace(node_id=1, broker=self.broker, store_line=self.store_line)
        self.other = SimpleNamespace(node_id=2, is_ready=True, is_paused=False)
        self.copy = SimpleNamespace(node=self.node, log=object(), is_held=True, topic_partition=TOPIC_PARTITION)
        self.world = SimpleNamespace(now_ms=0)
        state = SimpleNamespace(partitions={(str(KEY.topic_id), 0): self.row})
        history = SimpleNamespace(forfeited={}, copies={KEY: {1: self.copy}}, has_lost=lambda _member: False)
        self.check = DamagedReplicasResign(
            SimpleNamespace(
                world=self.world,
                store=SimpleNamespace(up=True, state=state),
                history=history,
                node={1: self.node, 2: self.other}.__getitem__,
            )
        )

    def pass_time(self, duration_ms: int, gap_ms: int = 500) -> None:
        for _ in range(duration_ms // gap_ms + 1):
            self.check.stepped(self.node)
            self.world.now_ms += gap_ms

    def change_store(self, script: str, isr: str) -> None:
        self.row["isr"] = isr
        request = StoreRequest(script, {"node_id": 1, "partitions": [LEAVES]})
        self.check.store_changed(request, SimpleNamespace(code="OK"))


class _Known:
    """What the broker knows of its damage."""

    def __init__(self, damaged: Damaged) -> None:
        self._damaged = damaged

    def __len__(self) -> int:
        return int(self._damaged.damage is not None)

    def of(self, _partition):
        return self._damaged.damage


@pytest.fixture
def damaged(monkeypatch):
    monkeypatch.setattr(damaged_replicas_resign, "is_damaged", lambda _copy: True)
    return Damaged()


def test_damaged_replica_that_stays_in_the_isr_is_a_violation(damaged):
    damaged.pass_time(PATIENCE_MS)
    with pytest.raises(Violation, match="did not leave the ISR, though another replica is in it"):
        damaged.pass_time(500)


def test_replica_whose_recovery_found_damage_and_that_stays_in_the_isr_is_a_violation(damaged):
    damaged.damage, log = None, SimpleNamespace(damage_at_load=SimpleNamespace(offset=3), log_start_offset=0)
    damaged.partition.log = damaged.copy.log = log
    damaged.check.reopened(damaged.copy, Chain())
    with pytest.raises(Violation, match="did not leave the ISR, though another replica is in it"):
        damaged.pass_time(PATIENCE_MS + 500)


@pytest.mark.parametrize("isr", ["1@5", "2@6"], ids=["the last one", "gone"])
def test_damaged_replica_that_is_the_last_one_or_has_left_is_no_violation(damaged, isr):
    damaged.row["isr"] = isr
    damaged.pass_time(3 * PATIENCE_MS)


def test_time_in_which_the_store_does_not_answer_does_not_count(damaged):
    damaged.pass_time(PATIENCE_MS)
    damaged.store_line.reaches = lambda: False
    damaged.pass_time(PATIENCE_MS)
    damaged.store_line.reaches = lambda: True
    damaged.pass_time(PATIENCE_MS - 500)


def test_time_in_which_the_process_stood_still_does_not_count(damaged):
    damaged.pass_time(3 * PATIENCE_MS, gap_ms=2_000)


def test_fetch_while_the_request_to_leave_is_under_way_is_a_violation(damaged):
    damaged.damage.is_leaving = True
    damaged.pass_time(0)
    damaged.replica_fetchers.is_naming.return_value = True
    with pytest.raises(Violation, match="fetches it before the answer"):
        damaged.pass_time(0)


def test_return_to_the_isr_with_the_damaged_log_is_a_violation(damaged):
    damaged.change_store("leave_isr", "2@6")
    with pytest.raises(Violation, match="is in it again with the same log"):
        damaged.change_store("alter_isr", "2@6,1@5")


def test_return_to_the_isr_with_another_log_is_no_violation(damaged):
    damaged.change_store("leave_isr", "2@6")
    damaged.copy.log = object()
    damaged.change_store("alter_isr", "2@6,1@5")


def test_return_after_a_late_repeat_of_a_request_is_no_violation(damaged):
    damaged.damage = None
    damaged.change_store("leave_isr", "2@6")
    damaged.change_store("alter_isr", "2@6,1@5")
