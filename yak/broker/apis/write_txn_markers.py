"""WriteTxnMarkers (key 27, v1-2): a transaction coordinator ends transactions in partitions that this broker leads.

v2: the transaction version (KIP-890). `kafka-transactions.sh abort` sends it too. The answer waits until every marker is
committed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.call import Call, Fields, Later, Now, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.partitions.transaction_markers import TxnMarker
from yak.protocol.pace import Pace

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 27, "WriteTxnMarkers", range(1, 3)

_TIMEOUT_MS = 30_000


def slices(broker: Broker, call: Call) -> Slices:
    """Append the markers in slices, then wait for all of them."""
    markers: list[Fields] = []
    fields: Fields = {"markers": markers}
    # those that are not committed at a time-out are sent again
    waiting = DelayedAnswer(broker.purgatory, call, _TIMEOUT_MS, lambda: Now(fields))
    missing = 1  # until the last slice
    pace = Pace()

    def ended(answer: Fields, error_code: ErrorCode) -> None:
        nonlocal missing
        answer["error_code"] = error_code
        missing -= 1
        if not missing:
            waiting.complete(fields)

    is_allowed = broker.authorization.may_see(
        call, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME
    ) or broker.authorization.allows_cluster(call, Operation.CLUSTER_ACTION)
    for requested in call.request.markers:
        topics: list[Fields] = []
        markers.append({"producer_id": requested.producer_id, "topics": topics})
        marker = TxnMarker(
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.transaction_result,
            getattr(requested, "transaction_version", 0),
        )
        for topic in requested.topics:
            answers: list[Fields] = []
            topics.append({"name": topic.name, "partitions": answers})
            for index in topic.partition_indexes:
                answer: Fields = {"partition_index": index, "error_code": ErrorCode.request_timed_out}
                answers.append(answer)
                if not is_allowed:
                    answer["error_code"] = ErrorCode.cluster_authorization_failed
                    continue
                missing += 1
                broker.transaction_markers.write(TopicPartition(topic.name, index), marker, partial(ended, answer))
                if pace.is_over(1):
                    yield
    missing -= 1
    return Later(waiting) if missing else Now(fields)
