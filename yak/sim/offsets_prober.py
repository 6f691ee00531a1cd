"""A client that lists the end offsets of a partition again and again (I6, KIP-207).

- An end is committed, whatever the isolation level.
- The end that a client got in an epoch never shrinks in that epoch, nor under a later leader: a new leader answers only
  once it knows how far its predecessor committed.
- By timestamp a leader finds a committed record that is not older, and none behind an acknowledged one that would do. If
  it found nothing, a client would begin at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from yak.sim.clients import LIST_OFFSETS, Stoppable
from yak.sim.deliveries import Violation
from yak.sim.request_fields import list_offsets_fields

if TYPE_CHECKING:
    from yak.ids import LeaderEpoch, NodeId, Offset
    from yak.sim.deliveries import Deliveries
    from yak.sim.routing import Channel

LATEST, _VERSION = -1, 6
_PAUSES_US = (20_000, 200_000, 1_000_000)
_PAST_MS = 20_000
"""The oldest time that it searches for."""


class _TimedRecord(NamedTuple):
    """A record that a search by time must not pass, as long as this broker leads in this epoch."""

    offset: Offset
    node_id: NodeId | None
    leader_epoch: LeaderEpoch


class OffsetsProber(Stoppable):
    """Asks the leader of one partition, until it is stopped."""

    def __init__(self, channel: Channel, deliveries: Deliveries, topic: str, partition: int) -> None:
        self._channel, self._rng, self._deliveries = channel, channel.rng, deliveries
        self._place = topic, partition
        self._pause_us = self._rng.choice(_PAUSES_US)
        self._last: dict[int, tuple[int, int]] = {}
        """By isolation level the newest leader epoch that answered, and the largest end in it and before."""

    def start(self) -> None:
        self._channel.world.after(self._rng.between(1_000, self._pause_us), self._ask)

    def _ask(self) -> None:
        if self._is_stopped:
            return
        level = self._rng.below(2)
        is_by_time = self._rng.chance(30)
        timestamp = self._channel.world.now_ms - self._rng.below(_PAST_MS) if is_by_time else LATEST
        due = self._due(timestamp) if is_by_time and not level else None
        fields = list_offsets_fields(*self._place, timestamp=timestamp, isolation_level=level)

        def answered(answer: Any | None) -> None:
            result = None if answer is None else answer.topics[0].partitions[0]
            if result is not None and result.error_code == ErrorCode.none and self._deliveries.promises(*self._place):
                if is_by_time:
                    self._found(timestamp, result, due)
                else:
                    self._check(level, result)
            self.start()

        self._channel.send(LIST_OFFSETS, _VERSION, fields, answered)

    def _check(self, level: int, result: Any) -> None:
        self._deliveries.count("ends listed")
        self._is_committed(result.offset, "an end")
        epoch, largest = self._last.get(level, (-1, 0))
        if result.leader_epoch < epoch:
            return  # a former leader that does not know yet of its successor
        if result.offset < largest:
            topic, partition = self._place
            raise Violation(
                f"I6: {topic}-{partition} ended at {largest} in epoch {epoch}, and then at {result.offset} in epoch"
                f" {result.leader_epoch} ({'read_committed' if level else 'read_uncommitted'})"
            )
        self._last[level] = result.leader_epoch, result.offset

    def _due(self, timestamp: int) -> _TimedRecord | None:
        node_id = self._channel.leader_id
        epoch = self._deliveries.certain_epoch(*self._place, node_id)
        offset = None if epoch is None else self._deliveries.first_since(*self._place, timestamp)
        return None if epoch is None or offset is None else _TimedRecord(offset, node_id, epoch)

    def _is_certain(self, due: _TimedRecord) -> bool:
        is_leader = self._deliveries.certain_epoch(*self._place, due.node_id) == due.leader_epoch
        return is_leader and self._deliveries.stays(*self._place, due.offset)

    def _found(self, timestamp: int, result: Any, due: _TimedRecord | None) -> None:
        if due is not None and self._is_certain(due):
            self._deliveries.count("searches by time compared")
            if not 0 <= result.offset <= due.offset:
                topic, partition = self._place
                raise Violation(
                    f"{topic}-{partition}: the first record from {timestamp} on is {due.offset} at the latest, and"
                    f" {result.offset} was found"
                )
        if result.offset < 0:
            return
        self._deliveries.count("offsets found by time")
        self._is_committed(result.offset + 1, "found by time")
        if result.timestamp < timestamp:
            topic, partition = self._place
            raise Violation(
                f"{topic}-{partition}@{result.offset} of {result.timestamp} was found as the first record from {timestamp} on"
            )

    def _is_committed(self, end: int, what: str) -> None:
        topic, partition = self._place
        committed = self._deliveries.committed_end(topic, partition)
        if end > committed:
            raise Violation(f"I9: {topic}-{partition}: {end} is {what}, and {committed} is committed")
