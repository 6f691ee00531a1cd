"""Sends the markers that end a transaction to the leaders of its partitions (Kafka's TransactionMarkerChannelManager).

A marker is repeated until its partition has it, or is deleted: after each failure the leader is found again. A leader
that knows a newer coordinator or producer epoch ends the work: another coordinator has taken over. A marker that is
written twice does no harm, since the second one finds no open transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from yak.core.broker_channel import ChannelEvents
from yak.core.broker_requests import InterBrokerRequests
from yak.core.context import Context
from yak.core.peers import Peers
from yak.errors import ErrorCode
from yak.ids import NodeId, TopicPartition
from yak.lifecycle.liveness import is_serving
from yak.limits import SLICE_ELEMENTS
from yak.partitions.transaction_markers import TransactionMarkers, TxnMarker

RETRY_MS: Final = 100
_REQUESTS_IN_FLIGHT_MAX: Final = 2
"""Requests to one leader: while they are under way, markers gather for the next one."""
_PARTITIONS_A_REQUEST_MAX: Final = 500
_WRITE_TXN_MARKERS: Final = (27, 2)
_EVENTS: Final = ChannelEvents("marker-connection-lost", "marker-leader-unresponsive", "marker-response-invalid")
_FENCED: Final = (ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch)


@dataclass(slots=True, eq=False)
class PendingMarkers:
    """The markers of one transaction that are not written yet."""

    transactional_id: str
    marker: TxnMarker
    remaining: set[TopicPartition]
    then: Callable[[], None]
    is_over: bool = False
    """Whether all are written, or the coordinator has given up the transaction."""


class MarkerSender:
    """The markers under way, by leader."""

    def __init__(self, context: Context, peers: Peers, node_id: NodeId, markers: TransactionMarkers) -> None:
        self._context, self._node_id, self._markers = context, node_id, markers
        self.requests = InterBrokerRequests(context, peers, _EVENTS)
        self._queued: dict[NodeId, list[tuple[PendingMarkers, TopicPartition]]] = {}
        self._failed: list[tuple[PendingMarkers, TopicPartition]] = []
        """Markers to send again after `RETRY_MS`."""
        self._rest: list[tuple[PendingMarkers, TopicPartition]] = []
        """Those of a large transaction that the next step sends."""

    def send(self, pending: PendingMarkers) -> None:
        """Write the markers of all partitions, then call `then`; at once if there are none."""
        if not pending.remaining:
            pending.then()
            return
        self._route([(pending, topic_partition) for topic_partition in sorted(pending.remaining)])

    def stop(self) -> None:
        """Send no more."""
        for timer in (self, (self, "rest")):
            self._context.timers.disarm(timer)
        self.requests.close()

    def _route(self, markers: Sequence[tuple[PendingMarkers, TopicPartition]]) -> None:
        touched: dict[NodeId, None] = {}
        written = 0
        for index, (pending, topic_partition) in enumerate(markers):
            if written == SLICE_ELEMENTS:
                self._rest += markers[index:]
                self._context.within((self, "rest"), 0, self._route_rest)
                break
            if pending.is_over:
                continue
            info = self._context.image.partition(topic_partition)
            if info is None:
                # deleted, with the transaction's records
                self._answered(pending, topic_partition, ErrorCode.none)
                continue
            leader_id = info.leader
            if leader_id == self._node_id:
                written += 1
                self._markers.write(topic_partition, pending.marker, partial(self._answered, pending, topic_partition))
            elif not is_serving(self._context.image.brokers.get(leader_id)):
                self._retry(pending, topic_partition)
            else:
                self._queued.setdefault(leader_id, []).append((pending, topic_partition))
                touched[leader_id] = None
        for leader_id in touched:
            self._send_queued(leader_id)

    def _route_rest(self) -> None:
        rest, self._rest = self._rest, []
        self._route(rest)

    def _send_queued(self, leader_id: NodeId) -> None:
        queued = self._queued.get(leader_id)
        leader = self.requests.to(leader_id)
        while queued and len(leader) < _REQUESTS_IN_FLIGHT_MAX and not self._context.is_stopping:
            markers = queued[:_PARTITIONS_A_REQUEST_MAX]
            del queued[:_PARTITIONS_A_REQUEST_MAX]
            fields = {"markers": _fields(markers)}
            leader.send(_WRITE_TXN_MARKERS, fields, partial(self._on_response, leader_id, markers))

    def _on_response(
        self, leader_id: NodeId, markers: Sequence[tuple[PendingMarkers, TopicPartition]], response: Any
    ) -> None:
        codes: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for marker in response.markers if response is not None else ():
            for topic in marker.topics:
                for partition in topic.partitions:
                    place = TopicPartition(topic.name, partition.partition_index)
                    codes[marker.producer_id, place] = partition.error_code
        if response is None:
            # Another broker may lead now: nothing waits for a connection to this one.
            markers = [*markers, *self._queued.pop(leader_id, ())]
        for pending, topic_partition in markers:
            code = codes.get((pending.marker.producer_id, topic_partition), ErrorCode.network_exception)
            self._answered(pending, topic_partition, code)
        self._send_queued(leader_id)

    def _answered(self, pending: PendingMarkers, topic_partition: TopicPartition, code: ErrorCode) -> None:
        if pending.is_over:
            return
        if code == ErrorCode.none:
            pending.remaining.discard(topic_partition)
            if not pending.remaining:
                pending.is_over = True
                pending.then()
        elif code in _FENCED:
            pending.is_over = True
            self._context.notice(
                "warning",
                "transaction-markers-fenced",
                transactional_id=pending.transactional_id,
                partition=str(topic_partition),
                error=code.name,
            )
        else:
            self._retry(pending, topic_partition)

    def _retry(self, pending: PendingMarkers, topic_partition: TopicPartition) -> None:
        self._failed.append((pending, topic_partition))
        if not self._context.is_stopping:
            self._context.within(self, RETRY_MS, self._retry_failed)

    def _retry_failed(self) -> None:
        failed, self._failed = self._failed, []
        self._route(failed)


def _fields(markers: Sequence[tuple[PendingMarkers, TopicPartition]]) -> list[dict[str, object]]:
    """The markers of a WriteTxnMarkers request: one for each transaction, with its partitions here by topic."""
    by_transaction: dict[PendingMarkers, dict[str, list[int]]] = {}
    for pending, (topic, index) in markers:
        by_transaction.setdefault(pending, {}).setdefault(topic, []).append(index)
    return [
        {
            "producer_id": pending.marker.producer_id,
            "producer_epoch": pending.marker.producer_epoch,
            "transaction_result": pending.marker.is_commit,
            "coordinator_epoch": pending.marker.coordinator_epoch,
            "transaction_version": pending.marker.transaction_version,
            "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in topics.items()],
        }
        for pending, topics in by_transaction.items()
    ]
