"""The transactional clients of a chaos run, with a scripted librdkafka."""

import gc
import threading
import time
import weakref
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.ids import TopicPartition
from yak.local.chaos import transactions
from yak.local.chaos.members import Library
from yak.local.chaos.recorder import Recorder, encode
from yak.local.chaos.transactions import TransactionalProducer, TransactionalWriter, Worker
from yak.sim.history_checker.history import Outcome

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Librdkafka:
    """All producers of a test: what they were called for, and the errors of the next calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: dict[str, list[KafkaError]] = {}
        self.waiting: list[Any] = []

    def __call__(self, config: dict[str, Any]) -> "Librdkafka":
        self.calls.append(f"new {config['transactional.id']}")
        return self

    def __getattr__(self, name: str) -> Any:
        def call(*_arguments: Any, **_more: Any) -> None:
            self.calls.append(name.removesuffix("_transaction").removesuffix("_to"))
            if self.errors.get(name):
                raise KafkaException(self.errors[name].pop(0))

        return call

    def produce(self, _topic: str, _value: bytes, _key: bytes | None, *, partition: int, on_delivery: Any) -> None:
        self.calls.append(f"produce {partition}")
        self.waiting.append(on_delivery)

    def flush(self, _seconds: float) -> int:
        for offset, delivered in enumerate(self.waiting):
            delivered(None, SimpleNamespace(offset=lambda offset=offset: offset))
        self.waiting.clear()
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Librdkafka:
    made = Librdkafka()
    monkeypatch.setattr(confluent_kafka, "Producer", made)
    return made


def producer(recorder: Recorder) -> TransactionalProducer:
    return TransactionalProducer("c", "h:1", "id", recorder, number=1)


def error(code: int, **kind: bool) -> KafkaError:
    return KafkaError(code, "scripted", **kind)


def test_writer_commits_three_transactions_and_aborts_the_fourth(library):
    recorder = Recorder()
    writer = TransactionalWriter(producer(recorder), PARTITIONS, every_s=1.0)
    for number in range(4):
        writer.send(number)
    history = recorder.history()
    assert [txn.outcome for txn in history.txns.values()] == [Outcome.OK] * 3 + [Outcome.FAIL]
    assert [sum(send.txn == txn for send in history.sends) for txn in history.txns] == [2, 3, 4, 5]
    assert {send.partition for send in history.sends if send.txn == 1} == {"t-0", "t-1"}
    assert library.calls[:3] == ["new id", "init_transactions", "begin"]
    assert library.calls.count("commit") == 3


def test_retriable_commit_is_repeated_and_committed_once(library):
    recorder = Recorder()
    library.errors["commit_transaction"] = [error(KafkaError._TIMED_OUT, retriable=True)] * 2
    assert producer(recorder).transact(lambda _txn: None) is Outcome.OK
    assert library.calls.count("commit") == 3
    assert len(recorder.history().txns) == 1


def test_commit_that_fails_is_of_unknown_outcome_also_if_its_abort_succeeds(library):
    library.errors["commit_transaction"] = [error(KafkaError._FAIL, txn_requires_abort=True)]
    assert producer(Recorder()).transact(lambda _txn: None) is Outcome.INFO
    assert library.calls[-2:] == ["commit", "abort"]


def test_failure_before_the_commit_is_a_certain_abort(library):
    def write(_txn: int) -> None:
        raise KafkaException(error(KafkaError._FAIL, txn_requires_abort=True))

    assert producer(Recorder()).transact(write) is Outcome.FAIL
    assert "commit" not in library.calls


def test_fenced_producer_is_replaced_and_its_successor_has_the_same_id(library):
    recorder = Recorder()
    made = producer(recorder)
    library.errors["commit_transaction"] = [error(KafkaError._FENCED, fatal=True)]
    assert made.transact(lambda txn: made.send(txn, PARTITIONS[0])) is Outcome.INFO
    assert made.transact(lambda txn: made.send(txn, PARTITIONS[0])) is Outcome.OK
    assert library.calls.count("new id") == library.calls.count("init_transactions") == 2
    assert "abort" not in library.calls
    assert [txn.outcome for txn in recorder.history().txns.values()] == [Outcome.INFO, Outcome.OK]


def test_producer_whose_offsets_hang_is_replaced(library, monkeypatch):
    recorder, returns = Recorder(), threading.Event()
    made = producer(recorder)
    monkeypatch.setattr(transactions, "_STUCK_SECONDS", 0.05)
    monkeypatch.setattr(library, "send_offsets_to_transaction", lambda *_: returns.wait(30), raising=False)
    made.transact(lambda _txn: made.send_offsets({PARTITIONS[0]: 3}, "metadata"))
    returns.set()
    made.transact(lambda _txn: made.send_offsets({PARTITIONS[0]: 3}, "metadata"))
    assert [txn.outcome for txn in recorder.history().txns.values()] == [Outcome.FAIL, Outcome.OK]
    assert recorder.hung_calls == 1
    assert library.calls.count("new id") == 2


@pytest.mark.parametrize("commits", [False, True])
def test_producer_whose_abort_hangs_is_replaced(library, monkeypatch, commits):
    recorder, first = Recorder(), Outcome.INFO if commits else Outcome.FAIL
    made = producer(recorder)
    monkeypatch.setattr(transactions, "_STUCK_SECONDS", 0.05)
    abort, commit = library.abort_transaction, library.commit_transaction

    def never(*_arguments: Any) -> None:
        time.sleep(0.01)
        raise KafkaException(error(KafkaError._TIMED_OUT, retriable=True))

    def refused(*_arguments: Any) -> None:
        raise KafkaException(error(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER))

    monkeypatch.setattr(library, "abort_transaction", never)
    monkeypatch.setattr(library, "commit_transaction", refused)
    made.transact(lambda _txn: None, commits=commits)
    monkeypatch.setattr(library, "abort_transaction", abort)
    monkeypatch.setattr(library, "commit_transaction", commit)
    made.transact(lambda _txn: None)
    assert [txn.outcome for txn in recorder.history().txns.values()] == [first, Outcome.OK]
    assert recorder.hung_calls == 1
    assert library.calls.count("new id") == 2


def test_a_coordinator_that_is_away_for_long_is_no_hang(library, monkeypatch):
    recorder = Recorder()
    made = producer(recorder)
    left = [error(KafkaError._TIMED_OUT, retriable=True)] * 4

    def send(*_arguments: Any) -> None:
        time.sleep(0.3)
        if left:
            raise KafkaException(left.pop())

    monkeypatch.setattr(transactions, "_STUCK_SECONDS", 1.0)
    monkeypatch.setattr(library, "send_offsets_to_transaction", send, raising=False)
    assert made.transact(lambda _txn: made.send_offsets({PARTITIONS[0]: 3}, "metadata")) is Outcome.OK
    assert recorder.hung_calls == 0
    assert library.calls.count("new id") == 1


def test_dropped_producer_commits_no_more(library):
    recorder = Recorder()
    made = producer(recorder)
    made.transact(lambda _txn: made.drop())
    assert not {"commit", "abort"} & set(library.calls)
    assert [txn.outcome for txn in recorder.history().txns.values()] == [Outcome.FAIL]


def test_dropped_producer_kills_a_library_with_a_process_of_its_own_and_sends_no_more(library):
    recorder, killed = Recorder(), []
    made = TransactionalProducer(
        "c", "h:1", "id", recorder, number=1,
        library=Library(library, library, lambda: killed.append(recorder.committing(1))),
    )  # fmt: skip
    made.transact(lambda _txn: made.drop())
    assert killed == [False], "the transaction is given up before the kill"
    assert library.calls[0] == "new id"


class Consumer:
    """Polls once: two records and the end of the partition."""

    def __init__(self, _config: object) -> None:
        self.starts: list[int] = []

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def consume(self, _count: int, _seconds: float) -> list[Any]:
        def message(offset: int, failure: KafkaError | None) -> Any:
            place = {"topic": lambda: "in", "partition": lambda: 0, "offset": lambda: offset}
            return SimpleNamespace(**place, error=lambda: failure, value=lambda: encode(offset + 100, 20))

        return [message(4, None), message(5, None), message(7, KafkaError(KafkaError._PARTITION_EOF))]

    def consumer_group_metadata(self) -> str:
        return "generation"

    def assignment(self) -> list[Any]:
        return [confluent_kafka.TopicPartition("in", 0)]

    def committed(self, partitions: list[Any], timeout: float) -> list[Any]:
        return [confluent_kafka.TopicPartition(each.topic, each.partition, 4) for each in partitions]

    def assign(self, partitions: list[Any]) -> None:
        self.starts = [each.offset for each in partitions]


@pytest.mark.parametrize("is_fenced", [False, True])
def test_worker_processes_each_poll_in_a_transaction_and_reads_an_aborted_one_again(library, monkeypatch, is_fenced):
    monkeypatch.setattr(confluent_kafka, "Consumer", Consumer)
    recorder = Recorder()
    worker = Worker(producer(recorder), "h:1", "in", PARTITIONS, "g", recorder)
    if is_fenced:
        library.errors["send_offsets_to_transaction"] = [error(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True)]
    worker._step()
    history = recorder.history()
    (poll,) = history.polls()
    assert poll.txn == 1
    assert [send.txn for send in history.sends] == [1, 1]
    (commit,) = history.commits
    assert commit.offsets == {"in-0": 7}, "the offset after the transaction's marker"
    assert commit.outcome is history.txns[1].outcome is (Outcome.FAIL if is_fenced else Outcome.OK)
    assert worker._consumer.starts == ([4] if is_fenced else [])


def test_worker_that_dies_leaves_no_consumer_in_its_group(library, monkeypatch):
    """A consumer that is not polled would keep its membership, and hold up each rebalance for five minutes."""
    monkeypatch.setattr(confluent_kafka, "Consumer", Consumer)
    recorder = Recorder()
    worker = Worker(producer(recorder), "h:1", "in", PARTITIONS, "g", recorder)
    consumer = weakref.ref(worker._consumer)
    worker.start()
    while not recorder.polled:
        time.sleep(0.001)
    worker.drop()
    assert consumer() is None
    assert library.calls


class FailingProducer:
    def send_offsets_to_transaction(self, *_arguments: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))


def test_producer_whose_send_offsets_failed_is_freed_at_once(library):
    """Its threads would go on, until Python looks for cycles: in a long run a hundred clients reconnected at the end."""
    sender = producer(Recorder())
    sender._producer = FailingProducer()
    failed = weakref.ref(sender._producer)
    gc.disable()
    try:
        with pytest.raises(KafkaException):
            sender.send_offsets({}, None)
        sender._producer = None
        assert failed() is None
    finally:
        gc.enable()
