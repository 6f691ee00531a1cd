"""Metrics of the metadata quorum, as Kafka's raft-metrics; a broker of a cluster with Redis has none of them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from yak.server.http.metrics.text import Samples, counter, gauge, histogram
from yak.views.quorum import ROLES, role_of

if TYPE_CHECKING:
    from yak.broker.broker import Broker

STATE: Final = gauge("yak_quorum_state", "1 for the current role of this broker in the metadata quorum")
LEADER: Final = gauge("yak_quorum_leader_id", "Node id of the quorum's leader; -1 while none is known")
EPOCH: Final = gauge("yak_quorum_epoch", "Newest epoch of the quorum that this broker knows")
HIGH_WATERMARK: Final = gauge("yak_quorum_high_watermark", "High watermark of the quorum's log on this broker")
LOG_END: Final = gauge("yak_quorum_log_end_offset", "Log end offset of the quorum's log on this broker")
VOTERS: Final = gauge("yak_quorum_voters", "Number of voters")
OBSERVERS: Final = gauge("yak_quorum_observers", "Number of observers; reported by the quorum's leader only")
LAG: Final = gauge(
    "yak_quorum_replica_lag_offsets", "Offsets that a voter or observer is behind; reported by the quorum's leader only"
)
ELECTIONS: Final = counter("yak_quorum_elections", "Elections that this broker started, pre-votes included")
COMMANDS: Final = counter("yak_quorum_commands", "Metadata changes that this broker appended as the quorum's leader")
COMMIT_SECONDS: Final = histogram(
    "yak_quorum_commit_seconds",
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
