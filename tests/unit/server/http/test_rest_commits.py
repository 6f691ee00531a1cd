"""The offsets that a consumer instance commits, and what its reads poll, with a librdkafka that notes them."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.client.consumer import Answer
from yak.ids import TopicPartition
from yak.server.http.consumers import kafka_consumer
from yak.server.http.consumers.bodies import Mark, Settings
from yak.server.http.consumers.kafka_consumer import Fetched, KafkaConsumer
from yak.server.http.problems import Problem

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Handle:
    """Notes commits; `error` refuses those that wait."""

    def __init__(self) -> None:
        self.commits: list[tuple[dict[TopicPartition, int], bool]] = []
        self.error: KafkaError | None = None

    def commit(
        self, offsets: dict[TopicPartition, int], _metadata: Any, *, waits: bool
    ) -> dict[TopicPartition, Answer]:
        self.commits.append((dict(offsets), waits))
        return {each: Answer(offset, "", self.error) for each, offset in offsets.items()} if waits else {}


@pytest.fixture
def handle() -> Handle:
    return Handle()


@pytest.fixture
def consumer(handle: Handle) -> KafkaConsumer:
    """A consumer whose client received record 4 of partition 0."""
    made = KafkaConsumer(Settings())
    made._handle = handle  # type: ignore[assignment]
    made.inbox.given([Fetched(ZERO, 4, None, b"1", None)])
    return made


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("marks", [None, {ZERO: Mark(5, "")}], ids=["positions", "given"])
def test_commit_after_an_asynchronous_commit_commits_its_offsets_again(consumer, handle, marks, waits):
    consumer.commit(marks, waits=False)
    consumer.commit(None, waits=waits)
    assert handle.commits == [({ZERO: 5}, False), ({ZERO: 5}, waits)]


def test_commit_after_a_commit_that_succeeded_commits_new_positions_only(consumer, handle):
    consumer.commit(None, waits=True)
    consumer.inbox.given([Fetched(ONE, 7, None, b"1", None)])
    consumer.commit(None, waits=True)
    assert handle.commits == [({ZERO: 5}, True), ({ONE: 8}, True)]


def test_commit_after_a_refused_commit_commits_its_offsets_again(consumer, handle):
    handle.error = KafkaError(KafkaError.ILLEGAL_GENERATION)
    with pytest.raises(Problem):
        consumer.commit(None, waits=True)
    handle.error = None
    consumer.commit(None, waits=True)
    assert handle.commits == [({ZERO: 5}, True), ({ZERO: 5}, True)]


def test_commit_of_positions_after_an_asynchronous_rewind_commits_them_again(consumer, handle):
    consumer.commit(None, waits=True)
    consumer.commit({ZERO: Mark(2, "")}, waits=False)
    consumer.commit(None, waits=True)
    assert handle.commits == [({ZERO: 5}, True), ({ZERO: 2}, False), ({ZERO: 5}, True)]


class Closed:
    """A handle that was closed while a read-only call waited for it, as confluent-kafka has it."""

    def __init__(self, meanwhile: Any) -> None:
        self._meanwhile = meanwhile

    def committed(self, *_: Any) -> Any:
        self._meanwhile()
        raise RuntimeError("Consumer closed")

    def store_given(self, _ours: Any) -> None:
        pass

    def close(self) -> None:
        pass


class Committed:
    """The handle that replaces it."""

    def committed(self, partitions: list[TopicPartition], _timeout_s: float) -> dict[TopicPartition, Answer]:
        return {each: Answer(7, "", None) for each in partitions}


def test_committed_offsets_are_found_while_the_instance_leaves_its_group(consumer, monkeypatch):
    monkeypatch.setattr(consumer, "_new_handle", Committed)
    consumer._handle = Closed(consumer.unsubscribe)  # type: ignore[assignment]
    consumer._subscribed = ("t",)
    assert consumer.committed([ZERO]) == {ZERO: Mark(7, "")}


def test_call_on_a_handle_that_was_closed_for_good_is_an_error(consumer):
    consumer._handle = Closed(lambda: None)  # type: ignore[assignment]
    with pytest.raises(RuntimeError):
        consumer.committed([ZERO])


class Rebalancing:
    """A handle whose next poll revokes partition 0, and has no records."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = self
        self.polls = 0
        self._inbox = consumer.inbox

    def consume(self, _count: int, _wait_s: float) -> list[Any]:
        self.polls += 1
        self._inbox.forget([ZERO])
        return []

    def store_given(self, _ours: Any) -> None:
        pass


def test_read_of_less_than_the_instance_has_lets_the_group_rebalance(consumer):
    for partition in (ZERO, ONE):
        consumer.inbox.put(Fetched(partition, 5, None, b"1", None))
    handle: Any = Rebalancing(consumer)
    consumer._handle = handle
    assert [record.topic_partition for record in consumer.read(1.0, 1)] == [ONE]
    assert handle.polls == 1


class Refused:
    """A handle of librdkafka that no broker lets in, or that one does."""

    def __init__(self) -> None:
        self.consumer = self
        self.is_let_in = False
        self.checks: list[str] = []

    def consume(self, _count: int, _wait_s: float) -> list[Any]:
        return []

    def poll(self, _wait_s: float) -> None:
        return None

    def store_given(self, _ours: Any) -> None:
        pass

    def list_topics(self, topic: str, *, timeout: float) -> None:
        self.checks.append(topic)
        if not self.is_let_in:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.fixture
def refused(consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The handle of a consumer, which has just heard that its login is wrong."""
    found = Refused()
    monkeypatch.setattr(
        kafka_consumer, "ConsumerHandle", lambda config, **_: config["error_cb"](AUTHENTICATION) or found
    )
    consumer.open({})
    consumer._subscribed = ("t",)
    return found


AUTHENTICATION = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error")


def test_read_with_a_login_that_is_refused_for_some_seconds_is_an_error(consumer, refused, monkeypatch):
    assert consumer.read(0, 100) == []
    assert refused.checks == [], "a broker that stops causes the same error"
    monkeypatch.setattr(kafka_consumer, "LOGIN_PATIENCE_S", 0.0)
    for _ in range(2):
        with pytest.raises(Problem, match="SASL authentication error") as failed:
            consumer.read(0, 100)
        assert (failed.value.status, failed.value.more["error_code"]) == (401, 40101)
    refused.is_let_in = True
    assert consumer.read(0, 100) == []
    refused.is_let_in = False
    assert consumer.read(0, 100) == [], "the login was accepted since"
    assert refused.checks == ["t"] * 3
