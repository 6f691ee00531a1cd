"""The check on markers finds one whose decision is not committed."""

import uuid
from types import SimpleNamespace

import pytest

from yak.ids import TopicPartition
from yak.protocol.control_batch import EndTransactionMarker, build_marker
from yak.protocol.record_writer import build_batch
from yak.sim.checks.markers_follow_decisions import MarkersFollowDecisions
from yak.sim.deliveries import Violation
from yak.sim.history import Chain, Copy, History, Key
from yak.sim.originals import Originals
from yak.transactions.records import TRANSACTION_TOPIC, transaction_key, transaction_value
from yak.transactions.transaction import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, Transaction

STATE, DATA = Key(str(uuid.UUID(int=1)), 0), Key(str(uuid.UUID(int=2)), 0)
PRODUCER, EPOCH = 7, 3


class Replica:
    """One log of one segment, which the check reads from a disk."""

    def __init__(self, history, key, topic, originals=None):
        self.history, self.key, self.content = history, key, b""
        segment = SimpleNamespace(base_offset=0, path=lambda _suffix: "0.log")
        disk = SimpleNamespace(peek=lambda _path, position: self.content[position:])
        self.copy = Copy(SimpleNamespace(disk=disk, node_id=1), key, TopicPartition(topic, 0), originals)
        self.copy.log = SimpleNamespace(segments=[segment], log_end_offset=0)
        history.copies[key] = {1: self.copy}

    def append(self, batch):
        """Append a batch of one record."""
        self.content += self.copy.log.log_end_offset.to_bytes(8, "big") + batch[8:]
        self.copy.log.log_end_offset += 1
        return self.copy.read_on()

    def commit(self):
        """The high watermark reaches the end."""
        self.history.committed.setdefault(self.key, Chain()).take(self.copy.chain, self.copy.end)


class Bench:
    """A log of decisions and a log with markers."""

    def __init__(self):
        self.history = History([])
        originals = self.history.originals[STATE] = Originals(self.history.committed, STATE)
        self.state = Replica(self.history, STATE, TRANSACTION_TOPIC, originals)
        self.data = Replica(self.history, DATA, "t")
        self.check = MarkersFollowDecisions(self.history)

    def decide(self, state, epoch=EPOCH):
        partitions = frozenset({TopicPartition("t", 0)})
        transaction = Transaction("id", PRODUCER, epoch, state=state, partitions=partitions, timeout_ms=1_000)
        record = transaction_key("id"), transaction_value(transaction)
        self.check.appended(self.state.copy, self.state.append(build_batch([record], 0)))

    def mark(self, *, is_commit):
        batch = build_marker(PRODUCER, EPOCH, EndTransactionMarker(is_commit, 0), 0)
        self.check.appended(self.data.copy, self.data.append(batch))

    def step(self):
        self.check.stepped(SimpleNamespace(node_id=1))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_after_its_decision_is_sound(is_commit):
    bench = Bench()
    bench.decide(PREPARE_COMMIT if is_commit else PREPARE_ABORT)
    bench.mark(is_commit=is_commit)
    bench.state.commit()
    bench.step()
    assert bench.history.counts["markers checked"] == 1


@pytest.mark.parametrize(
    ("state", "epoch"), [(None, 0), (ONGOING, EPOCH), (PREPARE_ABORT, EPOCH), (PREPARE_COMMIT, EPOCH - 1)]
)
def test_a_marker_without_its_decision_is_a_violation(state, epoch):
    bench = Bench()
    if state is not None:
        bench.decide(state, epoch)
        bench.state.commit()
    bench.mark(is_commit=True)
    with pytest.raises(Violation, match="t-0 on broker 1 has a marker of producer 7, epoch 3, is_commit=True"):
        bench.step()


def test_a_marker_before_its_decision_is_committed_is_a_violation():
    bench = Bench()
    bench.decide(PREPARE_COMMIT)
    bench.mark(is_commit=True)
    with pytest.raises(Violation, match="no such decision is committed"):
        bench.step()


def test_a_forfeited_log_of_decisions_vouches_for_nothing():
    bench = Bench()
    bench.mark(is_commit=True)
    bench.history.forfeited[STATE] = "lost"
    bench.step()
    assert bench.history.counts["markers checked"] == 1
