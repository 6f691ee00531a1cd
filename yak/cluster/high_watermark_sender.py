"""Sends high watermarks and log ends to the store, for display and as a lower bound to check against.

The log remains the authority.
"""

import uuid
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import TypeAlias

from yak.cluster.store_session import StoreSession
from yak.ids import LeaderEpoch, NodeId, Offset
from yak.ports.metadata_store import StoreOutcome

MAX_PER_CALL = 500
"""About 1 ms of work for this broker, and for the store."""
CALLS_AN_INTERVAL = 4
"""Calls within one interval while more values changed than a call takes."""

_Values: TypeAlias = dict[tuple[uuid.UUID, int], tuple[LeaderEpoch, Offset, dict[str, Offset]]]


class HighWatermarkSender:
    """The newest values not reported yet; one call is under way at a time."""

    def __init__(self, session: StoreSession, interval_ms: int) -> None:
        self._session = session
        self._interval_ms = interval_ms
        self._changed: _Values = {}
        self._due_ms = 0
        self._in_flight = False

    def note(
        self,
        topic_id: uuid.UUID,
        partition: int,
        leader_epoch: LeaderEpoch,
        high_watermark: Offset,
        log_end_offsets: Mapping[NodeId, Offset],
    ) -> None:
        """Note that a high watermark or a replica's log end moved."""
        ends = {str(node_id): log_end_offsets[node_id] for node_id in sorted(log_end_offsets)}
        self._changed[topic_id, partition] = (leader_epoch, high_watermark, ends)

    def due_ms(self) -> int | None:
        """When to call `report`; None while nothing changed or a call is under way."""
        if not self._changed or self._in_flight:
            return None
        return self._due_ms

    def report(self, now_ms: int) -> None:
        """Report the changed values, or as many as one call takes."""
        reported = {key: self._changed.pop(key) for key in list(islice(self._changed, MAX_PER_CALL))}
        partitions = [[str(topic_id), partition, *values] for (topic_id, partition), values in reported.items()]
        self._due_ms = now_ms + self._interval_ms // (CALLS_AN_INTERVAL if self._changed else 1)
        self._in_flight = True
        self._session.send("report_hw", {"partitions": partitions}, partial(self._on_reply, reported))

    def pause(self) -> None:
        """Abandon the call under way; its values are sent again when they change."""
        self._in_flight = False

    def _on_reply(self, reported: _Values, outcome: StoreOutcome, now_ms: int) -> None:  # noqa: ARG002
        self._in_flight = False
        if outcome.code == "STORE_ERROR":
            self._changed = reported | self._changed
