"""Plans changes of topics, partitions and configs: checks them against the image and builds the store requests.

Pure. Any active broker may run this: the store's scripts check each change again and order them, so brokers do not
consult the controller. A topic with more than 200 partitions takes several calls, sent in order; the image shows it
when all are in the log.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from yak.cluster.image import BrokerInfo, Image, PendingTopic, TopicInfo
from yak.cluster.payload import format_nodes
from yak.cluster.placement import count_machines, place, shared_machine
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, PeerError
from yak.ids import NodeId
from yak.limits import PARTITIONS_PER_TOPIC_MAX, STORE_CALL_PARTITIONS_MAX
from yak.ports.metadata_store import StoreRequest
from yak.protocol.topic_names import refuse_collision, validate_topic_name

ValidateConfig = Callable[[str, str], object]
"""Raises PeerError when a topic config has no such name or value."""

REPLICATION_FACTOR_MAX = 32_767


@dataclass(slots=True, frozen=True)
class NewTopic:
    """A topic that a client requests. -1 means the default, and must stand beside `assignments`."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[NodeId]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assigned_twice: int | None = None
    """A partition that the client assigned more than once."""


@dataclass(slots=True, frozen=True)
class TopicPlan:
    """The topic to be created and the store requests for it, to run or only to show (`validate_only`)."""

    topic_id: uuid.UUID
    assignments: tuple[tuple[NodeId, ...], ...]
    configs: Mapping[str, str]
    requests: tuple[StoreRequest, ...]

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition."""
        return len(self.assignments[0])


def plan_create_topic(
    image: Image,
    new: NewTopic,
    topic_id: uuid.UUID,
    *,
    num_partitions: int = 1,
    default_replication_factor: int = 1,
    validate_config: ValidateConfig | None = None,
    full: Collection[NodeId] = (),
) -> TopicPlan:
    """Plan a new topic without replicas on `full` brokers. Raises PeerError with Kafka's code for the first problem.

    `num_partitions` and `default_replication_factor` are the brokers' configs of these names.
    """
    validate_topic_name(new.name)
    if new.name in image.topics:
        raise PeerError(ErrorCode.topic_already_exists, f"Topic '{new.name}' already exists.")
    refuse_collision(new.name, image.topics)
    configs = _checked_configs(new.configs, validate_config)
    if new.assignments:
        assignments = _manual_assignments(image, new)
        refuse_full(assignments, full)
    else:
        count = num_partitions if new.num_partitions == -1 else new.num_partitions
        factor = default_replication_factor if new.replication_factor == -1 else new.replication_factor
        assignments = _placed(image, count, factor, full)
    head: dict[str, object] = {
        "name": new.name,
        "topic_id": str(topic_id),
        "total": len(assignments),
        "configs": configs,
        "refuses_collision": True,
    }
    requests = _slices("create_topic", head, list(enumerate(assignments)))
    return TopicPlan(topic_id, tuple(assignments), configs, requests)


def plan_create_partitions(
    image: Image,
    name: str,
    total: int,
    assignments: Sequence[Sequence[NodeId]] | None = None,
    *,
    growth_id: uuid.UUID,
    full: Collection[NodeId] = (),
) -> tuple[StoreRequest, ...]:
    """Plan more partitions, `total` in all, without replicas on `full` brokers. Raises PeerError.

    By `growth_id` the store knows a repeat of this request from another one to the same total.
    """
    topic = image.topics.get(name)
    if topic is None:
        raise PeerError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
    present = len(topic.partitions)
    if total == present:
        raise PeerError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if total < present:
        message = f"The topic {name} currently has {present} partition(s); {total} would not be an increase."
        raise PeerError(ErrorCode.invalid_partitions, message)
    _check_partition_count(total)
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is not None:
        new = [tuple(replicas) for replicas in assignments]
        if len(new) != total - present:
            message = (
                f"Attempted to add {total - present} additional partition(s), but only {len(new)} assignment(s) were "
                "specified."
            )
            raise PeerError(ErrorCode.invalid_replica_assignment, message)
        _check_replicas(image, dict(enumerate(new, present)), replication_factor)
        refuse_full(new, full)
    else:
        brokers = _usable_brokers(image, replication_factor, full)
        start = _start(image, topic)
        new = place(brokers, total - present, replication_factor, first_partition=present, start=start)
    head: dict[str, object] = {"topic_id": str(topic.topic_id), "total": total, "growth_id": str(growth_id)}
    return _slices("create_partitions", head, list(enumerate(new, present)))


def plan_missing_partitions(
    image: Image, topic: PendingTopic, missing: Sequence[int], full: Collection[NodeId] = ()
) -> tuple[StoreRequest, ...]:
    """Plan the partitions that a topic still lacks because the broker that added them died. Raises PeerError."""
    assert topic.partitions, "a topic that grew has partitions"
    replication_factor = len(topic.partitions[min(topic.partitions)].replicas)
    placed = place(_usable_brokers(image, replication_factor, full), topic.total, replication_factor)
    new = [(number, placed[number]) for number in missing]
    head: dict[str, object] = {"topic_id": str(topic.topic_id), "total": topic.total}
    return _slices("create_partitions", head, new)


def plan_delete_topic(image: Image, topic: TopicInfo) -> tuple[StoreRequest, ...]:
    """Plan the deletion of a topic, which the caller found in the image by name or id."""
    assert topic.name in image.topics
    return (StoreRequest("delete_topic", {"topic_id": str(topic.topic_id)}),)


def plan_alter_configs(
    image: Image,
    resource_type: str,
    resource_name: str,
    configs: Mapping[str, str | None],
    expected: Mapping[str, str | None],
    *,
    replace: bool,
) -> tuple[StoreRequest, ...]:
    """Plan to set configs of a resource, and to remove those that are None; `replace` also removes all others.

    Resource types are `topic` (by name), `broker` (by node id, empty for all) and `group` (by id). The caller validates
    the values, since it knows the type of each config. `expected` has the values that others were computed from: the
    store changes nothing, and answers INVALID_UPDATE_VERSION, if they were replaced. Raises PeerError when the topic does
    not exist.
    """
    if resource_type == "topic" and resource_name not in image.topics:
        raise PeerError(ErrorCode.unknown_topic_or_partition, f"The topic '{resource_name}' does not exist.")
    return plan_alter(resource_type, resource_name, configs, expected, replace=replace)


def plan_alter(
    resource_type: str,
    resource_name: str,
    configs: Mapping[str, str | None],
    expected: Mapping[str, str | None] = MappingProxyType({}),
    *,
    replace: bool = False,
) -> tuple[StoreRequest, ...]:
    """Plan to set configs of a resource that needs no check, and to remove those that are None, as one change.

    That is a user, a delegation token, an entity with quotas, or a resource pattern with ACLs (`yak.cluster.records.USER`,
    TOKEN, QUOTA and ACL). `replace` also removes all others: without `configs` the resource is removed.
    """
    changes = [
        [name, value, expected[name]] if name in expected else [name, value] for name, value in sorted(configs.items())
    ]
    arguments: dict[str, object] = {
        "resource_type": resource_type,
        "resource_name": resource_name,
        "changes": changes,
        "replace": replace,
        "keeps_elr_without_leader": True,
    }
    return (StoreRequest("alter_configs", arguments),)


def plan_producer_ids() -> StoreRequest:
    """Request a block of producer ids; the answer has `first` and `next`."""
    return StoreRequest("alloc_pid")


def plan_unregister_broker(image: Image, node_id: NodeId) -> tuple[StoreRequest, ...]:
    """Plan to unregister a broker. Raises PeerError when it is unknown; the store refuses an ACTIVE or STOPPING one."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise PeerError(ErrorCode.broker_id_not_registered, f"Broker {node_id} is not registered.")
    return (StoreRequest("unregister", {"target_id": node_id, "target_epoch": broker.broker_epoch}),)


# ------------------------------------------------------------------------------------------------------- inside


def _checked_configs(configs: Mapping[str, str | None], validate_config: ValidateConfig | None) -> dict[str, str]:
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        message = f"Null value not supported for topic configs: {','.join(missing)}"
        raise PeerError(ErrorCode.invalid_config, message)
    checked = {name: value for name, value in sorted(configs.items()) if value is not None}
    if validate_config is not None:
        for name, value in checked.items():
            validate_config(name, value)
    return checked


def _check_replication_factor(replication_factor: int) -> None:
    if replication_factor < 1 or replication_factor > REPLICATION_FACTOR_MAX:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise PeerError(ErrorCode.invalid_replication_factor, message)


def _check_partition_count(count: int) -> None:
    if count < 1:
        message = "Number of partitions was set to an invalid non-positive value."
        raise PeerError(ErrorCode.invalid_partitions, message)
    if count > PARTITIONS_PER_TOPIC_MAX:
        message = f"{count} partitions are more than the {PARTITIONS_PER_TOPIC_MAX} that a topic may have."
        raise PeerError(ErrorCode.invalid_partitions, message)


def _usable_brokers(image: Image, replication_factor: int, full: Collection[NodeId]) -> list[BrokerInfo]:
    """The brokers for new replicas: all registered ones except `full` ones and those in controlled shutdown.

    Raises PeerError(INVALID_REPLICATION_FACTOR) if they are too few or none is ACTIVE (Kafka's
    `BrokerHeartbeatManager.usableBrokers` and `StripedReplicaPlacer.place`), and KAFKA_STORAGE_ERROR if only room is
    missing.
    """
    _check_replication_factor(replication_factor)
    registered = [image.brokers[node_id] for node_id in sorted(image.brokers)]
    brokers = [broker for broker in registered if broker.state is not BrokerState.STOPPING]
    if not any(broker.state is BrokerState.ACTIVE for broker in brokers):
        reason = "All brokers are currently fenced or in controlled shutdown."
    elif replication_factor > len(brokers):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered."
        )
    elif replication_factor > count_machines(brokers):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because the {len(brokers)} "
            f"registered brokers are on {count_machines(brokers)} machine(s), and a machine has one replica at most."
        )
    else:
        roomy = [broker for broker in brokers if broker.node_id not in full]
        if count_machines(roomy) < replication_factor or not any(
            broker.state is BrokerState.ACTIVE for broker in roomy
        ):
            refuse_full([[broker.node_id for broker in brokers]], full)
        return roomy
    message = f"Unable to replicate the partition {replication_factor} time(s): {reason}"
    raise PeerError(ErrorCode.invalid_replication_factor, message)


def refuse_full(assignments: Iterable[Iterable[NodeId]], full: Collection[NodeId]) -> None:
    """Raise PeerError(KAFKA_STORAGE_ERROR) when replicas would be on a broker without room for their logs."""
    hit = sorted({node_id for replicas in assignments for node_id in replicas if node_id in full})
    if hit:
        named = ", ".join(map(str, hit))
        message = f"No log directory of broker(s) {named} has room for another log; make room there, or add brokers."
        raise PeerError(ErrorCode.kafka_storage_error, message)


def _placed(image: Image, count: int, replication_factor: int, full: Collection[NodeId]) -> list[tuple[NodeId, ...]]:
    _check_replication_factor(replication_factor)
    _check_partition_count(count)
    brokers = _usable_brokers(image, replication_factor, full)
    return place(brokers, count, replication_factor, start=len(image.topics) % len(brokers))


def _start(image: Image, topic: TopicInfo) -> int:
    """The shift that continues the topic's round-robin over the brokers, from its first leader."""
    ordered = place(image.active_brokers(), len(image.active_brokers()), 1)
    first = (topic.partitions[0].replicas[0],)
    return ordered.index(first) if first in ordered else 0


def _manual_assignments(image: Image, new: NewTopic) -> list[tuple[NodeId, ...]]:
    if new.replication_factor != -1:
        message = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise PeerError(ErrorCode.invalid_request, message)
    if new.num_partitions != -1:
        message = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise PeerError(ErrorCode.invalid_request, message)
    if new.assigned_twice is not None:
        message = f"Found multiple manual partition assignments for partition {new.assigned_twice}"
        raise PeerError(ErrorCode.invalid_replica_assignment, message)
    if sorted(new.assignments) != list(range(len(new.assignments))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise PeerError(ErrorCode.invalid_replica_assignment, message)
    _check_partition_count(len(new.assignments))
    _check_replicas(image, new.assignments, len(new.assignments[0]))
    return [tuple(new.assignments[number]) for number in range(len(new.assignments))]


def _check_replicas(image: Image, assignments: Mapping[int, Sequence[NodeId]], replication_factor: int) -> None:
    active = {broker.node_id for broker in image.active_brokers()}
    for number, replicas in assignments.items():
        if not replicas:
            message = "The manual partition assignment includes an empty replica list."
        elif len(set(replicas)) != len(replicas):
            twice = next(one for one, other in pairwise(sorted(replicas)) if one == other)
            message = f"The manual partition assignment includes the broker {twice} more than once."
        elif unknown := [node_id for node_id in replicas if node_id not in image.brokers]:
            message = f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered."
        elif len(replicas) != replication_factor:
            message = (
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
        elif machine := shared_machine(replicas, image.brokers):
            message = f"The manual partition assignment of partition {number} includes two brokers of {machine}."
        elif not active.intersection(replicas):
            message = (
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                "controlled shutdown."
            )
        else:
            continue
        raise PeerError(ErrorCode.invalid_replica_assignment, message)


def _slices(
    script: str, head: dict[str, object], assignments: Sequence[tuple[int, tuple[NodeId, ...]]]
) -> tuple[StoreRequest, ...]:
    items: list[dict[str, object]] = [
        {"partition": number, "replicas": format_nodes(replicas)} for number, replicas in assignments
    ]
    slices = [
        items[start : start + STORE_CALL_PARTITIONS_MAX] for start in range(0, len(items), STORE_CALL_PARTITIONS_MAX)
    ]
    tail = {name: head[name] for name in ("topic_id", "total", "growth_id") if name in head}
    return (
        StoreRequest(script, head | {"partitions": slices[0]}),
        *(StoreRequest("create_partitions", tail | {"partitions": part}) for part in slices[1:]),
    )
