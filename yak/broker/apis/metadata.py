"""Metadata (key 3, v0-13): brokers, topics, partitions and their leaders; it creates missing topics if allowed.

v0: an empty list means all topics. v1: null means all. v4: the client says whether topics may be created. v6:
LISTENER_NOT_FOUND; before, it is LEADER_NOT_AVAILABLE. v8: authorized operations. v9: flexible. v10: topic
ids. v12: topics by id. v13: a top-level error.

A topic that the client may not describe gets TOPIC_AUTHORIZATION_FAILED if it was named, and is left out of a list of all;
one that it may not create is not created (KafkaApis.handleTopicMetadataRequest).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import CLUSTER_NAME, Operation, ResourceType
from yak.broker.authorization import OPERATIONS_OMITTED
from yak.broker.call import Call, Fields, Later, Now, Outcome, Slices
from yak.broker.delayed_leader_requests import leaders_of
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.errors import ErrorCode, PeerError
from yak.lifecycle.liveness import is_serving, serving_brokers
from yak.limits import SLICE_ELEMENTS, TOPICS_PER_CREATE_MAX
from yak.protocol.pace import Pace
from yak.protocol.topic_names import METADATA_TOPIC, is_internal, validate_topic_name

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.cluster.image import Image, PartitionInfo, TopicInfo
    from yak.ids import NodeId

KEY, NAME, VERSIONS = 3, "Metadata", range(14)

_AUTO_CREATE_TIMEOUT_MS = 5_000
_CREATION_FLAG_VERSION = 4
_LISTENER_ERROR_VERSION = 6
_BY_ID_VERSION = 12
_Wanted: TypeAlias = list[tuple[str | None, Any]]
"""Name and topic id of each topic."""
_Results: TypeAlias = dict[Any, PeerError | None]
"""The result of each topic's creation, by name."""


def handle(broker: Broker, call: Call) -> Outcome:
    """Describe the requested topics; wait for those that are being created."""
    if _is_for_all(call):
        return _of_all(broker, call)
    wanted = _wanted(call)
    return _when_decided(broker, call, wanted, partial(_described, broker, call, wanted))


def slices(broker: Broker, call: Call) -> Slices:
    """Describe the topics in slices, once the elections of their leaders are decided."""
    if _is_for_all(call):
        return _of_all(broker, call)
    wanted = _wanted(call)
    yield
    decided: list[_Results] = []
    is_first = True

    def build(results: _Results) -> Outcome:
        if is_first:
            decided.append(results)
            return None
        return _described(broker, call, wanted, results)

    outcome = _when_decided(broker, call, wanted, build)
    is_first = False
    return (yield from _of_topics(broker, call, wanted, decided[0])) if decided else outcome


def _is_for_all(call: Call) -> bool:
    requested = call.request.topics
    return requested is None or (call.version == 0 and not requested)


def _wanted(call: Call) -> _Wanted:
    """The requested topics, each once."""
    requested = call.request.topics
    return list(dict.fromkeys((getattr(topic, "name", None), getattr(topic, "topic_id", None)) for topic in requested))


def _when_decided(broker: Broker, call: Call, wanted: _Wanted, build: Callable[[_Results], Outcome]) -> Outcome:
    """Create missing topics, wait until leader elections are decided, then `build` from the creations' results."""
    if call.version < _BY_ID_VERSION and any(name is None or topic_id is not None for name, topic_id in wanted):
        return Now(_refused(wanted))
    may_create = broker.config.auto_create_topics_enable and (
        call.version < _CREATION_FLAG_VERSION or call.request.allow_auto_topic_creation
    )
    waiting = DelayedMetadataChanges(broker, call, _AUTO_CREATE_TIMEOUT_MS, build)
    if may_create:
        named = dict.fromkeys(name for name, topic_id in wanted if topic_id is None and name is not None)
        absent = [name for name in named if name not in broker.image.topics and _may_describe(broker, call, name)]
        for name in absent[:TOPICS_PER_CREATE_MAX]:
            try:
                check_creation(broker, call, name)
                broker.topic_creation.send(waiting, name, broker.topic_creation.plan_automatic(name))
            except PeerError as refusal:
                waiting.refuse(name, refusal)
        too_many = PeerError(ErrorCode.policy_violation, f"one request creates at most {TOPICS_PER_CREATE_MAX} topics")
        for name in absent[TOPICS_PER_CREATE_MAX:]:
            waiting.refuse(name, too_many)
    if not waiting.is_done():
        return Later(waiting)

    return broker.leader_requests.answer_when_decided(
        call, lambda: leaders_of(_existing(broker, wanted)), lambda: build(waiting.results)
    )


def _existing(broker: Broker, wanted: _Wanted) -> Iterator[TopicInfo]:
    image = broker.image
    found = (image.topics.get(name or "") if by_id is None else image.topic_by_id(by_id) for name, by_id in wanted)
    return (topic for topic in found if topic is not None)


def _described(broker: Broker, call: Call, wanted: _Wanted, results: _Results) -> Outcome:
    served, is_large = _of_topics(broker, call, wanted, results), _is_large(_existing(broker, wanted))
    return broker.large_requests.answer(call, served, is_large=is_large)


def _is_large(topics: Iterable[TopicInfo]) -> bool:
    """Whether these topics have too many partitions for one slice."""
    return any(count > SLICE_ELEMENTS for count in accumulate(1 + len(topic.partitions) for topic in topics))


def _of_topics(broker: Broker, call: Call, wanted: _Wanted, results: _Results) -> Slices:
    """Each topic is described as it is in its own slice."""
    topics: list[Fields] = []
    pace = Pace()
    for name, topic_id in wanted:
        topic = yield from _requested_topic(broker, call, name, topic_id, results, pace)
        topics.append(topic)
        if pace.is_over(1):
            yield
    # A request without topics is about the cluster, so it gets live brokers only.
    return Now(_answer(broker, call, topics, live_only=not topics))


def _of_all(broker: Broker, call: Call) -> Outcome:
    def answer() -> Outcome:
        is_large = _is_large(broker.image.topics.values())
        return broker.large_requests.answer(call, _all(broker, call), is_large=is_large)

    requests = broker.leader_requests
    return requests.answer_when_decided(call, requests.all_leaders, answer)


def _all(broker: Broker, call: Call) -> Slices:
    """The topics and leaders are those of the image at the first slice; which brokers live may change between slices."""
    topics = broker.image.topics
    found: list[Fields] = []
    pace = Pace()
    for name in sorted(topics):
        if broker.authorization.may_see(call, Operation.DESCRIBE, ResourceType.TOPIC, name):
            topic = yield from _topic(broker, call, topics[name], pace)
            found.append(topic)
        if pace.is_over(1):
            yield
    return Now(_answer(broker, call, found, live_only=True))


def _answer(broker: Broker, call: Call, topics: list[Fields], *, live_only: bool) -> Fields:
    image, listener = broker.image, call.connection.listener.name
    brokers = broker.recently_fenced.listed(call.connection.client_software, live_only=live_only)
    return {
        "brokers": [
            {"node_id": info.node_id, "host": endpoint.host, "port": endpoint.port, "rack": info.rack}
            for info in brokers
            if (endpoint := info.endpoint(listener)) is not None
        ],
        "cluster_id": image.cluster_id,
        "controller_id": controller_for(broker, listener),
        "topics": topics,
        "cluster_authorized_operations": cluster_operations(broker, call),
        "error_code": ErrorCode.none,
    }


def _refused(wanted: _Wanted) -> Fields:
    """The answer to a request before v12 that names topics by id (KafkaApis.handleTopicMetadataRequest)."""
    return {
        "brokers": [],
        "cluster_id": None,
        "controller_id": -1,
        "topics": [missing_topic(ErrorCode.invalid_request, name or "", topic_id) for name, topic_id in wanted],
    }


def controller_of(image: Image, listener: str) -> int:
    """The controller's node id if it is alive and has this listener, else -1."""
    info = image.brokers.get(image.controller_id)
    return -1 if info is None or not is_serving(info) or info.endpoint(listener) is None else image.controller_id


def controller_for(broker: Broker, listener: str) -> int:
    """The broker that a client of this listener shall send changes of the cluster to: usually the controller.

    Each broker carries out changes (docs/adr/0009), so without a controller, or while it does not answer and the store
    that would replace it neither, this is the answering broker: a client need not wait, and gets the reason why there is
    no change. Kafka's KRaftMetadataCache.java names any live broker as well.
    """
    own, found = broker.node_id, controller_of(broker.image, listener)
    if not is_serving(broker.image.brokers.get(own)):
        return found
    has_store = broker.store_outage.store_state == "connected"
    return found if found >= 0 and (has_store or broker.failure_watch.probes([found])) else own


def _requested_topic(
    broker: Broker, call: Call, name: str | None, topic_id: Any, results: _Results, pace: Pace
) -> Generator[None, None, Fields]:
    """One topic that the client requested by name or by id."""
    if topic_id is not None:
        topic = broker.image.topic_by_id(topic_id)
        if topic is None:
            return missing_topic(ErrorCode.unknown_topic_id, None, topic_id)
        if not _may_describe(broker, call, topic.name):
            return missing_topic(ErrorCode.topic_authorization_failed, None, topic_id)
        return (yield from _topic(broker, call, topic, pace))
    if name is None:
        return missing_topic(ErrorCode.unknown_topic_id, None, None)
    if not _may_describe(broker, call, name):
        return missing_topic(ErrorCode.topic_authorization_failed, name, None)
    topic = broker.image.topics.get(name)
    if topic is not None:
        return (yield from _topic(broker, call, topic, pace))
    try:
        validate_topic_name(name)
    except PeerError as error:
        return missing_topic(error.error_code, name, None, topic_operations(broker, call, name))
    refusal = results.get(name)
    code = ErrorCode.unknown_topic_or_partition
    if refusal is not None and refusal.error_code in (
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_replication_factor,
        ErrorCode.policy_violation,
        ErrorCode.topic_authorization_failed,
    ):
        code = refusal.error_code
    return missing_topic(code, name, None, topic_operations(broker, call, name)) | {"is_internal": is_internal(name)}


def missing_topic(
    error_code: ErrorCode, name: str | None, topic_id: Any = None, operations: int = OPERATIONS_OMITTED
) -> Fields:
    """The answer for a topic that does not exist, or that the client may not describe."""
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "partitions": [],
        "topic_authorized_operations": operations,
    }


def _may_describe(broker: Broker, call: Call, name: str) -> bool:
    return broker.authorization.allows(call, Operation.DESCRIBE, ResourceType.TOPIC, name)


def check_creation(broker: Broker, call: Call, name: str) -> None:
    """Raise PeerError unless the client may create this topic: with the right to create any, or this one."""
    if name == METADATA_TOPIC:
        raise PeerError(ErrorCode.invalid_request, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if not may_create(broker, call, name):
        broker.authorization.check(call, Operation.CREATE, ResourceType.TOPIC, name)


def may_create(broker: Broker, call: Call, name: str) -> bool:
    """Whether the client may create this topic; a denial is not noted."""
    may_see = broker.authorization.may_see
    return may_see(call, Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or may_see(
        call, Operation.CREATE, ResourceType.TOPIC, name
    )


def topic_operations(broker: Broker, call: Call, name: str) -> int:
    """The operations allowed on a topic, also on an unknown one, if the request includes them."""
    if not getattr(call.request, "include_topic_authorized_operations", False):
        return OPERATIONS_OMITTED
    return broker.authorization.operations(call, ResourceType.TOPIC, name)


def cluster_operations(broker: Broker, call: Call) -> int:
    """The operations allowed on the cluster, if the request includes them; none without the right to describe it."""
    if not getattr(call.request, "include_cluster_authorized_operations", False):
        return OPERATIONS_OMITTED
    authorization = broker.authorization
    if not authorization.may_see(call, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorization.operations(call, ResourceType.CLUSTER, CLUSTER_NAME)


def _topic(broker: Broker, call: Call, topic: TopicInfo, pace: Pace) -> Generator[None, None, Fields]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(topic.name),
        "partitions": (yield from describe_partitions(broker, call, topic.name, topic.partitions, pace)),
        "topic_authorized_operations": topic_operations(broker, call, topic.name),
    }


def describe_partitions(
    broker: Broker, call: Call, topic: str, partitions: Sequence[PartitionInfo], pace: Pace
) -> Generator[None, None, list[Fields]]:
    """These partitions of a topic, in slices: leader, epoch, replicas and ISR; LEADER_NOT_AVAILABLE without a leader.

    A broker without the client's listener counts as offline, and as leader it is LISTENER_NOT_FOUND from v6 on
    (KRaftMetadataCache.partitionMetadata).
    """
    answers: list[Fields] = []
    listener = call.connection.listener.name
    alive, elsewhere = _living(broker, listener)
    for info in partitions:
        if pace.is_over(1):
            yield
            alive, elsewhere = _living(broker, listener)
        offline = [node for node in info.replicas if node not in alive]
        if broker.node_id in info.replicas and broker.is_offline(topic, info.partition):
            offline.append(broker.node_id)
        has_leader = (
            info.leader in alive
            and info.leader not in offline
            and not broker.suspected_brokers.has(info.leader)
            and not broker.store_outage.is_isolated_leader(topic, info)
        )
        is_elsewhere = info.leader in elsewhere and call.version >= _LISTENER_ERROR_VERSION
        without_leader = ErrorCode.listener_not_found if is_elsewhere else ErrorCode.leader_not_available
        answers.append(
            {
                "error_code": ErrorCode.none if has_leader else without_leader,
                "partition_index": info.partition,
                "leader_id": info.leader if has_leader else -1,
                "leader_epoch": info.leader_epoch,
                "replica_nodes": list(info.replicas),
                "isr_nodes": list(info.isr),
                "offline_replicas": offline,
            }
        )
    return answers


def _living(broker: Broker, listener: str) -> tuple[set[NodeId], set[NodeId]]:
    """The brokers that serve clients of this listener, and those that serve others only."""
    serving = serving_brokers(broker.image)
    alive = {info.node_id for info in serving if info.endpoint(listener) is not None}
    return alive, {info.node_id for info in serving} - alive
