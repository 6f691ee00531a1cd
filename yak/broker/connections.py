"""Connections as the core sees them: requests are stepped in order and answered in order.

Kafka's clients match answers by order, so an answer that is ready early waits behind the ones before it. A waiting
Produce does not stop the next request from being stepped.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from yak.broker.call import Call
from yak.broker.events import Effect, Reply
from yak.ids import ConnectionId
from yak.limits import FETCH_ANSWER_AIM_BYTES, FETCH_ANSWER_AIM_FAR_BYTES
from yak.protocol.peer_proof import Exchange, Incarnation

if TYPE_CHECKING:
    from yak.broker.replica_sessions import ReplicaSession


class Proving:
    """The proof of another broker under way on a connection (`yak.broker.apis.sasl_authenticate`)."""

    __slots__ = ("caller", "exchange")

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        """None until the caller's hello came."""
        self.caller: Incarnation | None = None


class Connection:
    """One client connection: its unanswered calls, oldest first."""

    __slots__ = (
        "calls",
        "client_software",
        "connection_id",
        "delayed_partitions",
        "fetch_aim_bytes",
        "fetch_rotation",
        "is_in_process",
        "is_open",
        "peer",
        "proven",
        "proving",
        "replica_session",
    )

    def __init__(
        self, connection_id: ConnectionId, peer: str, round_trip_ms: int = 0, *, is_in_process: bool = False
    ) -> None:
        self.connection_id = connection_id
        self.peer = peer
        self.is_open = True
        self.is_in_process = is_in_process
        self.calls: deque[Call] = deque()
        self.client_software = ""
        self.delayed_partitions = 0
        """Partitions that its delayed fetches name."""
        self.proving: Proving | None = None
        self.proven: Incarnation | None = None
        """The broker at the other end, once it has proven itself."""
        self.fetch_aim_bytes = max(
            FETCH_ANSWER_AIM_BYTES, min(FETCH_ANSWER_AIM_BYTES * round_trip_ms, FETCH_ANSWER_AIM_FAR_BYTES)
        )
        """How large an answer to a fetch may grow: more across a long line, where round trips would be the limit."""
        self.fetch_rotation = 0
        """Where the next fetch of many partitions starts reading, so that none of them starves."""
        self.replica_session: ReplicaSession | None = None
        """Set while a follower fetches over this connection."""

    def release_answers(self, effects: list[Effect]) -> None:
        """Emit every answer that has nothing unanswered before it."""
        calls = self.calls
        while calls:
            parts = calls[0].parts
            if parts is None:
                return
            calls.popleft()
            effects.append(Reply(self.connection_id, parts))
