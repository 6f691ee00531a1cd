"""Observed failovers: when the failure was detected, the broker fenced, leaders elected, the first write done. Pure.

A failover begins with the first sign of a failed broker or a moved leader. Signs within 15 s belong to one
failover, unless they show that leaders were moved in order after it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

T = TypeVar("T", int, float)
_TOGETHER_MS: Final = 15_000
_FAILOVERS_MAX: Final = 50


@dataclass(slots=True)
class Failover:
    """One failover. Times are those of the reporting brokers; None: not observed (yet)."""

    began_ms: int
    node_id: int | None
    """The failed broker; None if leaders were moved in order."""
    detected_ms: int | None = None
    fenced_ms: int | None = None
    elected_ms: int | None = None
    first_write_ms: int | None = None
    back_ms: int | None = None
    moved: dict[str, tuple[int | None, int | None, int]] = field(default_factory=dict)
    """By partition: from, to, leader epoch."""
    truncated: list[str] = field(default_factory=list)

    @property
    def last_ms(self) -> int:
        seen = (self.began_ms, self.detected_ms, self.fenced_ms, self.elected_ms, self.first_write_ms)
        return max(each for each in seen if each is not None)

    def has_epoch(self, name: str, leader_epoch: int) -> bool:
        """Whether it has this election of a partition, or a later one."""
        return name in self.moved and self.moved[name][2] >= leader_epoch

    def is_over_for(self, name: str, moved_from: int | None, leader_epoch: int) -> bool:
        """Whether an election came after it: of a partition that it had moved, or from a leader that had not failed."""
        if name in self.moved:
            return self.moved[name][1] is not None and self.moved[name][2] < leader_epoch
        return self.node_id is not None and moved_from is not None and moved_from != self.node_id


class Elections:
    """The latest failovers, newest last."""

    def __init__(self) -> None:
        self.failovers: deque[Failover] = deque(maxlen=_FAILOVERS_MAX)

    @property
    def last(self) -> Failover | None:
        return self.failovers[-1] if self.failovers else None

    def take(self, event: dict[str, Any], *, is_new: bool) -> None:
        """Apply an event; most do not concern failovers.

        If several brokers report one event, the earliest time counts.
        """
        kind, time_ms = event["kind"], event["time_ms"]
        if kind == "broker-dead":
            lost = self._of(event.get("broker"), time_ms)
            lost.detected_ms = first(lost.detected_ms, time_ms)
        elif kind in ("broker-fenced", "broker-stopping"):
            lost = self._of(event.get("broker"), time_ms)
            lost.fenced_ms = first(lost.fenced_ms, time_ms)
        elif kind == "leader-changed":
            self._leader(event, time_ms)
        elif kind == "broker-unfenced":
            for each in reversed(self.failovers):
                if each.node_id == event.get("broker") and each.back_ms is None:
                    each.back_ms = time_ms
                    break
        elif kind == "log-truncated" and is_new and self.last is not None:
            self.last.truncated.append(event["message"])

    def wrote(self, partition: str, time_ms: int) -> None:
        """Note an acknowledged write. Only the first one after the partition's last election counts."""
        moved = next((each for each in reversed(self.failovers) if partition in each.moved), None)
        if moved is None or moved.elected_ms is None or moved.first_write_ms is not None:
            return
        if time_ms >= moved.elected_ms:
            moved.first_write_ms = time_ms

    def _leader(self, event: dict[str, Any], time_ms: int) -> None:
        moved_from = event.get("from")
        name = f"{event['topic']}-{event['partition']}"
        recent = [each for each in self.failovers if abs(time_ms - each.last_ms) <= _TOGETHER_MS]
        failover = next((each for each in recent if each.has_epoch(name, event["leader_epoch"])), self.last)
        if failover not in recent or failover.is_over_for(name, moved_from, event["leader_epoch"]):
            failover = self._begin(None, time_ms)
        failover.began_ms = min(failover.began_ms, time_ms)
        known = failover.moved.get(name)
        if known is None or known[1] is None:  # an earlier event may have left the partition without a leader
            failover.moved[name] = (moved_from if known is None else known[0], event.get("to"), event["leader_epoch"])
        if event.get("to") is not None:
            failover.elected_ms = first(failover.elected_ms, time_ms)

    def _of(self, node_id: int | None, time_ms: int) -> Failover:
        for each in reversed(self.failovers):
            if time_ms - each.last_ms > _TOGETHER_MS:
                break
            if each.node_id == node_id and each.back_ms is None:
                each.began_ms = min(each.began_ms, time_ms)
                return each
        return self._begin(node_id, time_ms)

    def _begin(self, node_id: int | None, time_ms: int) -> Failover:
        made = Failover(time_ms, node_id)
        self.failovers.append(made)
        return made


def first(known_ms: T | None, time_ms: T) -> T:
    """The earlier of two times."""
    return time_ms if known_ms is None else min(known_ms, time_ms)
