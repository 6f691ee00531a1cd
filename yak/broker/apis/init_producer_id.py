"""InitProducerId (key 22, v0-5): a producer id and epoch for an idempotent producer.

v2: flexible. v3: a producer may send its present id and epoch (KIP-360), and gets a new id here. v5: as v4 here.
v6 is unstable in Kafka and not advertised. Ids come in blocks of 1,000 from the metadata store and are never reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.broker.call import Call, DelayedOperation, Fields, Later, Now, Outcome
from yak.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 22, "InitProducerId", range(6)
_TIMEOUT_MS = 10_000
ABSENT = (
    "transactional ids: refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "version 6 (two-phase commit, KIP-939): unstable in Kafka, which does not advertise it",
)


def handle(broker: Broker, call: Call) -> Outcome:
    """Give a new id, even to a producer that has one: only transactional ones keep it (TransactionCoordinator)."""
    request = call.request
    transactional_id = request.transactional_id
    if transactional_id is not None:
        # Final in every client, as in FindCoordinator; librdkafka would retry INVALID_TXN_STATE here.
        code = ErrorCode.transactional_id_authorization_failed if transactional_id else ErrorCode.invalid_request
        return Now(_refused(code))
    producer_id = getattr(request, "producer_id", -1)
    epoch = getattr(request, "producer_epoch", -1)
    if (producer_id == -1) != (epoch == -1) or producer_id < -1 or epoch < -1:
        return Now(_refused(ErrorCode.invalid_request))
    waiting = DelayedInitProducerId(call)
    broker.producer_ids.take(waiting)
    return Later(waiting)


class DelayedInitProducerId(DelayedOperation):
    """A delayed InitProducerId; mostly the current block has an id at once."""

    __slots__ = ("error", "producer_id")

    def __init__(self, call: Call) -> None:
        super().__init__(call, _TIMEOUT_MS)
        self.producer_id = -1
        self.error: PeerError | None = None

    def is_done(self) -> bool:
        """Whether there is an id, or an error."""
        return self.producer_id >= 0 or self.error is not None

    def answer(self) -> Outcome:
        """The id with epoch 0, or the error."""
        if self.error is not None:
            return Now(_refused(self.error.error_code))
        return Now({"error_code": ErrorCode.none, "producer_id": self.producer_id, "producer_epoch": 0})

    def on_expiration(self) -> Outcome:
        """Answer with a retriable error: no block of ids came in time."""
        return Now(_refused(ErrorCode.coordinator_load_in_progress))


def _refused(error_code: ErrorCode) -> Fields:
    """The answer with an error."""
    return {"error_code": error_code, "producer_id": -1, "producer_epoch": -1}
