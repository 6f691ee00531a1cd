"""An error answer names the current leader (KIP-951): the client goes there without a Metadata request.

Only error answers are visited, so that successful ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from yak.cluster.image import Image, TopicInfo
from yak.errors import ErrorCode
from yak.ids import NodeId
from yak.lifecycle.liveness import is_serving
from yak.protocol.fetch_answer import FetchPartitionAnswer
from yak.protocol.hot_pieces import LeaderHint, NodeEndpoint
from yak.protocol.produce_answer import ProducePartitionAnswer

HintedAnswer: TypeAlias = ProducePartitionAnswer | FetchPartitionAnswer

_HINTED = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


def add_hints(
    image: Image, node_id: NodeId, listener: str, topics: Iterable[tuple[Any, Sequence[HintedAnswer]]]
) -> tuple[NodeEndpoint, ...]:
    """Put the current leader into each error answer that needs it; return the leaders' endpoints.

    The endpoints are those of the client's `listener` (KIP-103). `topics` are pairs of a topic's name or id and its
    answers. This broker names itself (`node_id`) only when the client's leader epoch is old. An answer whose leader is not
    known names none: librdkafka reads outside of its memory if one hint of an answer is -1 and another is not (its issue
    5280).
    """
    leaders: dict[NodeId, None] = {}
    for key, answers in topics:
        for answer in answers:
            if answer.error_code in _HINTED:
                topic = image.topics.get(key) if type(key) is str else image.topic_by_id(key)
                hint = _hint(topic, node_id, answer)
                if hint is not None:
                    answer.current_leader = hint
                    leaders[hint.leader_id] = None
    return tuple(endpoint for leader_id in leaders if (endpoint := _endpoint(image, leader_id, listener)) is not None)


def _hint(topic: TopicInfo | None, node_id: NodeId, answer: HintedAnswer) -> LeaderHint | None:
    if topic is None or not 0 <= answer.index < len(topic.partitions):
        return None
    info = topic.partitions[answer.index]
    # this broker is stopping, or may not lead yet: the next leader is not known
    is_unknown = info.leader == node_id and answer.error_code == ErrorCode.not_leader_or_follower
    return None if is_unknown or info.leader < 0 else LeaderHint(info.leader, info.leader_epoch)


def _endpoint(image: Image, node_id: NodeId, listener: str) -> NodeEndpoint | None:
    info = image.brokers.get(node_id)
    if info is None or not is_serving(info):
        return None
    endpoint = info.endpoint(listener)
    return None if endpoint is None else NodeEndpoint(node_id, endpoint.host, endpoint.port, info.rack)
