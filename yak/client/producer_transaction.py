"""The transaction of a producer: begun, then committed or aborted as a whole."""

import time
import uuid
from typing import Any, Final

from yak.client.errors import from_exception, kafka_exceptions
from yak.errors import YakError

TIMEOUT_MS: Final = 900_000
"""Kafka's largest transaction.timeout.ms: the coordinator aborts the transaction of a producer that is gone by then."""
_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


def transaction_settings(transactional_id: str | None) -> dict[str, Any]:
    """The settings of a producer with this id, or with a random one, for `producer_settings`."""
    return {
        "transactional.id": transactional_id or f"yak-produce-{uuid.uuid4()}",
        "transaction.timeout.ms": TIMEOUT_MS,
    }


class ProducerTransaction:
    """The only transaction of an open producer, from its beginning on. Every method waits for at most `timeout_s`.

    The beginning aborts an earlier transaction of the same transactional id, and fences its producer. Raises YakError.
    """

    def __init__(self, producer: Any, *, timeout_s: float) -> None:
        self._producer, self._timeout_s = producer, timeout_s
        self._call(producer.init_transactions, "the transaction did not begin")
        producer.begin_transaction()

    def commit(self) -> None:
        """Commit. Raises YakError: `transaction-aborted`, or another with an unknown outcome."""
        try:
            self._call(self._producer.commit_transaction, "the transaction may be committed or not")
        except YakError as error:
            if not getattr(error, "must_abort", False):
                raise
            self.abort()
            raise YakError("transaction-aborted", "the transaction was aborted", why=error.why) from None

    def abort(self) -> None:
        """Abort. Raises YakError when the coordinator did not say so: then it aborts at the transaction's timeout."""
        self._producer.purge()
        self._call(self._producer.abort_transaction, "the transaction ends when it times out")

    def _call(self, call: Any, what: str) -> None:
        """Call a method of librdkafka, which goes on where it was after a transient error."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                call(max(0.1, deadline - time.monotonic()))
                return
            except kafka_exceptions() as error:
                cause = error.args[0] if error.args else None
                if getattr(cause, "retriable", bool)() and time.monotonic() < deadline:
                    continue
                if getattr(cause, "name", str)() in _FENCED:
                    raise _fenced(what) from None
                failure: Any = from_exception(error, what)
                failure.must_abort = getattr(cause, "txn_requires_abort", bool)()
                raise failure from None


def _fenced(what: str) -> YakError:
    why = "a newer producer has the same transactional id, or the transaction took longer than its timeout"
    return YakError("producer-fenced", what, why=why, try_=("yak transactions describe ID",))
