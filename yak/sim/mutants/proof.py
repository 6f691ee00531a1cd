"""Mutants of the proof by which brokers authenticate each other (ADR 0014)."""

from __future__ import annotations

from typing import Any

from yak.protocol.peer_proof import ClusterSecret, Incarnation
from yak.replication.fetch_sessions import FollowerSessions
from yak.sim.mutants.mutant import Mutant, Swaps


def _believe_the_fetch(swaps: Swaps) -> None:
    real = vars(FollowerSessions)["_check_sender"]

    def check_sender(self: Any, connection: Any, request: Any) -> Any:
        known = self._context.image.brokers.get(request.replica_id)
        if connection.proven is not None or known is None:
            return real(self, connection, request)
        connection.proven = Incarnation(request.replica_id, known.broker_epoch, known.boot_id)
        try:
            return real(self, connection, request)
        finally:
            connection.proven = None

    swaps.put(FollowerSessions, "_check_sender", check_sender)


def _believe_the_proof(swaps: Swaps) -> None:
    swaps.put(ClusterSecret, "is_caller", lambda _self, _proof, _exchange: True)


MUTANTS = (
    Mutant("unproven-fetch-counts", "a replica fetch needs a proven connection", _believe_the_fetch, 30),
    Mutant("any-proof-believed", "a broker proves that it holds the cluster's secret", _believe_the_proof, 30),
)
