"""Mutants of the proof by which brokers authenticate each other (ADR 0014)."""

from __future__ import annotations

from typing import Any

from yak.broker.replica_serving import ReplicaServing
from yak.protocol.peer_proof import ClusterSecret, Incarnation
from yak.sim.mutants.mutant import Mutant, Swaps


def _believe_the_fetch(swaps: Swaps) -> None:
    real = vars(ReplicaServing)["_refusal"]

    def refusal(self: Any, connection: Any, request: Any) -> Any:
        known = self._broker.image.brokers.get(request.replica_id)
        if connection.proven is not None or known is None:
            return real(self, connection, request)
        connection.proven = Incarnation(request.replica_id, known.broker_epoch, known.boot_id)
        try:
            return real(self, connection, request)
        finally:
            connection.proven = None

    swaps.put(ReplicaServing, "_refusal", refusal)


def _believe_the_proof(swaps: Swaps) -> None:
    swaps.put(ClusterSecret, "is_caller", lambda _self, _proof, _exchange: True)


MUTANTS = (
    Mutant("unproven-fetch-counts", "a replica fetch needs a proven connection", _believe_the_fetch, 30),
    Mutant("any-proof-believed", "a broker proves that it holds the cluster's secret", _believe_the_proof, 30),
)
