"""What a seed draws before its run begins: how many nodes there are, and their settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from yak.quorum.raft_log import SNAPSHOT_BYTES
from yak.quorum.voters import Voter, VoterSet
from yak.sim.seeded_random import SeededRandom

_VOTERS: Final = (1, 3, 3, 3, 3, 5, 5, 5)
_FETCH_TIMEOUTS_MS: Final = (800, 1_200, 2_000)
_SNAPSHOTS_BYTES: Final = (3_000, 8_000, 20_000, SNAPSHOT_BYTES)
_PIECES_BYTES: Final = (3_000, 10_000, 1 << 20)


@dataclass(slots=True, frozen=True)
class Draws:
    """The settings of a run."""

    voters: VoterSet
    observers: int
    fetch_timeout_ms: int
    election_timeout_ms: int
    request_timeout_ms: int
    snapshot_bytes: int
    piece_bytes: int
    has_job_pauses: bool
    faults_count: int
    faults_ms: int
    """Faults begin within this time."""

    @classmethod
    def of(cls, rng: SeededRandom) -> Draws:
        count = rng.choice(_VOTERS)
        fetch_timeout_ms = rng.choice(_FETCH_TIMEOUTS_MS)
        return cls(
            VoterSet.of([Voter(node_id, "h", 9_000 + node_id) for node_id in range(1, count + 1)]),
            rng.choice((0, 1, 1, 2)),
            fetch_timeout_ms,
            rng.choice((150, 300, 1_000)),
            rng.choice((700, 1_000, 3_000)),
            rng.choice(_SNAPSHOTS_BYTES),
            rng.choice(_PIECES_BYTES),
            rng.chance(15),
            rng.choice((4, 8, 16, 24)),
            rng.between(1_000, 5_000),
        )
