"""Compacted topics accept no record without a key: nothing could replace it (Kafka's LogValidator.validateKey)."""

from __future__ import annotations

from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.limits import RECORD_ERRORS_MAX
from yak.protocol.produce_answer import RecordError
from yak.protocol.record_batch import Buffer
from yak.protocol.record_walk import walk_records


class RecordsRefused(PeerError):
    """A batch with records that cannot be stored, each listed by index and reason (Produce v8, KIP-467)."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(ErrorCode.invalid_record, message)
        self.record_errors = record_errors


def record_errors_of(error: PeerError) -> tuple[RecordError, ...]:
    """The invalid records of a refused batch; empty for any other error."""
    return error.record_errors if isinstance(error, RecordsRefused) else ()


def check_keys(topic_partition: TopicPartition, batch: Buffer) -> None:
    """Raise RecordsRefused when a record has no key; ProtocolViolation when the records cannot be read.

    The error lists the first RECORD_ERRORS_MAX of them.
    """
    refused: list[RecordError] = []
    count = 0
    for index, record in enumerate(walk_records(batch)):
        if record.key is None:
            count += 1
            if count <= RECORD_ERRORS_MAX:
                refused.append(RecordError(index, f"a record without a key cannot be stored in {topic_partition}"))
    if count:
        raise RecordsRefused(
            f"{topic_partition} is compacted and takes no records without keys: {count} have none", tuple(refused)
        )
