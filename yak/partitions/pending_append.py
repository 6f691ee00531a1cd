"""A client's batch that is appended later: its transaction is verified first, a job works on it, or its log moves."""

from __future__ import annotations

from yak.errors import PeerError
from yak.partitions.batch_validation import record_errors_of
from yak.protocol.hot import ProducePartitionAnswer
from yak.protocol.record_batch import BatchHeader
from yak.replication.log_append_info import AppendAnswer, AppendWaiter, LogAppendInfo
from yak.replication.partition import Partition


class PendingAppend(LogAppendInfo):
    """A batch that has no offset yet, and the request that waits for it."""

    __slots__ = ("acks", "appended", "header", "is_outdated", "keys_checked", "records", "waiting")

    def __init__(self, partition: Partition, header: BatchHeader, records: bytes, acks: int) -> None:
        super().__init__(partition, -1, -1, -1, -1)
        self.must_wait = True
        self.header, self.records, self.acks = header, records, acks
        self.keys_checked = False
        self.is_outdated = False
        """Whether its transaction has ended: behind the marker it would open another."""
        self.appended: LogAppendInfo | None = None
        self.waiting: tuple[AppendWaiter, ProducePartitionAnswer] | None = None

    def may_acknowledge(self) -> bool:
        """Whether the batch was appended, and may be acknowledged."""
        return self.appended is not None and self.appended.may_acknowledge()

    def wait_with(self, waiting: AppendWaiter, answer: AppendAnswer) -> None:
        """Keep the request until the batch is in the log."""
        assert isinstance(answer, ProducePartitionAnswer)
        self.waiting = waiting, answer

    def go_on(self, appended: LogAppendInfo) -> None:
        """The batch is in the log, or pending again: let the request wait for the next condition, or answer it."""
        self.appended = appended
        entry, self.waiting = self.waiting, None
        if entry is None:
            return
        waiting, answer = entry
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time_ms
        answer.log_start_offset = appended.log_start_offset
        if appended.must_wait and (self.acks != 0 or appended.end_offset < 0):
            appended.wait_with(waiting, answer)
        else:
            waiting.resolve()

    def refuse(self, error: PeerError) -> None:
        """Answer the request with an error, once: a failed directory fails queued batches, then this one again."""
        entry, self.waiting = self.waiting, None
        if entry is None:
            return
        waiting, answer = entry
        answer.error_code = error.error_code
        answer.error_message = error.message or None
        answer.record_errors = record_errors_of(error)
        answer.base_offset = -1
        waiting.resolve()
