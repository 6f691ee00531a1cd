"""OffsetForLeaderEpoch (key 23, v2-4): where an epoch ended in this log, so that a reader can find where it diverged.

v3: replica id, which changes nothing: only the leader answers, as in Kafka. v4: flexible. Rules: KIP-101, KIP-279,
KIP-320; LeaderEpochFileCache.endOffsetFor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Fields, Now, Outcome
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 23, "OffsetForLeaderEpoch", range(2, 5)
ABSENT: tuple[str, ...] = ()


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer each partition."""
    return Now(
        {
            "topics": [
                {
                    "topic": topic.topic,
                    "partitions": [_end_of(broker, topic.topic, asked) for asked in topic.partitions],
                }
                for topic in call.request.topics
            ]
        }
    )


def _end_of(broker: Broker, topic: str, asked: Any) -> Fields:
    answer: Fields = {
        "error_code": ErrorCode.none,
        "partition": asked.partition,
        "leader_epoch": -1,
        "end_offset": -1,
    }
    try:
        partition = broker.leader_of(TopicPartition(topic, asked.partition))
        epoch = asked.current_leader_epoch
        if epoch >= 0 and epoch != partition.leader_epoch:
            is_old = epoch < partition.leader_epoch
            raise PeerError(ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch)
        if asked.leader_epoch > partition.leader_epoch:
            # Kafka says that it ends nowhere, which a reader takes for records that are gone; we were deposed, and do not know
            raise PeerError(ErrorCode.unknown_leader_epoch)
        assert partition.log is not None
        if asked.leader_epoch == partition.leader_epoch:
            answer["leader_epoch"], answer["end_offset"] = asked.leader_epoch, partition.log.log_end_offset
        else:
            answer["leader_epoch"], answer["end_offset"] = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except PeerError as error:
        answer["error_code"] = error.error_code
    return answer
