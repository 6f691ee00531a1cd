"""What the groups demo is asked for, what it shows on its way, and what it found."""

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
    """How the demo runs. `data_dir` None is a new temporary directory, deleted at the end unless `keep`."""

    load_seconds: float
    session_timeout_ms: int
    keep: bool = False
    data_dir: str | None = None


@dataclass(slots=True)
class GroupsTimes:
    """Measured times in milliseconds; None where nobody could tell."""

    start_ms: float = 0.0
    shared_ms: float = 0.0
    """From the start of the first member to each partition having a reader, evenly."""
    taken_over_ms: float = 0.0
    """From the kill of the member to the last of its partitions being given to another."""
    read_again_ms: float = 0.0
    """From there to the first record of the last of them."""
    others_pause_ms: float | None = None
    """The longest time meanwhile without a record from a partition that stayed where it was."""
    next_commit_ms: float = 0.0
    """From the kill of the coordinator to the first commit that was asked for after it."""
    all_commit_ms: float = 0.0
    """The same, of the member that waited longest."""
    total_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member as it is now."""

    name: str
    pid: int | None
    partitions: tuple[int, ...]
    read: int
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Handover:
    """One partition of the killed member. Offsets are of the next record; `committed` is the coordinator's own figure."""

    partition: int
    committed: Offset
    read_to: Offset
    taken_by: str
    began_at: Offset | None

    @property
    def holds(self) -> bool:
        """Whether the next reader began at the last commit: it missed nothing, and read nothing that was committed."""
        return self.began_at == self.committed

    @property
    def again(self) -> int:
        """Records that were read, not committed, and therefore read a second time."""
        return max(self.read_to - self.committed, 0)


@dataclass(frozen=True, slots=True)
class KilledMember:
    """The member that died, and where its partitions went."""

    name: str
    pid: int
    handovers: tuple[Handover, ...]


@dataclass(frozen=True, slots=True)
class KilledCoordinator:
    """The broker that died. After it, `rejoined` members went through a rebalance and `moved` partitions changed hands;
    neither has to be.
    """

    node_id: NodeId
    pid: int | None
    was_controller: bool
    new_node_id: NodeId
    rejoined: int
    moved: int


@dataclass(frozen=True, slots=True)
class GroupsDemoResult:
    """What the demo found. `commits_lost` counts partitions whose last acknowledged commit the coordinator does not have."""

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
        """Whether every record was read, nothing twice that was committed, and no commit was lost."""
        return (
            sum(verdict.acknowledged for verdict in self.verdicts) > 0
            and all(verdict.holds for verdict in self.verdicts)
            and bool(self.killed_member.handovers)
            and all(each.holds for each in self.killed_member.handovers)
            and self.commits_lost == 0
        )

    def as_json(self) -> dict[str, Any]:
        """The machine-readable verdict."""
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
