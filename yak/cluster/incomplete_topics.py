"""Topics left incomplete by a broker that died: the controller removes or completes them.

A topic of more than 200 partitions takes several calls of one broker. When that broker dies in between, the controller
removes a new topic, which no client has seen, and adds the missing partitions to one that was growing. A live broker
goes on by itself, also after an outage of the store, so the controller acts only on topics that did not change for a
while.
"""

import uuid
from collections.abc import Callable, Collection

from yak.cluster.image import PendingTopic
from yak.cluster.store_session import StoreSession
from yak.cluster.topic_changes import plan_missing_partitions
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId
from yak.ports.metadata_store import StoreOutcome

UNCHANGED_MS = 2_000
OVERDUE_MS = 30_000
"""After this time without a change the creator of a new topic has given up, though it lives: the store refused its removal."""
NO_ROOM_PAUSE_MS = 30_000
"""Pause between attempts when too few brokers have room: no change of the image reports when there is some."""


class IncompleteTopics:
    """The controller's check of pending topics. `on_failed` gets refusals, `full` are brokers without room for logs."""

    def __init__(
        self,
        session: StoreSession,
        on_failed: Callable[[StoreOutcome, int], None],
        full: Callable[[], Collection[NodeId]],
    ) -> None:
        self._session = session
        self._on_failed = on_failed
        self._full = full
        self._seen: tuple[object, object] | None = None
        self._pending: dict[uuid.UUID, PendingTopic] = {}
        self._term = self._since_ms = 0
        self.due_ms: int | None = None

    def restart(self) -> None:
        """Check all pending topics again, after an election or an outage of the store."""
        self._term += 1
        self._seen = None
        self._pending = {}
        self.due_ms = None

    def check(self, now_ms: int) -> None:
        """Start the timer when brokers or pending topics changed: the broker that creates a topic may be dead."""
        image = self._session.image
        if self._seen is not None and self._seen[0] is image.brokers and self._seen[1] is image.pending:
            return
        self._seen = (image.brokers, image.pending)
        self._pending, self._since_ms = dict(image.pending), now_ms
        self.due_ms = now_ms + UNCHANGED_MS if self._pending else None

    def on_time(self, now_ms: int) -> None:
        """Handle the topics that did not change."""
        if self.due_ms is None or self.due_ms > now_ms:
            return
        overdue_ms = self._since_ms + OVERDUE_MS
        self.due_ms = None if now_ms >= overdue_ms else overdue_ms
        for topic_id, pending in self._pending.items():
            if self._session.image.pending.get(topic_id) is pending:
                self._resolve(pending, is_overdue=now_ms >= overdue_ms)

    def _resolve(self, pending: PendingTopic, *, is_overdue: bool) -> None:
        term = self._term

        def on_reply(outcome: StoreOutcome, now_ms: int) -> None:
            if term != self._term:
                return
            missing = outcome.value.get("missing")
            if outcome.code != "OK":
                self._retry(outcome, now_ms)
            elif outcome.value.get("removed"):
                self._session.say("warning", "incomplete-topic-removed", topic=pending.name)
            elif isinstance(missing, list) and missing:
                self._complete(pending, [int(number) for number in missing], now_ms)

        arguments: dict[str, object] = {"topic_id": str(pending.topic_id), "is_overdue": is_overdue}
        self._session.send("undo_half_made", arguments, on_reply)

    def _complete(self, pending: PendingTopic, missing: list[int], now_ms: int) -> None:
        try:
            requests = plan_missing_partitions(self._session.image, pending, missing, self._full())
        except PeerError as error:
            # Retried when the brokers change.
            if error.error_code is ErrorCode.kafka_storage_error:
                self.due_ms = now_ms + NO_ROOM_PAUSE_MS
            self._session.say("warning", "incomplete-partitions-delayed", topic=pending.name, reason=error.message)
            return
        self._session.say("info", "incomplete-partitions-created", topic=pending.name, partitions=len(missing))
        for request in requests:
            self._session.send(request.script, request.arguments, self._on_grown)

    def _on_grown(self, outcome: StoreOutcome, now_ms: int) -> None:
        if outcome.code not in ("OK", "NO_TOPIC"):
            self._retry(outcome, now_ms)

    def _retry(self, outcome: StoreOutcome, now_ms: int) -> None:
        """Check again soon, e.g. after a STORE_ERROR, unless the refusal ends this broker's term (`restart`)."""
        self.due_ms = now_ms + UNCHANGED_MS
        self._on_failed(outcome, now_ms)
