"""What a node of the quorum is started with."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from yak.ids import NodeId
from yak.quorum.raft_log import SNAPSHOT_BYTES
from yak.quorum.voters import VoterSet


@dataclass(slots=True, frozen=True)
class QuorumConfig:
    """What a node is started with. The voters count while the log names none."""

    node_id: NodeId
    directory_id: uuid.UUID
    cluster_id: str
    host: str
    port: int
    voters: VoterSet
    fetch_timeout_ms: int = 2_000
    """A voter that cannot fetch for this long requests votes; a leader without fetches of a majority resigns after 1.5
    times it (controller.quorum.fetch.timeout.ms)."""
    election_timeout_ms: int = 1_000
    """The longest wait for votes (controller.quorum.election.timeout.ms)."""
    creates_cluster: bool = True
    """Whether the first leader creates the cluster: not where Redis has it, nor on disks that know a cluster."""
    snapshot_bytes: int = SNAPSHOT_BYTES
    """Bytes of committed batches after which a snapshot replaces them (metadata.log.max.record.bytes.between.snapshots)."""
