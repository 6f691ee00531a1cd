"""InitProducerId (key 22, v0-5): a producer id and epoch, for an idempotent or a transactional producer.

v2: flexible. v3: a producer may send its present id and epoch (KIP-360). v4: PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH.
v5: as v4. v6 is unstable in Kafka and not advertised. Ids come in blocks of 1,000 from the metadata store and are never
reused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.acls.bindings import Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Outcome, milliseconds
from yak.broker.delayed_answers import DelayedAnswer
from yak.errors import ErrorCode, PeerError
from yak.limits import GROUP_STRING_BYTES_MAX
from yak.transactions.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.ids import ProducerId

KEY, NAME, VERSIONS = 22, "InitProducerId", range(6)
_TIMEOUT_MS = 10_000
_FENCED_VERSION = 4
ABSENT = (
    "version 6 (two-phase commit, KIP-939): unstable in Kafka, which does not advertise it",
    "another epoch than that of the open transaction, which Kafka aborts: PRODUCER_FENCED, and it stays open",
)


def handle(broker: Broker, call: Call) -> Outcome:
    """Give a new id to an idempotent producer; a transactional one keeps its id, with the next epoch."""
    request = call.request
    transactional_id = request.transactional_id
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    is_new = producer_id == NO_PRODUCER_ID
    if code := _denied(broker, call, transactional_id):
        return Now(_refused(code))
    if transactional_id == "" or is_new != (epoch == NO_PRODUCER_EPOCH) or producer_id < -1 or epoch < -1:
        return Now(_refused(ErrorCode.invalid_request))
    # The records of `__transaction_state` have 16-bit lengths, and compact strings (v2) are not bounded by them.
    if transactional_id is not None and len(transactional_id.encode()) > GROUP_STRING_BYTES_MAX:
        return Now(_refused(ErrorCode.invalid_request))
    waiting = DelayedAnswer(
        broker.purgatory, call, _TIMEOUT_MS, lambda: Now(_refused(ErrorCode.coordinator_load_in_progress))
    )

    def taken(producer_id: ProducerId, error: PeerError | None) -> None:
        answered(ErrorCode.none if error is None else error.error_code, ProducerIdAndEpoch(producer_id, 0))

    def answered(code: ErrorCode, producer: ProducerIdAndEpoch) -> None:
        if code == ErrorCode.producer_fenced and call.version < _FENCED_VERSION:
            code = ErrorCode.invalid_producer_epoch
        if code != ErrorCode.none:
            waiting.complete(_refused(code))
            return
        fields = {"error_code": code, "producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        waiting.complete(fields)

    if transactional_id is None:
        broker.producer_ids.take(taken)
    else:
        timeout_ms = milliseconds(request.transaction_timeout)
        expected = None if is_new else ProducerIdAndEpoch(producer_id, epoch)
        broker.transaction_coordinator.init_producer_id(transactional_id, timeout_ms, expected, answered)
    return Later(waiting)


def _denied(broker: Broker, call: Call, transactional_id: str | None) -> ErrorCode | None:
    """The error for a client that may not have a producer id.

    An idempotent producer needs the right to write any topic, or IDEMPOTENT_WRITE (KIP-679).
    """
    authorization = broker.authorization
    if transactional_id is not None:
        if authorization.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return None
        return ErrorCode.transactional_id_authorization_failed
    if authorization.allows_any(call, Operation.WRITE, ResourceType.TOPIC):
        return None
    is_allowed = authorization.allows_cluster(call, Operation.IDEMPOTENT_WRITE)
    return None if is_allowed else ErrorCode.cluster_authorization_failed


def _refused(error_code: ErrorCode) -> Fields:
    """The answer with an error."""
    return {"error_code": error_code, "producer_id": -1, "producer_epoch": -1}
