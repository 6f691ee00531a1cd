"""Metrics of the metadata quorum, as Kafka's raft-metrics; a broker of a cluster with Redis has none of them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from yak.server.http.metrics.text import Family, Samples
from yak.views.quorum import ROLES, role_of

if TYPE_CHECKING:
    from yak.broker.broker import Broker

STATE: Final = Family("yak_quorum_state", "gauge", "1 for the current role of this broker in the metadata quorum")
LEADER: Final = Family("yak_quorum_leader_id", "gauge", "Node id of the quorum's leader; -1 while none is known")
EPOCH: Final = Family("yak_quorum_epoch", "gauge", "Newest epoch of the quorum that this broker knows")
HIGH_WATERMARK: Final = Family(
    "yak_quorum_high_watermark", "gauge", "High watermark of the quorum's log on this broker"
)
LOG_END: Final = Family("yak_quorum_log_end_offset", "gauge", "Log end offset of the quorum's log on this broker")
VOTERS: Final = Family("yak_quorum_voters", "gauge", "Number of voters")
OBSERVERS: Final = Family("yak_quorum_observers", "gauge", "Number of observers; reported by the quorum's leader only")
LAG: Final = Family(
    "yak_quorum_replica_lag_offsets",
    "gauge",
    "Offsets that a voter or observer is behind; reported by the quorum's leader only",
)
ELECTIONS: Final = Family("yak_quorum_elections", "counter", "Elections that this broker started, pre-votes included")
COMMANDS: Final = Family(
    "yak_quorum_commands", "counter", "Metadata changes that this broker appended as the quorum's leader"
)
COMMIT_SECONDS: Final = Family(
    "yak_quorum_commit_seconds",
    "histogram",
    "Time from the append of a metadata change to its commit; measured by the leader, one change at a time",
)


def gather(broker: Broker, samples: Samples) -> None:
    """Write all samples, if there is a quorum."""
    if broker.quorum is None:
        return
    from yak.quorum.counters import COMMIT_BOUNDS_MS

    quorum = broker.quorum.quorum
    role = role_of(quorum)
    for each in ROLES:
        samples.add(STATE, int(each == role), state=each)
    samples.add(LEADER, quorum.leader_id)
    samples.add(EPOCH, quorum.epoch)
    samples.add(HIGH_WATERMARK, quorum.high_watermark)
    samples.add(LOG_END, quorum.log.end_offset)
    samples.add(VOTERS, len(quorum.voters.voters))
    if quorum.leader is not None:
        voters, followers = quorum.voters, list(quorum.leader.followers.items())
        observers = [node for node, follower in followers if not voters.has(node, follower.directory_id)]
        samples.add(OBSERVERS, len(observers))
        samples.of(LAG)
        for node_id, follower in followers:
            if follower.end_offset >= 0:
                samples.add(LAG, max(0, quorum.log.end_offset - follower.end_offset), replica=str(node_id))
    counters = quorum.counters
    samples.add(ELECTIONS, counters.elections)
    samples.add(COMMANDS, counters.commands)
    totals = list(accumulate(counters.commits_by_duration))
    bounds = (bound / 1000 for bound in COMMIT_BOUNDS_MS)
    samples.add_buckets(COMMIT_SECONDS, bounds, totals[:-1], totals[-1], counters.commits_ms / 1000, {})
