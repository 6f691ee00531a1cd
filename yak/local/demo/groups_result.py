"""The settings, the displayed rows and the result of the groups demo."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from yak.ids import NodeId, Offset
from yak.local.demo.group_ledger import PartitionVerdict, totals
from yak.local.demo.group_member import ASSIGNOR, HEARTBEAT_MS
from yak.local.failover_timeline import tenths

GROUP_ID: Final = "demo"
TOPIC: Final = "server_load"
PARTITIONS: Final = 6
MEMBERS: Final = 3
BROKERS: Final = 3
MIN_ISR: Final = 2


@dataclass(frozen=True, slots=True)
class GroupsDemoSettings:
    """The settings. `data_dir` None is a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    session_timeout_ms: int
    keep: bool = False
    data_dir: str | None = None


@dataclass(slots=True)
class GroupsTimes:
    """Measured times in milliseconds; None where unknown."""

    start_ms: float = 0.0
    shared_ms: float = 0.0
    """From the start of the first member until each partition has a reader, evenly."""
    taken_over_ms: float = 0.0
    """From the kill of the member until the last of its partitions is reassigned."""
    read_again_ms: float = 0.0
    """From there to the first record of the last of them."""
    others_pause_ms: float | None = None
    """The longest pause meanwhile of a partition that stayed with its reader."""
    next_commit_ms: float = 0.0
    """From the kill of the coordinator to the first acknowledged commit that was sent after it."""
    all_commit_ms: float = 0.0
    """The same, for the member that waited longest."""
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member's present state."""

    name: str
    pid: int | None
    partitions: tuple[int, ...]
    read: int
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Handover:
    """One partition of the killed member. Offsets are of the next record; `committed` is the coordinator's own
    value."""

    partition: int
    committed: Offset
    read_to: Offset
    taken_by: str
    began_at: Offset | None

    @property
    def holds(self) -> bool:
        """Whether the next reader started at the last commit: it skipped nothing, and read nothing that was
        committed."""
        return self.began_at == self.committed

    @property
    def again(self) -> int:
        """Records that were read, not committed, and therefore read a second time."""
        return max(self.read_to - self.committed, 0)


@dataclass(frozen=True, slots=True)
class KilledMember:
    """The killed member, and the new readers of its partitions."""

    name: str
    pid: int
    handovers: tuple[Handover, ...]


@dataclass(frozen=True, slots=True)
class KilledCoordinator:
    """The killed coordinator.

    After the kill, `rejoined` members went through a rebalance and `moved` partitions were reassigned; neither is
    necessary.
    """

    node_id: NodeId
    pid: int | None
    was_controller: bool
    new_node_id: NodeId
    rejoined: int
    moved: int


@dataclass(frozen=True, slots=True)
class GroupsDemoResult:
    """The result of the demo. `commits_lost`: partitions whose last acknowledged commit the coordinator does not
    have."""

    settings: GroupsDemoSettings
    verdicts: tuple[PartitionVerdict, ...]
    killed_member: KilledMember
    killed_coordinator: KilledCoordinator
    commits_lost: int
    times: GroupsTimes
    bootstrap: str
    data_dir: str

    @property
    def holds(self) -> bool:
        """Whether every record was read, no committed record twice, and no commit was lost."""
        return (
            sum(verdict.acknowledged for verdict in self.verdicts) > 0
            and all(verdict.holds for verdict in self.verdicts)
            and bool(self.killed_member.handovers)
            and all(each.holds for each in self.killed_member.handovers)
            and self.commits_lost == 0
        )

    def as_json(self) -> dict[str, Any]:
        """The JSON result."""
        member = self.killed_member
        return {
            "ok": self.holds,
            **totals(self.verdicts),
            "commits_lost": self.commits_lost,
            "group": {
                "group_id": GROUP_ID,
                "topic": TOPIC,
                "members": MEMBERS,
                "session_timeout_ms": self.settings.session_timeout_ms,
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "assignor": ASSIGNOR,
            },
            "brokers": BROKERS,
            "min_insync_replicas": MIN_ISR,
            "killed_member": {
                "name": member.name,
                "pid": member.pid,
                "partitions": [
                    {**asdict(each), "read_again": each.again, "ok": each.holds} for each in member.handovers
                ],
            },
            "killed_coordinator": asdict(self.killed_coordinator),
            "times": {name: tenths(value) for name, value in asdict(self.times).items()},
            "partitions": [{**asdict(verdict), "ok": verdict.holds} for verdict in self.verdicts],
            "data_dir": self.data_dir if self.settings.keep else None,
            "bootstrap": self.bootstrap if self.settings.keep else None,
        }
