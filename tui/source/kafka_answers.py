"""Answers to the requests of the screens from a cluster that speaks only the Kafka protocol.

The paths and bodies are those of YAK's HTTP service, as far as the screens use them; `docs/http.md` describes them.
Everything blocks, and raises YakError.
"""

import base64
import json
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote

from yak.client.admin import EARLIEST, LATEST, Admin
from yak.client.connection import base_config
from yak.client.consume import PartitionReader, Window
from yak.client.errors import from_kafka, kafka_exceptions
from yak.client.groups.asking import GroupBrokers
from yak.client.groups.describing import Group, Member, describe_groups, list_groups, require_groups
from yak.client.groups.lag import PartitionLag, lags_of, read_marks
from yak.client.groups.offsets import committed_offsets
from yak.client.leadership import carry_out, plan_moves
from yak.client.log_dirs import replica_sizes
from yak.client.metadata import unknown_topic
from yak.client.raw_connection import RawConnection
from yak.client.received import Received
from yak.client.replica_offsets import read_cluster, read_metadata
from yak.errors import YakError
from yak.ids import NodeId, Offset, TopicPartition

TIMEOUT_MS: Final = 10_000
READ_SECONDS: Final = 2.0
NO_EPOCH: Final = -1
"""Older than any `Snapshot`, which has the state of known partitions."""
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
        """Close the connections."""
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
            case ["DELETE", "topics", topic]:
                return self._admin().delete_topic(topic)
            case ["GET", "consume"]:
                return self._consume(params)
            case ["POST", "produce"]:
                return self._produce(body)
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
            why=f"the brokers at {self.servers} answer no HTTP",
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
            "groups": [_head(each) for each in self._listed.values()],
            "silent": [{"node_id": broker.node_id, "reason": why} for broker, why in silent.items()],
        }

    # topics

    def _isr(self, topic: str) -> list[dict[str, Any]]:
        found = read_cluster(self.servers, timeout_s=TIMEOUT_MS / 1000, topic=topic)
        return [each.as_json() | {"partition_epoch": NO_EPOCH} for each in found.partitions]

    def _topic(self, name: str) -> dict[str, Any]:
        admin = self._admin()
        metadata = admin.metadata()
        topic = metadata.require_topic(name)
        led = [TopicPartition(name, each.number) for each in topic.partitions if each.leader >= 0]
        starts = {each.partition: found.offset for each, found in admin.offsets(dict.fromkeys(led, EARLIEST)).items()}
        sizes = replica_sizes(metadata, timeout_s=READ_SECONDS)
        return {
            "topic_id": admin.topic_id(name),
            "configs": {
                each.name: each.value
                for each in admin.configs("topic", name)
                if each.source == _TOPIC_CONFIG and each.value is not None
            },
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
        eligible, adding = ([], []) if leader is None else _leaders_to_be(leader.address, topic, number)
        return {
            "told_by": here.leader,
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

    # records

    def _consume(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Records of one partition from an offset on, at most `max_messages`, and as far as they are there."""
        place, start = TopicPartition(params["topic"], int(params["partition"])), int(params["offset"])
        end = self._admin().offsets({place: LATEST})[place].offset
        window = Window(start, min(end, start + int(params["max_messages"])))
        reader = PartitionReader(self.servers, {place: window}, extra={"fetch.wait.max.ms": 10})
        deadline = time.monotonic() + READ_SECONDS
        try:
            found = [each for each in reader.records(more=lambda: time.monotonic() < deadline) if each is not None]
        finally:
            reader.close()
        return {"records": [_record(each) for each in found]}

    def _produce(self, body: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        failures: list[Any] = []
        producer = Producer(base_config(self.servers) | {"message.timeout.ms": TIMEOUT_MS})
        try:
            for each in body.get("records", [body]):
                producer.produce(
                    body["topic"],
                    json.dumps(each["payload"], ensure_ascii=False).encode(),
                    each.get("key"),
                    on_delivery=lambda error, _: failures.append(error) if error is not None else None,
                )
            producer.flush(TIMEOUT_MS / 1000)
        except kafka_exceptions() as error:
            failures.append(error.args[0])
        if failures:
            raise from_kafka(failures[0], "the records were not written")

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
        moved = [_place(each.partition) for each in plan.moves if each.partition not in failed]
        return {
            "moved": moved,
            "stayed": _reasons(plan.stays),
            "failed": _reasons({**plan.refused, **failed}),
            "took_ms": (time.monotonic() - began) * 1000,
        }


def _leaders_to_be(address: str, topic: str, number: int) -> tuple[list[NodeId], list[NodeId]]:
    """A partition's eligible leaders (KIP-966) and the replicas being added; empty if the broker does not return them."""
    from datetime import timedelta

    from kio.schema.describe_topic_partitions.v0.request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )
    from kio.schema.types import TopicName
    from kio.static.primitive import i32, i32Timedelta

    eligible: list[NodeId] = []
    adding: list[NodeId] = []
    name = TopicName(topic)
    described = DescribeTopicPartitionsRequest(
        topics=(TopicRequest(name=name),),
        response_partition_limit=i32(1),
        cursor=Cursor(topic_name=name, partition_index=i32(number)),
    )
    listed = ListPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=READ_SECONDS)),
        topics=(ListPartitionReassignmentsTopics(name=name, partition_indexes=(i32(number),)),),
    )
    try:
        with RawConnection(address, timeout_s=READ_SECONDS) as connection:
            for found in connection.call(listed).topics:
                adding += [int(node) for each in found.partitions for node in each.adding_replicas]
            for found in connection.call(described).topics:
                eligible += [int(node) for each in found.partitions for node in each.eligible_leader_replicas or ()]
    except OSError:
        pass  # an older broker closes the connection at an unsupported API
    return eligible, adding


def _place(each: TopicPartition) -> dict[str, Any]:
    return {"topic": each.topic, "partition": each.partition}


def _reasons(places: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
    return [{**_place(each), "reason": why} for each, why in places.items()]


def _record(each: Received) -> dict[str, Any]:
    found: dict[str, Any] = {
        "offset": each.offset,
        "timestamp_ms": each.timestamp_ms if each.timestamp_ms >= 0 else None,
    }
    if each.key is not None:
        found |= _text("key", "key_base64", each.key)
    return found | ({"payload": None} if each.value is None else _text("payload_text", "payload_base64", each.value))


def _text(name: str, base64_name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {base64_name: base64.b64encode(data).decode()}


# groups


def _head(group: Group) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "coordinator": group.coordinator.node_id,
    }


def _group(brokers: GroupBrokers, name: str, listed: Group | None) -> dict[str, Any]:
    """One group with its lag; `listed` is what the list of all groups says of it."""
    found = (describe_groups(brokers, [listed]) if listed is not None else require_groups(brokers, [name]))[name]
    if isinstance(found, YakError):
        raise found
    committed = committed_offsets(brokers, [name])[name]
    if isinstance(committed, YakError):
        raise committed
    members = found.members or ()
    assigned = [partition for member in members for partition in member.assigned or ()]
    lags = lags_of(committed, members, read_marks(brokers.admin, {*committed, *assigned}))
    known = [each.lag for each in lags if each.lag is not None]
    return {
        **_head(found),
        "assignor": found.assignor,
        "epoch": found.epoch,
        "members": [_member(each) for each in members],
        "partitions": [_partition_lag(each) for each in lags],
        "lag": sum(known) if known else None,
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "epoch": member.epoch,
        "topics": None if member.topics is None else list(member.topics),
        "assignment": None if member.assigned is None else [_place(each) for each in member.assigned],
        "target": None if member.target is None else [_place(each) for each in member.target],
    }


def _partition_lag(each: PartitionLag) -> dict[str, Any]:
    start: Offset | None = None if each.marks is None else each.marks.start
    end: Offset | None = None if each.marks is None else each.marks.end
    return {
        **_place(each.partition),
        "committed": each.committed,
        "log_start_offset": start,
        "high_watermark": end,
        "lag": each.lag,
        "member_id": None if each.member is None else each.member.member_id,
    }
