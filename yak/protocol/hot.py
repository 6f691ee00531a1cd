"""The hot answers and requests, placed and read by hand: Produce (versions 3 to 13) and Fetch (4 to 18).

An answer is a list of parts to send in order, length prefix and header included; topics are pairs of a key (name up to
version 12, id from 13) and its partitions' answers. The commonest shape, one partition without error words, has a
struct that packs all of it but the topic's name. kio is the oracle: the tests hold both to the same bytes.
"""

from yak.protocol.fetch_answer import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionAnswer,
    FetchTopicAnswer,
    SnapshotId,
    fetch_response,
)
from yak.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, decode_fetch_request
from yak.protocol.hot_pieces import LeaderHint, NodeEndpoint, TopicKey
from yak.protocol.produce_answer import ProducePartitionAnswer, ProduceTopicAnswer, RecordError, produce_response
from yak.protocol.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
    decode_produce_request,
)

__all__ = [
    "AbortedTransaction",
    "DivergingEpoch",
    "FetchPartition",
    "FetchPartitionAnswer",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicAnswer",
    "ForgottenTopic",
    "LeaderHint",
    "NodeEndpoint",
    "PartitionProduceData",
    "ProducePartitionAnswer",
    "ProduceRequest",
    "ProduceTopicAnswer",
    "RecordError",
    "SnapshotId",
    "TopicKey",
    "TopicProduceData",
    "decode_fetch_request",
    "decode_produce_request",
    "fetch_response",
    "produce_response",
]
