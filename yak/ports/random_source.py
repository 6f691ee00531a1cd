"""The port for randomness: real in `yak.server.random_source`, seeded in `yak.sim.seeded_random`."""

import uuid
from typing import Protocol


class RandomSource(Protocol):
    """The source of every random choice of the broker."""

    def uuid4(self) -> uuid.UUID:
        """A new random id: topic, cluster, directory and boot ids. Never the zero id nor Kafka's reserved ones."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1: fetch session ids, jitter."""

    def secret_bytes(self, count: int) -> bytes:
        """Bytes that cannot be guessed: nonces, the cluster's secret."""
