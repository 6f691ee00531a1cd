"""A broker's identity and timeouts, and its lifecycle states with their allowed transitions."""

from dataclasses import dataclass
from enum import StrEnum

from yak.ids import NodeId


class MemberState(StrEnum):
    """The broker's state towards the metadata store."""

    DISCONNECTED = "DISCONNECTED"
    VERIFYING = "VERIFYING"
    BOOTSTRAPPING = "BOOTSTRAPPING"
    REGISTERING = "REGISTERING"
    CATCHING_UP = "CATCHING_UP"
    ACTIVE = "ACTIVE"
    FROZEN = "FROZEN"
    REFUSED = "REFUSED"
    LEFT = "LEFT"


_S = MemberState
_ENDS = {_S.FROZEN, _S.REFUSED, _S.DISCONNECTED, _S.LEFT}
MOVES: dict[MemberState, set[MemberState]] = {
    _S.DISCONNECTED: {_S.VERIFYING, _S.REFUSED, _S.LEFT},
    _S.VERIFYING: {_S.BOOTSTRAPPING, _S.REGISTERING, _S.CATCHING_UP} | _ENDS,
    _S.BOOTSTRAPPING: {_S.REGISTERING} | _ENDS,
    _S.REGISTERING: {_S.CATCHING_UP} | _ENDS,
    _S.CATCHING_UP: {_S.ACTIVE, _S.VERIFYING, _S.REGISTERING} | _ENDS,
    _S.ACTIVE: {_S.CATCHING_UP, _S.VERIFYING, _S.REGISTERING} | _ENDS,
    _S.FROZEN: {_S.VERIFYING, _S.BOOTSTRAPPING, _S.DISCONNECTED, _S.REFUSED, _S.LEFT},
    _S.REFUSED: set(),
    _S.LEFT: set(),
}


@dataclass(slots=True, frozen=True)
class Identity:
    """This broker's identity. `cluster_id` is the one in `meta.properties`, None when there is none yet.

    `boot_id` is new at each start; `directories` are the ids of the log directories. `lossy` says that this start may
    have lost acknowledged records (a crash of the machine without `flush`). `min_isr` is the broker's
    min.insync.replicas, for topics without their own: the store must know the rule by which it commits.
    """

    node_id: NodeId
    boot_id: str
    directories: tuple[str, ...]
    host: str
    port: int
    rack: str | None = None
    role: str = "leader"
    cluster_id: str | None = None
    lossy: bool = False
    min_isr: int = 1
    http_port: int = 0
    """The port for HTTP, on the same host; 0 for none."""


@dataclass(slots=True, frozen=True)
class MembershipSettings:
    """Times in ms. The session must be longer than the heartbeat interval.

    `session_timeout_ms` is also the controller's lease: a broker without a heartbeat for so long is taken for dead.
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
    restore_wait_ms: int = 5_000
    """Wait after all brokers have sent their offers, so that an operator can bring the store's own data back."""
    refuse_unsafe_store: bool = False

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
