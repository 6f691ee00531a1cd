"""Requests that HTTP does not offer, over the Kafka protocol. All block (run them by `source.kafka`) and raise YakError."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from yak.client.admin import EARLIEST, Admin, ConfigValue
from yak.client.consume import PartitionReader, Window
from yak.client.consumer import ConsumerRecord
from yak.client.errors import Change, from_answer
from yak.client.groups.descriptions import active_group, coordinators, describe_groups, list_groups, require_groups
from yak.client.groups.group_brokers import GroupBrokers, answered
from yak.client.groups.lag import oldest_unread, read_lags
from yak.client.groups.offsets import committed_offsets, delete_groups, delete_offsets
from yak.client.groups.reset import ResetPlan, Target, move, read_reset_plan
from yak.client.leadership import carry_out, list_reassignments, plan_moves
from yak.client.log_dirs import replica_sizes
from yak.client.members import Member as BrokerMember
from yak.client.members import list_members
from yak.client.metadata import Broker, unknown_topic
from yak.client.quorum import Controller, read_controller
from yak.client.raw_connection import RawConnection, call_change, call_once
from yak.client.reach import of_each, split_address
from yak.client.replica_offsets import ClusterReplicas, read_cluster, read_metadata
from yak.cluster.image import BrokerInfo, Delta, Image, PartitionInfo, TopicInfo
from yak.cluster.payload import IsrMember
from yak.cluster.records import BrokerState
from yak.errors import ErrorCode, YakError
from yak.ids import NodeId, Offset, TopicPartition
from yak.tui.source.base import Event
from yak.tui.state.groups import Unread
from yak.tui.state.picture import UNKNOWN_STORE
from yak.view.groups import Group
from yak.view.partition_replicas import PartitionReplicas
from yak.views.broker_events import of_image
from yak.views.cluster import registration_json

SNAPSHOT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 2.0
DISKS_EVERY: Final = 10
"""Snapshots per DescribeLogDirs request."""
_ROLE: Final = "broker"
_NO_EPOCH: Final = -1
"""As a partition epoch, older than any `Snapshot`, which has the state of known partitions."""
_DELETE_TOPICS: Final = 20, 6
_DESCRIBE_LOG_DIRS: Final = 35, 4
_DESCRIBE_TOPIC_PARTITIONS: Final = 75, 0
NO_ID: Final = UUID(int=0)
"""Of topics of a broker without topic ids."""


class Disk(NamedTuple):
    """The volumes of a broker's log directories together."""

    free_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster at one time. `number` counts snapshots and replaces partition epochs, which no Kafka API returns."""

    number: int
    time_ms: int
    image: Image
    partitions: tuple[PartitionReplicas, ...]
    silent: Mapping[NodeId, str] = field(default_factory=dict)
    """Brokers that did not answer in time, with the reason."""
    disks: Mapping[NodeId, Disk] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers that are not fenced."""
        active = (each for each in self.image.brokers.values() if each.state is BrokerState.ACTIVE)
        return ",".join(Broker(each.node_id, each.host, each.port).address for each in active)

    def event(self) -> Event:
        """A `snapshot` event as the brokers of YAK send it."""
        image = self.image
        return {
            "kind": "snapshot",
            "time_ms": self.time_ms,
            "cluster": {
                "cluster_id": image.cluster_id,
                "controller_id": None if image.controller_id < 0 else image.controller_id,
                "controller_epoch": image.controller_epoch,
                "redis": {"state": UNKNOWN_STORE, "lost_ms": None},
                "brokers": [registration_json(each, "http") for each in image.brokers.values()],
            },
            "partitions": [_row(each, self.number) for each in self.partitions],
        }


def _row(partition: PartitionReplicas, partition_epoch: int) -> dict[str, Any]:
    """A partition as `GET /api/isr` answers it."""
    return partition.as_json() | {"partition_epoch": partition_epoch, "topic_id": partition.topic_id}


# differences


def changes(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    """The events between two snapshots. Their time is that of the second: the change came at most one poll earlier."""
    for found in of_image(before.image, after.image, _delta(before.image, after.image)):
        event = {"kind": found.kind, "time_ms": after.time_ms, "message": found.message, **found.fields}
        yield event if found.topic is None else {**event, "topic": found.topic}


def _delta(before: Image, after: Image) -> Delta:
    nodes = sorted({*before.brokers, *after.brokers})
    changed = {
        name: tuple(
            each.partition
            for each in topic.partitions
            if not _is_in(before, topic) or _state_in(before.topics[name], each.partition) != _state(each)
        )
        for name, topic in after.topics.items()
    }
    return Delta(
        topics_changed=tuple(name for name, numbers in changed.items() if numbers),
        topics_removed=tuple(
            (name, topic.topic_id) for name, topic in before.topics.items() if not _is_in(after, topic)
        ),
        brokers_changed=tuple(node for node in nodes if before.brokers.get(node) != after.brokers.get(node)),
        partitions_changed=changed,
    )


def _is_in(image: Image, topic: TopicInfo) -> bool:
    return topic.name in image.topics and image.topics[topic.name].topic_id == topic.topic_id


def _state_in(topic: TopicInfo, partition: int) -> object:
    return _state(topic.partitions[partition]) if partition < len(topic.partitions) else None


def _state(info: PartitionInfo) -> object:
    return (info.leader, info.leader_epoch, info.replicas, info.isr)


def link_events(before: Snapshot | None, after: Snapshot) -> Iterator[Event]:
    """A `link` event of each broker that answers now and did not before, or the other way round."""
    for node, info in after.image.brokers.items():
        if info.state is not BrokerState.ACTIVE:
            continue
        why = after.silent.get(node)
        known = None if before is None else before.image.brokers.get(node)
        if (
            before is None
            or known is None
            or known.state is not BrokerState.ACTIVE
            or (node in before.silent) != (why is not None)
        ):
            state = "up" if why is None else "down"
            yield {"kind": "link", "time_ms": after.time_ms, "node_id": node, "state": state, "why": why or ""}


def rate_events(before: Snapshot | None, after: Snapshot) -> Iterator[Event]:
    """A `rates` event of each broker: the records a second by which the high watermarks that it leads rose.

    All other rates are None: no Kafka API returns them.
    """
    if before is None:
        before = after
    known = {(each.topic, each.partition): each.high_watermark for each in before.partitions}
    seconds = max(1, after.time_ms - before.time_ms) / 1000
    risen: dict[NodeId, dict[str, int]] = {node: {} for node in after.image.brokers}
    for each in after.partitions:
        topics = risen.get(each.leader)
        if topics is None:
            continue
        old, new = known.get((each.topic, each.partition)), each.high_watermark
        topics[each.topic] = topics.get(each.topic, 0) + (0 if old is None or new is None else max(0, new - old))
    for node, topics in risen.items():
        disk = after.disks.get(node)
        yield {
            "kind": "rates",
            "time_ms": after.time_ms,
            "node_id": node,
            **_rates(sum(topics.values()) / seconds),
            "topics": [{"topic": topic, **_rates(count / seconds)} for topic, count in topics.items()],
            "process": {
                "memory_bytes": None,
                "cpu_share": None,
                "disk_free_bytes": None if disk is None else disk.free_bytes,
                "disk_size_bytes": None if disk is None else disk.size_bytes,
            },
        }


def _rates(messages_in_per_second: float) -> dict[str, float | None]:
    return {
        "messages_in_per_second": messages_in_per_second,
        "messages_out_per_second": None,
        "bytes_in_per_second": None,
        "bytes_out_per_second": None,
    }


# reading


def read_snapshot(servers: str, before: Snapshot | None) -> Snapshot:
    """Read the state of all brokers. `before` is the previous snapshot. Raises Unreachable when no broker answers."""
    number = 1 if before is None else before.number + 1
    found = read_cluster(servers, timeout_s=SNAPSHOT_SECONDS)
    answering = [broker for node, broker in found.brokers.items() if node not in found.silent]
    addresses = [broker.address for broker in answering]
    controller = read_controller(addresses, timeout_s=ANSWER_SECONDS) or Controller(found.controller_id, 0)
    image = Image(
        cluster_id=found.cluster_id,
        controller_id=controller.node_id,
        controller_epoch=controller.epoch,
        brokers=_brokers(found, addresses),
        topics=_topics(found, number),
    )
    if before is None or number % DISKS_EVERY == 0:
        disks = _disks(answering)
    else:
        disks = before.disks
    return Snapshot(number, int(time.time() * 1000), image, found.partitions, found.silent, disks)


def _topics(found: ClusterReplicas, number: int) -> dict[str, TopicInfo]:
    by_name: dict[str, list[PartitionInfo]] = {name: [] for name in found.topics}
    for each in found.partitions:
        isr = tuple(IsrMember(node_id, -1) for node_id in each.isr)
        by_name[each.topic].append(
            PartitionInfo(each.partition, each.replicas, isr, (), each.leader, each.leader_epoch, number)
        )
    ids = {each.topic: UUID(each.topic_id) for each in found.partitions if each.topic_id}
    return {name: TopicInfo(name, ids.get(name, NO_ID), tuple(partitions)) for name, partitions in by_name.items()}


def _brokers(found: ClusterReplicas, addresses: Sequence[str]) -> dict[NodeId, BrokerInfo]:
    """All brokers that are known, with the fenced and the stopped ones."""
    holders = {node for each in found.partitions for node in each.replicas}
    members = list_members(found.brokers, holders, addresses, timeout_s=ANSWER_SECONDS)
    return {node: _info(member) for node, member in members.items()}


def _info(member: BrokerMember) -> BrokerInfo:
    host, port = ("", 0) if member.address is None else split_address(member.address)
    state = BrokerState.FENCED if member.state == "DOWN" else BrokerState(member.state)
    return BrokerInfo(member.node_id, _NO_EPOCH, "", (), host, port, member.rack, _ROLE, state)


def _disks(brokers: Sequence[Broker]) -> Mapping[NodeId, Disk]:
    """The disks, from brokers with DescribeLogDirs version 4 (KIP-827)."""

    def ask(broker: Broker) -> Disk | None:
        try:
            with RawConnection(broker.address, timeout_s=ANSWER_SECONDS) as connection:
                results = connection.call(_DESCRIBE_LOG_DIRS, {"topics": []}).results
        except OSError:  # an older broker closes the connection at an unsupported version
            return None
        # directories of one volume all have the volume's figures
        volumes = {(int(each.usable_bytes), int(each.total_bytes)) for each in results if each.total_bytes >= 0}
        return Disk(*map(sum, zip(*volumes, strict=True))) if volumes else None

    return {broker.node_id: disk for broker, disk in of_each(brokers, ask).items() if disk is not None}


TIMEOUT_MS: Final = 10_000
READ_SECONDS: Final = 2.0
_TOPIC_CONFIG: Final = "topic"


class KafkaAnswers:
    """One cluster. The admin connection and those to the groups' coordinators stay open until `close`."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._lock = Lock()
        """Of the coordinators' connections: screens send requests from several threads."""
        self._admin_lock = Lock()
        self._known_admin: Admin | None = None
        self._groups: GroupBrokers | None = None
        self._listed: dict[str, Group] = {}

    def close(self) -> None:
        with self._lock:
            if self._groups is not None:
                self._groups.__exit__()
                self._groups = None

    def ask(self, method: str, path: str, params: Mapping[str, Any], body: Mapping[str, Any]) -> Any:
        """The answer to one request. Raises YakError, `no-http` for what only YAK's HTTP service can answer."""
        parts = [unquote(part) for part in path.split("/")[1:]]
        match [method, *parts]:
            case ["GET", "topics", topic]:
                return self._topic(topic)
            case ["POST", "topics"]:
                return self._create(body)
            case ["POST", "api", "failover"]:
                return self._fail_over(body)
            case ["GET", "api", "isr"]:
                return self._isr(params["topic"])
            case ["GET", "api", "partitions", topic, number]:
                return self._partition(topic, int(number))
            case ["GET", "api", "groups"]:
                return self._with_groups(self._all_groups)
            case ["GET", "api", "groups", group]:
                return self._with_groups(lambda brokers: _group(brokers, group, self._listed.get(group)))
        what = "the metadata log" if parts[0] == "metadata" else "this"
        raise YakError(
            "no-http",
            f"only YAK's HTTP service has {what}",
            why=f"the brokers at {self.servers} answer no HTTP, or refuse this user there",
            try_=("yak serve --http-port 8080",),
        )

    def _with_groups(self, ask: Callable[[GroupBrokers], Any]) -> Any:
        admin = self._admin()
        with self._lock:
            if self._groups is None:
                self._groups = GroupBrokers(admin)
            return ask(self._groups)

    def _admin(self) -> Admin:
        """One for all requests: each has threads of its own, and follows the cluster's brokers by itself."""
        with self._admin_lock:
            if self._known_admin is None:
                self._known_admin = Admin(self.servers, timeout_ms=TIMEOUT_MS)
            return self._known_admin

    def _all_groups(self, brokers: GroupBrokers) -> dict[str, Any]:
        self._listed, silent = list_groups(brokers)
        return {
            "groups": [each.head_json() for each in self._listed.values()],
            "silent": [{"node_id": broker.node_id, "reason": why} for broker, why in silent.items()],
        }

    # topics

    def _isr(self, topic: str) -> list[dict[str, Any]]:
        found = read_cluster(self.servers, timeout_s=TIMEOUT_MS / 1000, topic=topic)
        return [_row(each, _NO_EPOCH) for each in found.partitions]

    def _topic(self, name: str) -> dict[str, Any]:
        admin = self._admin()
        metadata = admin.metadata()
        topic = metadata.require_topic(name)
        starts = {
            each.partition: found.offset for each, found in admin.offsets(dict.fromkeys(topic.led, EARLIEST)).items()
        }
        sizes = replica_sizes(metadata, timeout_s=READ_SECONDS)
        return {
            "configs": _own_configs(admin, name),
            "partitions": [
                {
                    "partition": each.number,
                    "log_start_offset": starts.get(each.number),
                    "size_bytes": sizes.get(each.leader, {}).get((name, each.number)),
                }
                for each in topic.partitions
            ],
        }

    def _partition(self, topic: str, number: int) -> dict[str, Any]:
        found = read_metadata(self.servers, timeout_s=TIMEOUT_MS / 1000)
        here = next((each for each in found.of_topic(topic) if each.partition == number), None)
        if here is None:
            raise unknown_topic(topic, found.topics)
        leader = found.brokers.get(here.leader)
        eligible, adding = ([], []) if leader is None else _leaders_to_be(leader, TopicPartition(topic, number))
        return {
            "leader_epoch": here.leader_epoch,
            "eligible_leaders": eligible,
            "adding_replicas": adding,
            "isr_members": [],
            "followers": [],
        }

    def _create(self, body: Mapping[str, Any]) -> None:
        self._admin().create_topic(
            body["name"],
            partitions=body.get("partitions") or -1,
            replication_factor=body.get("replication_factor") or -1,
            configs=body.get("configs"),
        )

    # leaders

    def _fail_over(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Move leaders as `yak failover` does: ElectLeaders, after a new order of the replicas if needed."""
        began = time.monotonic()
        topic, partition, leader = body.get("topic"), body.get("partition"), body.get("from")
        found = read_metadata(self.servers, timeout_s=TIMEOUT_MS / 1000)
        chosen = [
            each
            for each in found.partitions
            if topic in (None, each.topic) and partition in (None, each.partition) and leader in (None, each.leader)
        ]
        plan = plan_moves(chosen, to=body.get("to"))
        failed = carry_out(self._admin(), plan.moves, timeout_s=TIMEOUT_MS / 1000)
        moved = [each.partition._asdict() for each in plan.moves if each.partition not in failed]
        return {
            "moved": moved,
            "stayed": _reasons(plan.stays),
            "failed": _reasons({**plan.refused, **failed}),
            "took_ms": (time.monotonic() - began) * 1000,
        }


def _own_configs(admin: Admin, topic: str) -> dict[str, str] | None:
    """The configs set for a topic; None if this user may not describe them."""
    try:
        found = admin.configs("topic", topic)
    except YakError as error:
        if error.code != "not-authorized":
            raise
        return None
    return {each.name: each.value for each in found if each.source == _TOPIC_CONFIG and each.value is not None}


def _leaders_to_be(leader: Broker, place: TopicPartition) -> tuple[list[NodeId], list[NodeId]]:
    """A partition's eligible leaders (KIP-966) and the replicas being added; empty if the broker does not return them."""
    fields = {
        "topics": [{"name": place.topic}],
        "response_partition_limit": 1,
        "cursor": {"topic_name": place.topic, "partition_index": place.partition},
    }
    what = "no leaders are known"
    eligible: list[NodeId] = []
    adding: list[NodeId] = []
    with suppress(YakError):  # an older broker closes the connection at an unsupported API
        moving = list_reassignments(leader, timeout_s=READ_SECONDS).get(place)
        adding += () if moving is None else moving.adding
        for found in call_once(leader.address, _DESCRIBE_TOPIC_PARTITIONS, fields, what, READ_SECONDS).topics:
            eligible += [int(node) for each in found.partitions for node in each.eligible_leader_replicas or ()]
    return eligible, adding


def _reasons(partitions: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
    return [{**each._asdict(), "reason": why} for each, why in partitions.items()]


# groups


def _group(brokers: GroupBrokers, name: str, listed: Group | None) -> dict[str, Any]:
    """One group with its lag; `listed` is what the list of all groups says of it."""
    found = describe_groups(brokers, [listed]) if listed is not None else require_groups(brokers, [name])
    group = answered(found[name])
    committed = committed_offsets(brokers, [name], known=coordinators([group]))
    return read_lags(brokers.admin, group, answered(committed[name])).as_json()


HTTP_LISTENERS = "yak.http.listeners"


def http_addresses(servers: str) -> dict[int, str]:
    """HTTP addresses by node id; empty if no broker names one, as those of Apache Kafka and `yak serve --no-http`, or if
    this user may not read the brokers' configs.

    Raises Unreachable: `unreachable`, `wrong-protocol`.
    """
    admin = Admin(servers, timeout_ms=5_000)
    for node_id in admin.metadata().brokers:
        try:
            configs = {each.name: each.value for each in admin.configs("broker", str(node_id))}
        except YakError as error:
            if error.code != "not-authorized":
                raise
            break
        if address := configs.get(HTTP_LISTENERS):
            return {node_id: address}  # this broker knows the others
    return {}


def read_tail(servers: str, windows: Mapping[TopicPartition, Window]) -> list[ConsumerRecord]:
    """The records of these windows, as far as they arrive in time. Raises YakError."""
    reader = PartitionReader(servers, windows, extra={"fetch.wait.max.ms": 10})
    deadline = time.monotonic() + READ_SECONDS
    try:
        return [each for each in reader.records(more=lambda: time.monotonic() < deadline) if each is not None]
    finally:
        reader.close()


def topic_configs(servers: str, topic: str) -> list[ConfigValue]:
    """All configs of a topic, and where each value comes from. Raises YakError."""
    return Admin(servers).configs("topic", topic)


def delete_topic(servers: str, topic: str, topic_id: str) -> None:
    """Delete the topic with this id, empty if the brokers have no ids. A later one of its name stays. Raises YakError."""
    if not topic_id:
        Admin(servers).delete_topic(topic)
        return
    found = read_metadata(servers, timeout_s=TIMEOUT_MS / 1000)
    change = Change(f'topic "{topic}" was', "deleted", f"yak topics describe {topic}")
    controller = found.brokers.get(found.controller_id) or next(iter(found.brokers.values()))
    fields = {"topics": [{"name": None, "topic_id": UUID(topic_id)}], "timeout": TIMEOUT_MS}
    (answer,) = call_change(controller.address, _DELETE_TOPICS, fields, change, TIMEOUT_MS / 1000).responses
    if answer.error_code == ErrorCode.unknown_topic_id:
        raise YakError("unknown-topic", change.not_made, why="it was deleted before the confirmation")
    if answer.error_code:
        raise change.failure(from_answer(answer, change.not_made, "kafka-error"))


def alter_topic(
    servers: str, topic: str, configs: Mapping[str, str], deletions: Sequence[str], partitions: int | None
) -> None:
    """Change configs, then add partitions. The broker checks both before it changes anything. Raises YakError."""
    admin = Admin(servers)
    if partitions is not None:
        admin.add_partitions(topic, partitions, validate_only=True)
    if configs or deletions:
        admin.alter_configs("topic", topic, configs, deletions)
    if partitions is not None:
        admin.add_partitions(topic, partitions)


def _connect(servers: str) -> GroupBrokers:
    return GroupBrokers(Admin(servers, timeout_ms=TIMEOUT_MS))


def plan_group_reset(servers: str, group: str, target: Target, topics: Sequence[str]) -> ResetPlan:
    """Plan an offset reset; changes nothing."""
    with _connect(servers) as brokers:
        return read_reset_plan(brokers, group, target, topics or None)


def move_group_offsets(
    servers: str, group: str, changes: Mapping[TopicPartition, Offset]
) -> dict[TopicPartition, YakError | None]:
    """Commit the offsets; returns the error of each partition, or None."""
    with _connect(servers) as brokers:
        return move(brokers, group, changes)


def delete_group(servers: str, group: str) -> None:
    """Delete a group with its offsets. A group with members is refused (`group-active`, listing them)."""
    with _connect(servers) as brokers:
        found = answered(require_groups(brokers, [group])[group])
        if found.members:
            raise active_group(group, found.members, f'group "{group}" was not deleted')
        answered(delete_groups(brokers, [group])[group])


def forget_group_topic(servers: str, group: str, topic: str) -> int:
    """Delete a group's offsets of a topic; returns the number of partitions."""
    with _connect(servers) as brokers:
        committed = answered(committed_offsets(brokers, [group])[group])
        partitions = [each for each in sorted(committed) if each.topic == topic]
        if not partitions:
            raise YakError("nothing-committed", f'group "{group}" has committed nothing of {topic}')
        for outcome in delete_offsets(brokers, group, partitions).values():
            answered(outcome)
        return len(partitions)


def find_group_unread(servers: str, group: str) -> dict[TopicPartition, Unread]:
    """The first unread record of each partition: its timestamp. Reads one batch of each partition that has lag."""
    with _connect(servers) as brokers:
        found = answered(require_groups(brokers, [group])[group])
        committed = answered(committed_offsets(brokers, [group])[group])
        lags = read_lags(brokers.admin, replace(found, members=()), committed).partitions
        times = oldest_unread(servers, lags, timeout_s=TIMEOUT_MS / 1000)
    read_ms = int(time.time() * 1000)
    return {each: Unread(committed[each], timestamp_ms, read_ms) for each, timestamp_ms in times.items()}
