"""How a consumer of the Python API is closed, with a handle that does what the test says."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Wire

from tests.errors import raises_error
from yak.client.api import consumer as consumer_api
from yak.client.api.consumer import Consumer, InboxReader
from yak.client.api.message import TEXT
from yak.client.consumer import Callbacks, Inbox, Rebalancing
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition


class Handle:
    """Raises `store_error` when the offsets are stored, and notes that it was closed."""

    def __init__(self, store_error: Exception | None) -> None:
        self.is_closed = False
        self.rebalancing = Rebalancing(Inbox(), Callbacks(), is_cooperative=True)
        self._store_error = store_error

    def store_given(self, _ours: Any) -> None:
        if self._store_error is not None:
            raise self._store_error

    def close(self) -> None:
        self.is_closed = True


def consumer_of(handle: Handle) -> Consumer:
    """A consumer with this handle, without a cluster."""
    made = Consumer.__new__(Consumer)
    made.reading = InboxReader(handle, TEXT, TEXT, auto_commit=True)  # type: ignore[arg-type]
    made.group_id, made._handle, made._timeout_s = "g", handle, 0.05  # type: ignore[assignment]
    return made


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    """A handle whose close waits, which a consumer does not do for long."""
    monkeypatch.setattr(consumer_api, "CLOSE_S", 0.05)
    answered, handle = threading.Event(), Handle(None)
    monkeypatch.setattr(handle, "close", answered.wait)
    monkeypatch.setattr(handle, "commit", lambda _: answered.wait(), raising=False)
    yield handle
    answered.set()


def test_close_leaves_the_group_though_the_offsets_cannot_be_stored() -> None:
    handle = Handle(KafkaException(KafkaError(KafkaError._STATE)))
    consumer = consumer_of(handle)
    with pytest.raises(YakError, match="could not be stored"):
        consumer.close()
    assert handle.is_closed
    assert consumer.is_closed
    consumer.close()


def test_close_without_an_error_leaves_the_group() -> None:
    handle = Handle(None)
    consumer_of(handle).close()
    assert handle.is_closed


def test_close_waits_for_the_commit_of_a_silent_coordinator_for_a_limited_time(silent: Handle) -> None:
    """librdkafka repeats it without end: the program could not end while no broker answered."""
    consumer = consumer_of(silent)
    with pytest.raises(YakError, match="not acknowledged") as raised:
        consumer.close()
    assert (raised.value.code, raised.value.try_) == ("timed-out", ("yak doctor",))
    assert consumer.is_closed
    consumer.close()


def test_commit_waits_for_a_silent_coordinator_for_the_time_limit_of_a_request(silent: Handle) -> None:
    """librdkafka repeats it without end, where Ctrl+C has no effect."""
    with raises_error(YakError, "timed-out", match="may be carried out all the same"):
        consumer_of(silent).commit({TopicPartition("t", 0): 1})


def test_poll_of_another_thread_ends_when_the_consumer_closes(silent: Handle) -> None:
    """Its polls would take the answers for which the close waits."""
    consumer = consumer_of(silent)
    consumer.reading.is_ending = True
    with raises_error(UsageError, "closed"):
        consumer.reading.fetch(0.0, 1)


def test_error_of_a_block_is_not_hidden_by_a_silent_coordinator(silent: Handle) -> None:
    with pytest.raises(KeyboardInterrupt), consumer_of(silent):
        raise KeyboardInterrupt


def test_rebalance_callbacks_of_close_run_in_the_thread_of_the_caller() -> None:
    """Where they can commit, and use what belongs to a thread, such as a connection of sqlite3."""
    handle, ran_in = Handle(None), []
    callbacks = Callbacks(on_revoked=lambda _: ran_in.append(threading.get_ident()))
    handle.rebalancing = Rebalancing(Inbox(), callbacks, is_cooperative=True)
    handle.close = lambda: handle.rebalancing.revoked(None, [Wire("orders", 0)])  # type: ignore[method-assign]
    consumer_of(handle).close()
    assert ran_in == [threading.get_ident()]
