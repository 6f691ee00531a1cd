"""A group, its members, and its lag in each partition: `yak groups`, `GET /api/groups/{group}` and the terminal UI."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from yak.ids import NodeId, Offset, TopicPartition
from yak.view.lag import lag_records, total_lag


@dataclass(frozen=True, slots=True)
class Member:
    """One member. None is unknown: for a rebalancing classic group, and for members that are not consumers.

    `epoch` is the member epoch of the new protocol (KIP-848), `target` the member's target assignment.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """A member of `GET /api/groups/{group}`."""
        return {
            "member_id": self.member_id,
            "client_id": self.client_id,
            "host": self.host,
            "instance_id": self.instance_id,
            "epoch": self.epoch,
            "topics": None if self.topics is None else list(self.topics),
            "assignment": partitions_json(self.assigned),
            "target": partitions_json(self.target),
        }


def members_text(members: Sequence[Member]) -> str:
    """`worker-1 at 10.0.0.1, worker-2 at 10.0.0.2 and 3 more`."""
    text = ", ".join(f"{each.client_id} at {each.host.lstrip('/')}" for each in members[:3])
    return text + (f" and {len(members) - 3} more" if len(members) > 3 else "")


def partitions_json(partitions: Iterable[TopicPartition] | None) -> list[dict[str, Any]] | None:
    """An assignment; None if it is unknown."""
    return None if partitions is None else [each._asdict() for each in partitions]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group. None is unknown: there is no commit, or the partition is deleted or has no leader.

    `metadata` is the client's text beside the offset, `oldest_unread_ms` the timestamp of the first unread record.
    """

    partition: TopicPartition
    committed: Offset | None
    log_start_offset: Offset | None = None
    high_watermark: Offset | None = None
    member: Member | None = None
    metadata: str = ""
    oldest_unread_ms: int | None = None

    @property
    def lag(self) -> int | None:
        return lag_records(self.committed, self.high_watermark)

    def lag_ms(self, now_ms: int) -> int | None:
        """Lag in time: the age of the oldest unread record in milliseconds; 0 without lag, None if it is unknown."""
        oldest_ms = now_ms if self.lag == 0 else self.oldest_unread_ms
        return None if oldest_ms is None else max(0, now_ms - oldest_ms)

    @property
    def trouble(self) -> str | None:
        """A description of a conflict between the committed offset and the log; None without one."""
        if self.committed is None:
            return None
        if self.high_watermark is None:
            return "the topic is gone, or the partition has no leader"
        if self.log_start_offset is not None and self.committed < self.log_start_offset:
            gone = self.log_start_offset - self.committed
            return f"{gone} of them are deleted: the log starts at {self.log_start_offset}"
        if self.committed > self.high_watermark:
            return f"the log ends at {self.high_watermark}: it was truncated, or the topic was recreated"
        return None

    def as_json(self) -> dict[str, Any]:
        """A partition of `GET /api/groups/{group}`."""
        return {
            **self.partition._asdict(),
            "committed": self.committed,
            "metadata": self.metadata,
            "log_start_offset": self.log_start_offset,
            "high_watermark": self.high_watermark,
            "lag": self.lag,
            "member_id": None if self.member is None else self.member.member_id,
        }


@dataclass(frozen=True, slots=True)
class Group:
    """One group. `members` is None when not requested; `assignor` and `epoch` are None where the group has none.

    `coordinator_address` is known to clients only; `partitions` is empty until the offsets are read.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: NodeId
    members: tuple[Member, ...] | None = None
    assignor: str | None = None
    epoch: int | None = None
    coordinator_address: str = ""
    partitions: tuple[PartitionLag, ...] = ()

    @property
    def lag(self) -> int | None:
        """Lag in records, over all partitions where it is known; None if it is known in none."""
        return total_lag(each.lag for each in self.partitions)

    def lag_ms(self, now_ms: int) -> int | None:
        """Lag in time: the largest of all partitions, in milliseconds."""
        return max((lag for each in self.partitions if (lag := each.lag_ms(now_ms)) is not None), default=None)

    @property
    def assigned(self) -> dict[TopicPartition, Member]:
        return {partition: member for member in self.members or () for partition in member.assigned or ()}

    def head_json(self) -> dict[str, Any]:
        """A group of `GET /api/groups`."""
        return {
            "group": self.group_id,
            "type": self.type,
            "state": self.state,
            "protocol_type": self.protocol_type,
            "coordinator": self.coordinator,
        }

    def as_json(self) -> dict[str, Any]:
        """`GET /api/groups/{group}`."""
        return {
            **self.head_json(),
            "assignor": self.assignor,
            "epoch": self.epoch,
            "members": [each.as_json() for each in self.members or ()],
            "partitions": [each.as_json() for each in self.partitions],
            "lag": self.lag,
        }


def partition_lags(
    group: Group,
    committed: Mapping[TopicPartition, Offset],
    marks: Mapping[TopicPartition, tuple[Offset | None, Offset | None]],
    metadata: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> tuple[PartitionLag, ...]:
    """A group's partitions in order: those with commits, and those assigned to members.

    `marks` has a partition's log start offset and high watermark, `metadata` the text of its commit.
    """
    owners, unknown = group.assigned, (None, None)
    return tuple(
        PartitionLag(each, committed.get(each), *marks.get(each, unknown), owners.get(each), metadata.get(each, ""))
        for each in sorted({*committed, *owners})
    )
