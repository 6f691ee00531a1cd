"""The timeouts and policies by which a broker takes part in the cluster."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ClusterSettings:
    """Times in ms. The session must be longer than the heartbeat interval.

    `session_timeout_ms` is also the controller's lease: a broker without a heartbeat for so long counts as dead.
    `auto_leader_rebalance`, `leader_imbalance_check_interval_ms` and `unclean_leader_election` are Kafka's configs of
    these names.
    """

    heartbeat_interval_ms: int = 500
    session_timeout_ms: int = 6_000
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_ms: int = 5_000
    unclean_leader_election: bool = False
    recheck_ms: int = 3_000
    high_watermark_interval_ms: int = 200
    takeover_wait_ms: int = 2_000
    leave_timeout_ms: int = 2_000
    elections_a_call: int = 100
    """A script blocks the store while it runs; this many elections take about 1 ms. The simulator lowers it."""
    trim_every: int = 100_000
    """The records between two snapshots of the store's log."""
    trim_keeps: int = 100_000
    """Records that the store's log keeps behind a snapshot, for brokers that come back after a while. The simulator lowers both."""

    @property
    def patience_ms(self) -> int:
        """How long a counter may be *seen* not to change.

        Counters are read once per heartbeat, so a counter may have been unchanged for one interval when that is first
        seen. Another quarter of an interval allows for a timer that is a little late.
        """
        return max(self.session_timeout_ms - self.heartbeat_interval_ms * 5 // 4, self.heartbeat_interval_ms)

    @property
    def gap_ms(self) -> int:
        """A longer time between two answers is a local pause: it does not count against other brokers."""
        return max(1_000, 2 * self.heartbeat_interval_ms)
