"""Who a broker is, the times it keeps, and the states of its membership with their allowed moves."""

from dataclasses import dataclass
from enum import StrEnum

from yak.ids import NodeId


class MemberState(StrEnum):
    """Where the broker stands with the metadata store."""

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
    """Who this broker is. `cluster_id` is what `meta.properties` says, None when there is none yet.

    `boot_id` is new at each start; `directories` are the log directories' ids. `lossy` says that this boot may have lost
    records that were acknowledged before (a crash of the machine without `flush`). `min_isr` is the min.insync.replicas
    that it was started with, for topics without their own: the store must know the rule by which it commits.
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
    """Where this broker answers HTTP, on the same host; 0: nowhere."""


@dataclass(slots=True, frozen=True)
class MembershipSettings:
    """Times in ms. The session must be longer than the time between heartbeats.

    `session_timeout_ms` is also the controller's lease: who did not count on for that long is taken for dead.
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
    """After all brokers have offered what they know: time for an operator to bring the store's own data back."""
    refuse_unsafe_store: bool = False

    @property
    def patience_ms(self) -> int:
        """How long a counter may be *seen* to stand still.

        It is read once a heartbeat, so it has been still for up to one interval when that is first seen; a quarter more
        keeps a timer that is a little late from costing another interval.
        """
        return max(self.session_timeout_ms - self.heartbeat_interval_ms * 5 // 4, self.heartbeat_interval_ms)

    @property
    def gap_ms(self) -> int:
        """A longer time between two answers is a gap in our own view: what it hid is not held against anybody."""
        return max(1_000, 2 * self.heartbeat_interval_ms)
