"""The timeline of a failover, computed from the metadata records and the brokers' logs. Pure.

Times are milliseconds after the start: the kill, or the request to move. The records carry the metadata store's clock;
`offset_ms` is that clock minus the local clock.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from yak.cluster.records import BrokerChange, BrokerState, ControllerChange, PartitionChange, parse
from yak.ids import NodeId
from yak.ports.metadata_store import TailedRecord

DETECTED_EVENTS: Final = ("broker-dead",)
_OUT: Final = (BrokerState.FENCED, BrokerState.CLOSED)
_LOG_LINE = re.compile(r"^(\S+Z) +[A-Z]+ +(\S+) (.*)$")


@dataclass(slots=True)
class Timeline:
    """The steps of a failover, in ms after the start; None for a step that did not happen or was not seen."""

    detected_ms: float | None = None
    """A broker found that the dead broker no longer listens."""
    fenced_ms: float | None = None
    """The metadata store has the broker as fenced, or as closed after an orderly stop."""
    controller_ms: float | None = None
    """Another broker became controller."""
    elected_ms: float | None = None
    """The last partition that the broker led has a new leader in the metadata store."""
    first_ack_ms: float | None = None
    """The first acknowledgement of a write that was sent after the start."""

    def as_json(self) -> dict[str, Any]:
        """The times by name, to a tenth of a millisecond."""
        return {name: tenths(value) for name, value in asdict(self).items()}

    def steps(self) -> list[tuple[str, float]]:
        """The known steps by time, for people; steps of the same millisecond keep their causal order."""
        named = (
            ("detected", self.detected_ms),
            ("fenced", self.fenced_ms),
            ("controller elected", self.controller_ms),
            ("elected", self.elected_ms),
            ("first acknowledged write", self.first_ack_ms),
        )
        # Sort by the displayed value, which is rounded to tenths and then to milliseconds: 50.52 is 50.
        return sorted(((name, at) for name, at in named if at is not None), key=lambda step: round(round(step[1], 1)))


def tenths(milliseconds: float | None) -> float | None:
    """Round to tenths, the best resolution of the measurement."""
    return None if milliseconds is None else round(milliseconds, 1)


def add_records(
    timeline: Timeline,
    records: Iterable[TailedRecord],
    *,
    began_ms: float,
    node: NodeId,
    partitions: Collection[tuple[str, int]] = (),
    offset_ms: float = 0.0,
) -> None:
    """Fill in the steps that follow the end of `node`, which led `partitions` (topic id and number).

    Records from before the start are ignored.
    """
    left = set(partitions)
    for record in records:
        at = record.timestamp_ms - offset_ms - began_ms
        if at < -1.0:  # the store's clock has millisecond resolution
            continue
        at = max(at, 0.0)
        match parse(record):
            case BrokerChange(node_id, _, state) if node_id == node and state in _OUT:
                timeline.fenced_ms = at if timeline.fenced_ms is None else timeline.fenced_ms
            case ControllerChange(controller_id=taker) if taker != node:
                timeline.controller_ms = at if timeline.controller_ms is None else timeline.controller_ms
            case PartitionChange(changes):
                done = {(str(each.topic_id), each.partition) for each in changes if each.leader not in (node, -1)}
                if left & done:
                    left -= done
                    timeline.elected_ms = at
            case _:
                pass
    if left:
        timeline.elected_ms = None


def last_elected_ms(
    records: Iterable[TailedRecord],
    leaders: Mapping[tuple[str | None, int], NodeId],
    *,
    began_ms: float,
    offset_ms: float = 0.0,
) -> float | None:
    """When the last of these partitions (topic id and number) got its leader; None when one did not."""
    left = dict(leaders)
    for record in records:
        content = parse(record)
        if not isinstance(content, PartitionChange):
            continue
        for change in content.changes:
            if left.get((str(change.topic_id), change.partition)) == change.leader:
                del left[str(change.topic_id), change.partition]
                if not left:
                    return max(record.timestamp_ms - offset_ms - began_ms, 0.0)
    return None


def is_complete(timeline: Timeline, *, was_controller: bool, led: bool) -> bool:
    """Whether all expected steps are in the records."""
    return (
        timeline.fenced_ms is not None
        and (timeline.controller_ms is not None or not was_controller)
        and (timeline.elected_ms is not None or not led)
    )


def detection_ms(lines: Iterable[str], *, began_ms: float, node: NodeId) -> float | None:
    """When a broker's log first reports that `node` no longer listens."""
    found = [at - began_ms for line in lines if (at := _suspicion(line, node)) is not None]
    return max(min(found), 0.0) if (found := [at for at in found if at > -1.0]) else None


def _suspicion(line: str, node: NodeId) -> float | None:
    match = _LOG_LINE.match(line)
    if match is None or match[2] not in DETECTED_EVENTS or f"node_id={node}" not in match[3].split():
        return None
    try:
        return datetime.fromisoformat(match[1]).timestamp() * 1000.0
    except ValueError:
        return None
