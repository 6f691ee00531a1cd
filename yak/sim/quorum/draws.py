"""What a seed draws before its run begins: how many nodes there are, and their settings."""

from __future__ import annotations

from typing import Final

from yak.quorum.raft_log import SNAPSHOT_BYTES
from yak.quorum.voters import Voter, VoterSet
from yak.sim.seeded_random import SeededRandom

_VOTERS: Final = (1, 3, 3, 3, 3, 5, 5, 5)


class Draws:
    """The settings of a run."""

    def __init__(self, rng: SeededRandom) -> None:
        count = rng.choice(_VOTERS)
        self.voters = VoterSet.of([Voter(node_id, f"h{node_id}", 9_000 + node_id) for node_id in range(1, count + 1)])
        self.fetch_timeout_ms = rng.choice((800, 1_200, 2_000))
        self.observers = rng.choice((0, 1, 1, 2))
        self.election_timeout_ms = rng.choice((150, 300, 1_000))
        self.request_timeout_ms = rng.choice((700, 1_000, 3_000))
        self.snapshot_bytes = rng.choice((3_000, 8_000, 20_000, SNAPSHOT_BYTES))
        self.piece_bytes = rng.choice((3_000, 10_000, 1 << 20))
        self.has_job_pauses = rng.chance(15)
        self.faults_count = rng.choice((4, 8, 16, 24))
        self.faults_ms = rng.between(1_000, 5_000)
        """Faults begin within this time."""
