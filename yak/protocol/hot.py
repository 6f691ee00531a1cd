"""Hand-written responses and requests of the hot path: Produce (versions 3 to 13) and Fetch (4 to 18).

A response is a list of parts to send in order, length prefix and header included. Topics are pairs of a key (name up to
version 12, id from 13) and the partitions' results. The most frequent shape, one partition without an error message,
has one struct for everything but the topic's name. kio is the oracle: tests compare the bytes of both.
"""

from yak.protocol.fetch_answer import (
    AbortedTransaction,
    DivergingEpoch,
    FetchPartitionAnswer,
    FetchTopicAnswer,
    SnapshotId,
    fetch_response,
    fetch_response_in_slices,
)
from yak.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, decode_fetch_request
from yak.protocol.hot_pieces import LeaderHint, NodeEndpoint, TopicKey
from yak.protocol.produce_answer import (
    ProducePartitionAnswer,
    ProduceTopicAnswer,
    RecordError,
    produce_response,
    produce_response_in_slices,
)
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
    "fetch_response_in_slices",
    "produce_response",
    "produce_response_in_slices",
]
