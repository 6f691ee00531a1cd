"""The fetch loop of a consumer: from librdkafka into the inbox, with rebalances and errors.

Only `fetch` waits for librdkafka, runs rebalances, and raises librdkafka's errors. One thread calls it; another may
call `take`, as the asynchronous consumer does.
"""

import time
from typing import Any

from yak.client.api.failures import closed, explaining, translated
from yak.client.api.inbox import Inbox
from yak.client.api.message import Message, Serde
from yak.client.api.rebalancing import Callbacks, Rebalancing
from yak.client.errors import is_transient
from yak.client.received import Received
from yak.errors import YakError
from yak.ids import Offset, TopicPartition

POLL_S = 1.0
SLICE_S = 0.1
"""The longest single wait for records; between two waits, Ctrl+C and cancellation take effect."""
BATCH = 500


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
        """Set the rebalance callbacks."""
        self.rebalancing = Rebalancing(self.inbox, callbacks, is_cooperative=self._is_cooperative)
        return self.rebalancing

    def require_open(self) -> None:
        """Raise UsageError (`closed`) when the consumer is closed."""
        if self.is_closed:
            raise closed("consumer")

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, and those that are being assigned."""
        self.require_open()
        with explaining("the assignment is not known"):
            found = [TopicPartition(wire.topic, wire.partition) for wire in self._handle.assignment()]
        return sorted({*found, *self.rebalancing.arriving})

    @property
    def must_hear(self) -> bool:
        """Whether buffered records are so old that their partitions may have been reassigned since."""
        return time.monotonic() - self._heard_at_s > SLICE_S and self.inbox.has_some()

    def hear(self) -> None:
        """Check for a rebalance or an error before old records are returned; this also counts as a poll for the
        group."""
        if self.must_hear:
            self.fetch(0.0, 1)

    def take(self, count: int) -> list[Message]:
        """At most `count` of the buffered records, at once."""
        self.require_open()
        return self.inbox.take(count)

    def fetch(self, wait_s: float, count: int) -> None:
        """Wait once for records, for `take`. With `auto_commit`, all records taken before count as processed."""
        self.require_open()
        self.store_given()
        with explaining("nothing could be read"):
            message = self._handle.poll(wait_s)
            if message is not None:
                self._accept([message])
                # consume() waits for a full batch, so it only takes the messages that are there already.
                self._accept(self._handle.consume(count - 1, 0) if count > 1 else [])
        self.rebalancing.raise_pending()
        failure, self._failure = self._failure, None
        # After an error the partitions may be lost; force the check before the next records.
        self._heard_at_s = time.monotonic() if failure is None else 0.0
        if failure is not None:
            raise failure

    def _accept(self, messages: list[Any]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self.inbox.put(Message(Received.of(message), *self._serdes))
            elif not is_transient(error):
                where = f"{message.topic()}-{message.partition()}" if message.topic() else "the subscription"
                self._failure = self._failure or translated(error, f"{where} could not be read")

    def store_given(self) -> None:
        """With `auto_commit`: store the offsets of processed records, which librdkafka commits periodically."""
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
        """Leave the group. Raises the error of a rebalance callback."""
        with explaining("the consumer did not end in order"):
            self._handle.close()
        self.is_closed = True
        self.rebalancing.raise_pending()
