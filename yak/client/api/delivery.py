"""The future of one sent record, and the failures whose futures were never checked.

A failed send must not stay unnoticed when its future is discarded: `flush` and `close` raise unchecked failures.
"""

from collections import deque
from concurrent.futures import Future
from typing import Any

from yak.client.api.failures import SendFailed, send_failed, with_notes
from yak.client.api.message import Sent

KEPT_FAILURES_MAX = 10_000
"""Limit of the failed sends kept until the next flush; older ones are dropped."""


class Delivery(Future[Sent]):
    """The outcome of one send: `result(timeout)` returns a `Sent` or raises `SendFailed`.

    A send cannot be undone: `cancel()` always returns False.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_looked_at = False
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Sent:
        """The position of the record. Raises SendFailed, or TimeoutError when it is unknown after `timeout` seconds."""
        self.exception(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error; None when the record is acknowledged. Raises TimeoutError."""
        error = super().exception(timeout)
        self.was_looked_at = True
        return error


class Deliveries:
    """Settles the futures of one producer from its delivery reports."""

    def __init__(self, *, has_offsets: bool) -> None:
        self._has_offsets = has_offsets
        self._failed: deque[Delivery] = deque(maxlen=KEPT_FAILURES_MAX)

    def settle(self, delivery: Delivery, topic: str, error: Any, message: Any) -> None:
        """Process librdkafka's delivery report of one record."""
        if error is not None:
            delivery.set_exception(send_failed(error, topic))
            self._failed.append(delivery)
            return
        kind, timestamp_ms = message.timestamp()
        offset = message.offset() if self._has_offsets else None
        delivery.set_result(
            Sent(message.topic(), message.partition(), -1 if offset is None else offset, timestamp_ms if kind else -1)
        )

    def unseen_failure(self) -> SendFailed | None:
        """One error for all unchecked failed sends, which are then dropped; None when there are none."""
        unseen = [each for each in self._failed if not each.was_looked_at]
        self._failed.clear()
        if not unseen:
            return None
        first = unseen[0].exception()
        assert isinstance(first, SendFailed)
        if len(unseen) == 1:
            return first
        failed = SendFailed(
            first.code,
            f"{len(unseen)} records were not acknowledged; the first: {first.message}",
            why=first.why,
            try_=first.try_,
        )
        failed.written = "no" if all(_written(each) == "no" for each in unseen) else "unknown"
        failed.kafka_code = first.kafka_code
        return with_notes(failed)


def _written(delivery: Delivery) -> str:
    error = delivery.exception()
    return error.written if isinstance(error, SendFailed) else "unknown"
