"""How a consumer's messages come: from librdkafka into the inbox, and what happens on the way.

`fetch` is the only place where librdkafka is waited for, where rebalances happen, and where its errors come up. It is
called by one thread; `take` may be called by another, which is what the asynchronous consumer does.
"""

import time
from typing import Any

from yak.client.api.failures import closed, explaining, translated
from yak.client.api.inbox import Inbox
from yak.client.api.message import Message
from yak.client.api.rebalancing import Callbacks, Rebalancing
from yak.client.api.serde import Serde
from yak.client.errors import name_of
from yak.client.received import Received
from yak.errors import YakError
from yak.ids import Offset, TopicPartition

POLL_S = 1.0
SLICE_S = 0.1
"""One wait for messages; between two, Ctrl+C and cancellation are heard."""
BATCH = 500
PASSING = {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE"}
"""Errors that librdkafka goes on after by itself."""


class Reading:
    """One librdkafka consumer with its inbox."""

    def __init__(self, handle: Any, keys: Serde, values: Serde, *, is_cooperative: bool, auto_commit: bool) -> None:
        from confluent_kafka import TopicPartition as Wire

        self.inbox = Inbox()
        self.is_closed = False
        self._handle = handle
        self._wire: Any = Wire
        self._serdes = (keys, values)
        self._is_cooperative = is_cooperative
        self._auto_commit = auto_commit
        self._stored: dict[TopicPartition, Offset] = {}
        self._failure: YakError | None = None
        self._heard_at_s = 0.0
        self.rebalancing = self.told(Callbacks())

    def told(self, callbacks: Callbacks) -> Rebalancing:
        """From now on, rebalances are told to these functions."""
        self.rebalancing = Rebalancing(self.inbox, callbacks, is_cooperative=self._is_cooperative)
        return self.rebalancing

    def require_open(self) -> None:
        """Raises UsageError (`closed`)."""
        if self.is_closed:
            raise closed("consumer")

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, and those that are being assigned."""
        self.require_open()
        with explaining("the assignment is not known"):
            found = [TopicPartition(wire.topic, wire.partition) for wire in self._handle.assignment()]
        return sorted({*found, *self.rebalancing.arriving})

    @property
    def must_hear(self) -> bool:
        """Whether messages lie here that were fetched a while ago, and may have become somebody else's since."""
        return time.monotonic() - self._heard_at_s > SLICE_S and self.inbox.has_some()

    def hear(self) -> None:
        """Look for a rebalance or an error before old messages are given; so the group sees us work, too."""
        if self.must_hear:
            self.fetch(0.0, 1)

    def take(self, count: int) -> list[Message]:
        """Of what was fetched, at most `count` messages, at once."""
        self.require_open()
        return self.inbox.take(count)

    def fetch(self, wait_s: float, count: int) -> None:
        """One wait for messages, which `take` then gives. Everything taken before counts as done with `auto_commit`."""
        self.require_open()
        self.store_given()
        with explaining("nothing could be read"):
            message = self._handle.poll(wait_s)
            if message is not None:
                self._accept([message])
                # consume() waits until it has the whole batch, so it only takes what is there already.
                self._accept(self._handle.consume(count - 1, 0) if count > 1 else [])
        self.rebalancing.raise_pending()
        failure, self._failure = self._failure, None
        # After an error the partitions may be lost, which is heard next.
        self._heard_at_s = time.monotonic() if failure is None else 0.0
        if failure is not None:
            raise failure

    def _accept(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self.inbox.put(Message(Received.of(message), *self._serdes))
            elif not error.retriable() and name_of(error) not in PASSING:
                where = f"{message.topic()}-{message.partition()}" if message.topic() else "the subscription"
                self._failure = self._failure or translated(error, f"{where} could not be read")

    def store_given(self) -> None:
        """With `auto_commit`: tell librdkafka, which commits now and then, what the caller has come back from."""
        if not self._auto_commit:
            return
        given = self.inbox.uncommitted()
        fresh = [each for each, offset in given.items() if self._stored.get(each) != offset]
        ours = self.assignment() if fresh else []
        wires = [self._wire(*each, given[each]) for each in fresh if each in ours]
        if wires:
            with explaining("the offsets could not be kept for the next commit"):
                self._handle.store_offsets(offsets=wires)
            self._stored |= given

    def end(self) -> None:
        """Leave the group. Raises what a function that is told of it raised."""
        with explaining("the consumer did not end in order"):
            self._handle.close()
        self.is_closed = True
        self.rebalancing.raise_pending()
