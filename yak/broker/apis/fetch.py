"""Fetch (key 1, v4-18): committed batches from an offset on; a fetch with too few bytes is delayed.

v5: log start offset. v6: KAFKA_STORAGE_ERROR; before, it is NOT_LEADER_OR_FOLLOWER. v7: sessions (KIP-227). v9: leader
epoch fencing. v10: zstd. v11: rack, and reading from a follower (KIP-392). v12: flexible, last fetched epoch and
divergence (KIP-595), the current leader. v13: topic ids. v15: replica state. v16:
endpoints of new leaders (KIP-951). v17: directory ids, for controllers.

Sizes follow Kafka: the first batch of the first partition with data is returned whole, even if it exceeds the limit
(ReplicaManager.readFromLog). This broker bounds an answer too: by `Connection.fetch_aim_bytes`, and for a fetch of many
partitions by what `sendfile` may add (`limits.FETCH_SLICED_BYTES_PER_PARTITION`). The partition read first changes from
fetch to fetch, so that none starves.

A read ends with its segment. A fetch for more bytes than an older segment has left gets those at once:
waiting brings no more of them (DelayedFetch.tryComplete).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Outcome, Slices
from yak.broker.quorum_node import between_nodes, is_metadata_fetch
from yak.limits import SLICE_ELEMENTS
from yak.protocol.replica_fetch import VERSION as FOLLOWER_VERSION
from yak.replication.fetch_sessions import ConsumerItem

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 1, "Fetch", range(4, 19)
ABSENT = (
    "replica fetches over a connection that is not authenticated as a broker: refused with CLUSTER_AUTHORIZATION_FAILED",
    "the partition that is read first, which in Kafka is the first one of the request (KIP-74): another one at each fetch",
)

_TOPIC_ID_VERSION = 13


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer with the bytes available, or delay the fetch if they are too few."""
    request = call.request
    if broker.quorum is not None and is_metadata_fetch(call):
        return between_nodes(broker, call)
    if request.replica_id >= 0 and call.version == FOLLOWER_VERSION:
        return broker.fetches.answer_follower(call)
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[ConsumerItem] = []
    for topic in request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [ConsumerItem(key, name, data) for data in topic.partitions]
    fetch = broker.fetches.of_consumer(call, items, by_id=by_id)
    if isinstance(fetch, list):
        return fetch
    if fetch.is_large:
        return broker.large_requests.answer(call, fetch.start_in_slices(), is_large=True)
    return fetch.start()


def slices(broker: Broker, call: Call) -> Slices:
    """Read the partitions in slices."""
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[ConsumerItem] = []
    passed = 0
    for topic in call.request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [ConsumerItem(key, name, data) for data in topic.partitions]
        if len(items) - passed >= 4 * SLICE_ELEMENTS:
            passed = len(items)
            yield
    fetch = broker.fetches.of_consumer(call, items, by_id=by_id)
    if isinstance(fetch, list):
        return fetch
    yield
    return (yield from fetch.start_in_slices())


def _topic_of(broker: Broker, topic: Any) -> tuple[Any, str | None]:
    """A topic's id and name. The id is the image's own object, so that partitions compare it by identity (`is`)."""
    found = broker.image.topic_by_id(topic.topic_id)
    return (topic.topic_id, None) if found is None else (found.topic_id, found.name)
