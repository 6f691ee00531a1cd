"""DeleteRecords (key 21, v0-2): move the log start offset up to an offset, -1 for the high watermark.

v2: flexible. The records are gone for readers at once; segments wholly below go with the next retention, here at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode, LogDirectoryFailure, PeerError
from yak.ids import TopicPartition
from yak.protocol.topic_names import is_internal

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 21, "DeleteRecords", range(3)
ABSENT: tuple[str, ...] = ()

HIGH_WATERMARK = -1


def handle(broker: Broker, call: Call) -> Outcome:
    """Move each partition's log start."""
    return Now(
        {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [_delete_below(broker, topic.name, asked) for asked in topic.partitions],
                }
                for topic in call.request.topics
            ]
        }
    )


def _delete_below(broker: Broker, topic: str, asked: Any) -> Fields:
    answer: Fields = {"partition_index": asked.partition_index, "low_watermark": -1, "error_code": ErrorCode.none}
    try:
        if is_internal(topic):
            raise PeerError(ErrorCode.invalid_topic_exception, "records of internal topics cannot be deleted")
        partition = broker.leader_of(TopicPartition(topic, asked.partition_index))
        log = partition.log
        assert log is not None
        offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if offset < 0 or offset > partition.high_watermark:
            raise PeerError(ErrorCode.offset_out_of_range)
        if offset > log.log_start_offset:
            log.advance_log_start(offset)
            broker.log_start_moved(partition)
            broker.maintenance.retain(partition)
            broker.maintenance.checkpoint_soon()
        answer["low_watermark"] = log.log_start_offset
    except PeerError as error:
        answer["error_code"] = error.error_code
    except LogDirectoryFailure as failure:
        broker.directory_failed(failure)
        answer["error_code"] = ErrorCode.kafka_storage_error
    return answer
