"""How a consumer of the Python API is closed, with a handle that does what the test says."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.client.api.consumer import Consumer, InboxReader
from yak.client.api.message import TEXT
from yak.client.consumer import Callbacks, Inbox, Rebalancing
from yak.errors import YakError


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
    return made


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
