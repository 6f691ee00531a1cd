"""Completes delayed operations of a partition, when their data is there or their wait has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yak.errors import ErrorCode
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker


def wake(broker: Broker, partition: Partition) -> None:
    """Complete operations after the high watermark, the recovery point or the log start moved."""
    _wake_produces(broker, partition)
    grown_bytes = partition.committed_bytes - partition.notified_bytes
    partition.notified_bytes = partition.committed_bytes
    if partition.waiting_fetches:
        for fetch, item in list(partition.waiting_fetches.items()):
            fetch.note_growth(partition, item, grown_bytes)
            broker.look_again(fetch)
    if partition.sessions:
        for session, item in partition.sessions.items():
            # A fetch that opened its session is in `waiting_fetches`.
            if session.parked is not None and session.parked not in (partition.waiting_fetches or ()):
                session.parked.note_growth(partition, item, grown_bytes)
                broker.look_again(session.parked)


def _wake_produces(broker: Broker, partition: Partition) -> None:
    queue = partition.waiting_produces
    if queue:
        while queue and queue[0][0].end_offset <= partition.high_watermark:
            info, waiting, answer = queue.popleft()
            if info.may_acknowledge():
                waiting.resolve(broker)
            else:
                info.wait_with(waiting, answer)
    queue = partition.waiting_flushes
    if queue and partition.log is not None:
        while queue and queue[0][0].end_offset <= partition.log.recovery_point:
            queue.popleft()[1].resolve(broker)


def fail_waiting(broker: Broker, partition: Partition, error_code: ErrorCode) -> None:
    """Fail every delayed produce of the partition, and complete its delayed fetches, which read again."""
    if partition.pending_appends is not None:
        partition.pending_appends.fail(error_code)
    for queue in (partition.waiting_produces, partition.waiting_flushes):
        while queue:
            _info, waiting, answer = queue.popleft()
            answer.error_code = error_code
            answer.base_offset = -1
            waiting.resolve(broker)
    broker.record_deletions.on_log_start(partition)
    for fetch in list(partition.waiting_fetches or ()):
        broker.finish(fetch)
    for session, item in (partition.sessions or {}).items():
        session.mark_dirty(item)
        if session.parked is not None:
            broker.finish(session.parked)
