"""Requests of each API by a client that has some rights, of resources that do and do not exist: what may it see and do?

The only client is User:ANONYMOUS. It keeps the rights to change ACLs and, which Kafka's broker needs as the same principal,
CLUSTER_ACTION; all others are given and taken at random. A known difference: Kafka keeps a group that only a refused
JoinGroup created. OffsetFetch before v7 is left out: YAK repeats the group's error in each partition.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from tests.kafka.same_answers.admin import _created, _sorted
from tests.kafka.same_answers.data import TRANSACTIONAL
from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.record_writer import build_batch

CONFIGS: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
OPERATIONS: Final = {TOPIC: (3, 4, 5, 6, 7, 8, 10, 11), GROUP: (3, 6, 8, 10, 11), TRANSACTION: (4, 8)}
OF_CLUSTER: Final = (5, 8, 10, 11, 12)
_KEPT: Final = (7, 9)
DENY, ALLOW = 2, 3
LITERAL, PREFIXED = 3, 4
BROKER = "1"
Fields = dict[str, Any]
Make = Callable[["World"], Fields]


class World:
    """Names of one run: topics, groups and transactional ids with and without rights."""

    def __init__(self, side: Side, rng: random.Random) -> None:
        self.side, self.rng = side, rng
        self.topics = [_created(side, "open"), _created(side, "some"), side.topic("absent"), side.topic("absent-some")]
        self.groups = [side.topic("g-open"), side.topic("g-some")]
        self.transactions = [side.topic("t-open"), side.topic("t-some")]
        self.ids = self._ids()
        self.version = 0

    def _ids(self) -> dict[str, uuid.UUID]:
        wanted = [{"name": name, "topic_id": None} for name in self.topics[:2]]
        found = self.side.once(3, 12, topics=wanted, allow_auto_topic_creation=False)
        return {each["name"]: each["topic_id"] for each in found["topics"]}

    def topic(self) -> str:
        return self.rng.choice([*self.topics, *self.topics, "a b", ""])

    def group(self) -> str:
        return self.rng.choice([*self.groups, *self.groups, ""])

    def transaction(self) -> str:
        return self.rng.choice([*self.transactions, *self.transactions, ""])

    def index(self) -> int:
        return self.rng.choice([0, 0, 0, 1, 9])

    def some(self, of: Callable[[], Any]) -> list[Any]:
        """One to three of something; each once, in one order."""
        return sorted({of() for _ in range(self.rng.randint(1, 3))})

    def named(self, name: str, by_id: bool) -> Fields:
        """A topic by name, or by id."""
        return {"topic_id": self.ids.get(name) or uuid.uuid5(uuid.NAMESPACE_DNS, name)} if by_id else {"name": name}


def _acls(resource: tuple[int, str, int], operations: tuple[int, ...], permission: int) -> list[Fields]:
    kind, name, pattern = resource
    at = {"resource_type": kind, "resource_name": name, "resource_pattern_type": pattern}
    who = {"principal": "User:ANONYMOUS", "host": "*", "permission_type": permission}
    return [{**at, **who, "operation": each} for each in operations]


def _restrict(world: World) -> None:
    """Give and take rights of the names with `some`, and of the cluster."""
    rng, side = world.rng, world.side
    creations = _acls((CLUSTER, "kafka-cluster", LITERAL), _KEPT, ALLOW)
    creations += _acls(
        (CLUSTER, "kafka-cluster", LITERAL), tuple(each for each in OF_CLUSTER if rng.random() < 0.3), ALLOW
    )
    if rng.random() < 0.5:
        creations += _acls((CLUSTER, "kafka-cluster", LITERAL), (8,), DENY)
    by_kind = {TOPIC: (world.topics[1], world.topics[3]), GROUP: world.groups[1:], TRANSACTION: world.transactions[1:]}
    for kind, names in by_kind.items():
        for name in names:
            allowed = tuple(each for each in OPERATIONS[kind] if rng.random() < 0.35)
            denied = tuple(each for each in OPERATIONS[kind] if rng.random() < 0.1)
            creations += _acls((kind, name, LITERAL), allowed, ALLOW) + _acls((kind, name, LITERAL), denied, DENY)
            creations += (
                _acls((kind, name, LITERAL), (2,), ALLOW if rng.random() < 0.1 else DENY) if not allowed else []
            )
    answer = side.once(30, 3, creations=creations)
    assert {each["error_code"] for each in answer["results"]} == {"none"}, answer
    time.sleep(0.3)  # until the broker has them


_ALL_ACLS: Final = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


def _free(side: Side) -> None:
    """Remove all ACLs."""
    side.once(31, 3, filters=[_ALL_ACLS])
    while (answer := side.once(29, 3, **_ALL_ACLS))["error_code"] != "none" or answer["resources"]:
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------------ the requests


def _produce(world: World) -> Fields:
    rng = world.rng
    transactional = rng.random() < 0.3
    more: Fields = (
        {"attributes": TRANSACTIONAL, "producer_id": 999_999, "producer_epoch": 0, "base_sequence": 0}
        if transactional
        else {}
    )
    batch = build_batch([(None, b"v")], 1_700_000_000_000, **more)
    rows = [{"index": world.index(), "records": batch}]
    topics = [{**world.named(name, world.version >= 13), "partition_data": rows} for name in world.some(world.topic)]
    name = rng.choice([None, world.transaction()]) if not transactional else world.transaction()
    return {"transactional_id": name, "acks": rng.choice([-1, 1]), "topic_data": topics}


def _fetch(world: World) -> Fields:
    row = {"partition": world.index(), "fetch_offset": 0, "partition_max_bytes": 1000, "log_start_offset": -1}
    row |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "high_watermark": 2**63 - 1}
    by_id = world.version >= 13
    topics = []
    for name in world.some(world.topic):
        named = world.named(name, by_id)
        topics.append({**(named if by_id else {"topic": name}), "partitions": [row]})
    state = {"replica_id": -1, "replica_epoch": -1}
    return {
        "replica_id": -1,
        "replica_state": state,
        "max_wait": 0,
        "max_bytes": 1000,
        "session_epoch": -1,
        "rack_id": "",
        "topics": topics,
    }


def _metadata(world: World) -> Fields:
    rng = world.rng
    topics: list[Fields] | None = [{"name": name, "topic_id": None} for name in world.some(world.topic)]
    if world.version >= 12 and rng.random() < 0.3:
        topics = [{"name": None, "topic_id": world.ids.get(name, uuid.UUID(int=9))} for name in world.topics[:3]]
    flags = {
        each: rng.random() < 0.5
        for each in ("include_cluster_authorized_operations", "include_topic_authorized_operations")
    }
    return {"topics": topics, "allow_auto_topic_creation": False, **flags}


def _offsets(world: World) -> list[Fields]:
    by_id = world.version >= 10
    row = {
        "partition_index": world.index(),
        "committed_offset": 0,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return [{**world.named(name, by_id), "partitions": [row]} for name in world.some(world.topic)]


def _commit(world: World) -> Fields:
    named = {"group_id": world.group(), "generation_id_or_member_epoch": world.rng.choice([-1, -1, 3]), "member_id": ""}
    return {**named, "retention_time": -1, "topics": _offsets(world)}


def _fetch_offsets(world: World) -> Fields:
    by_id = world.version >= 10
    topics = [{**world.named(name, by_id), "partition_indexes": [0, 9]} for name in world.some(world.topic)]
    wanted = topics if world.version < 2 or world.rng.random() < 0.7 else None
    groups = [{"group_id": name, "member_epoch": -1, "topics": wanted} for name in world.some(world.group)]
    return {"group_id": world.group(), "topics": wanted, "groups": groups}


def _transactional_offsets(world: World) -> Fields:
    row = {
        "partition_index": world.index(),
        "committed_offset": 0,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    topics = [{**world.named(name, world.version >= 6), "partitions": [row]} for name in world.some(world.topic)]
    producer = {"transactional_id": world.transaction(), "producer_id": 999_999, "producer_epoch": 0}
    return {**producer, "group_id": world.group(), "generation_id": -1, "member_id": "", "topics": topics}


def _join(world: World) -> Fields:
    return {
        "group_id": world.group(),
        "session_timeout": world.rng.choice([10_000, 1]),
        "rebalance_timeout": 10_000,
        "member_id": "stranger",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def _leave(world: World) -> Fields:
    members = [{"member_id": each, "group_instance_id": None, "reason": None} for each in ("a", "b")]
    return {"group_id": world.group(), "member_id": "a", "members": members[: world.rng.randrange(3)]}


def _member(world: World) -> Fields:
    kinds = {"protocol_type": "consumer", "protocol_name": "range"}
    return {"group_id": world.group(), "generation_id": 1, "member_id": "a", **kinds}


def _new_topics(world: World) -> Fields:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": world.rng.choice([1, 5])}
        for name in world.some(world.topic)
    ]
    topics += topics[: world.rng.choice([0, 0, 0, 1])]
    return {"topics": topics, "validate_only": True}


def _deleted_topics(world: World) -> Fields:
    names = ["a b", world.topics[2], world.topics[3]]
    given = world.rng.sample(names, 2)
    both = [{"name": name, "topic_id": None} for name in given] + [{"name": None, "topic_id": uuid.UUID(int=9)}]
    return {"topic_names": given, "topics": both}


def _trim(world: World) -> Fields:
    row = {"partition_index": world.index(), "offset": world.rng.choice([0, -1])}
    return {"topics": [{"name": name, "partitions": [row]} for name in world.some(world.topic)]}


def _init(world: World) -> Fields:
    # a successful one would make the next ones depend on it
    return {
        "transactional_id": world.rng.choice([world.transaction(), None]),
        "transaction_timeout": 0,
        "producer_id": -1,
        "producer_epoch": 5,
    }


def _epochs(world: World) -> Fields:
    row = {"partition": world.index(), "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": name, "partitions": [row]} for name in world.some(world.topic)]}


def _add(world: World) -> Fields:
    topics = [{"name": name, "partitions": [world.index()]} for name in world.some(world.topic)]
    old = {"transactional_id": world.transaction(), "producer_id": 999_999, "producer_epoch": 0}
    fields: Fields = {f"v3_and_below_{key}": value for key, value in old.items()} | {"v3_and_below_topics": topics}
    several = [
        {**old, "transactional_id": name, "verify_only": world.rng.random() < 0.5, "topics": topics}
        for name in world.some(world.transaction)
    ]
    return fields | {"transactions": several}


def _producer(world: World) -> Fields:
    return {
        "transactional_id": world.transaction(),
        "producer_id": 999_999,
        "producer_epoch": 0,
        "group_id": world.group(),
    }


def _resources(world: World) -> list[tuple[int, str]]:
    several = [(2, world.topic()), (4, BROKER), (4, ""), (8, BROKER), (16, "m"), (32, world.group())]
    return world.rng.sample(several, world.rng.randint(1, 3))


def _describe_configs(world: World) -> Fields:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["no.such"]}
            for kind, name in _resources(world)
        ]
    }


def _alter_configs(world: World) -> Fields:
    config = {2: "retention.ms", 4: "log.cleaner.backoff.ms", 32: "consumer.session.timeout.ms"}
    resources = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": config[kind], "config_operation": 0, "value": "45000"}],
        }
        for kind, name in _resources(world)
        if kind in config and (kind, name) != (4, "")  # Kafka refuses a replacement of those of all brokers
    ]
    return {"resources": resources, "validate_only": True}


def _grow(world: World) -> Fields:
    topics = [
        {"name": name, "count": world.rng.choice([1, 2, 3]), "assignments": None} for name in world.some(world.topic)
    ]
    topics += topics[: world.rng.choice([0, 0, 0, 1])]
    return {"topics": topics, "validate_only": True}


def _names(key: str, of: str) -> Make:
    return lambda world: {
        key: world.some(getattr(world, of)),
        "include_authorized_operations": world.rng.random() < 0.5,
    }


def _heartbeat(world: World) -> Fields:
    member = {"group_id": world.group(), "member_id": "a", "member_epoch": world.rng.choice([0, 3])}
    names = world.some(world.topic)
    more = {
        "rebalance_timeout": world.rng.choice([-1, 1000]),
        "topic_partitions": [{"topic_id": None, "partitions": [0]}],
    }
    return {**member, **more, "subscribed_topic_names": names}


def _quotas(world: World) -> Fields:
    kind = world.rng.choice(["user", "ip", "client-id", "odd", ""])
    return {
        "components": [
            {"entity_type": kind, "match_type": world.rng.randrange(4), "match": world.rng.choice([None, "x"])}
        ],
        "strict": True,
    }


def _alter_quotas(world: World) -> Fields:
    entity = [
        {
            "entity_type": world.rng.choice(["user", "ip", "client-id", "odd"]),
            "entity_name": world.rng.choice([None, "x", "127.0.0.1", ""]),
        }
    ]
    ops = [
        {
            "key": world.rng.choice(["producer_byte_rate", "connection_creation_rate", "odd"]),
            "value": world.rng.choice([1.0, 0.5, -1.0]),
            "remove": False,
        }
    ]
    return {"entries": [{"entity": entity, "ops": ops}], "validate_only": True}


def _users(world: World) -> Fields:
    return {"users": world.rng.choice([[], [{"name": "x"}], [{"name": "x"}] * 2, [{"name": ""}]])}


def _alter_users(world: World) -> Fields:
    deletions = [{"name": world.rng.choice(["x", ""]), "mechanism": world.rng.choice([0, 1, 9])}]
    upsertion = {
        "name": world.rng.choice(["y", "x", ""]),
        "mechanism": 1,
        "iterations": 1,
        "salt": b"s",
        "salted_password": b"p",
    }
    return {"deletions": deletions, "upsertions": [upsertion][: world.rng.randrange(2)]}


def _bad_acls(world: World) -> Fields:
    """New ACLs with an error that Kafka answers: it closes the connection for an unknown code."""
    rng = world.rng
    wrong = rng.choice(["resource_name", "principal", "host"])
    right = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:ann", "host": "*"}
    right |= {"operation": 3, "permission_type": 3}
    values = {"principal": ["", "ann"]}
    return {"creations": [right | {wrong: rng.choice(values.get(wrong, [""]))}]}


def _filter(world: World) -> Fields:
    rng = world.rng
    return {
        "resource_type_filter": rng.choice([1, 2, 4]),
        "resource_name_filter": rng.choice([None, "nobody-has-it", ""]),
        "pattern_type_filter": rng.choice([1, 2, 3, 4]),
        "principal_filter": rng.choice([None, "User:nobody", "nobody"]),
        "host_filter": rng.choice([None, "1.2.3.4"]),
        "operation": rng.choice([1, 3, 13]),
        "permission_type": rng.choice([1, 2, 3]),
    }


def _features(world: World) -> Fields:
    update = {
        "feature": world.rng.choice(["odd", "group.version"]),
        "max_version_level": world.rng.choice([1, -1, 7]),
        "allow_downgrade": False,
        "upgrade_type": world.rng.choice([1, 0, 9]),
    }
    return {"feature_updates": [update], "validate_only": True}


def _move(world: World) -> Fields:
    rows = [{"partition_index": world.index(), "replicas": world.rng.choice([[1], None])}]
    return {
        "topics": [{"name": name, "partitions": rows} for name in world.some(world.topic)],
        "allow_replication_factor_change": True,
    }


def _moves(world: World) -> Fields:
    topics = [{"name": name, "partition_indexes": [0, 9]} for name in world.some(world.topic)]
    return {"topics": world.rng.choice([None, topics])}


def _elect(world: World) -> Fields:
    topics = [{"topic": name, "partitions": [0, 9]} for name in world.some(world.topic)]
    return {"election_type": world.rng.choice([0, 1]), "topic_partitions": topics}


def _directories(world: World) -> Fields:
    topics = [{"name": name, "partitions": [0, 9]} for name in world.some(lambda: world.rng.choice(world.topics))]
    return {"dirs": [{"path": "/nowhere", "topics": topics}]}


def _topics_and_indexes(key: str) -> Make:
    return lambda world: {
        "topics": [{key: name, "partition_indexes": [0, 9], "partitions": [0, 9]} for name in world.some(world.topic)]
    }


def _erase(world: World) -> Fields:
    rows = [{"partition_index": world.index()}]
    return {
        "group_id": world.group(),
        "topics": [{"name": name, "partitions": rows} for name in world.some(world.topic)],
    }


def _markers(world: World) -> Fields:
    topics = [{"name": name, "partition_indexes": [9]} for name in world.some(world.topic)]
    return {
        "markers": [
            {
                "producer_id": 999_999,
                "producer_epoch": 0,
                "transaction_result": False,
                "coordinator_epoch": 0,
                "topics": topics,
            }
        ]
    }


def _pages(world: World) -> Fields:
    cursor = world.rng.choice(
        [None, None, {"topic_name": world.topic(), "partition_index": world.rng.choice([0, 1, 5, -1])}]
    )
    return {
        "topics": [{"name": name} for name in world.some(lambda: world.rng.choice(world.topics))],
        "response_partition_limit": world.rng.choice([1, 2, 100]),
        "cursor": cursor,
    }


def _find(world: World) -> Fields:
    kind = world.rng.choice([0, 0, 1, 1, 2, 5])
    keys = world.some(world.transaction if kind == 1 else world.group)
    return {"key": keys[0], "key_type": kind, "coordinator_keys": keys}


def _cluster(world: World) -> Fields:
    return {
        "include_cluster_authorized_operations": world.rng.random() < 0.7,
        "endpoint_type": world.rng.choice([1, 1, 2]),
    }


def _timestamps(world: World) -> Fields:
    row = {"partition_index": world.index(), "current_leader_epoch": -1, "timestamp": world.rng.choice([-1, -2])}
    return {"replica_id": -1, "topics": [{"name": name, "partitions": [row]} for name in world.some(world.topic)]}


def _nothing(_world: World) -> Fields:
    return {}


REQUESTS: Final[tuple[tuple[int, int, int, Make], ...]] = (
    (0, 3, 13, _produce),
    (1, 4, 18, _fetch),
    (2, 1, 11, _timestamps),
    (3, 4, 13, _metadata),
    (8, 2, 10, _commit),
    (9, 7, 10, _fetch_offsets),
    (10, 0, 6, _find),
    (11, 2, 9, _join),
    (12, 0, 4, _member),
    (13, 0, 5, _leave),
    (14, 0, 5, _member),
    (15, 0, 6, _names("groups", "group")),
    (16, 0, 5, _nothing),
    (19, 2, 7, _new_topics),
    (20, 1, 6, _deleted_topics),
    (21, 0, 2, _trim),
    (22, 3, 5, _init),
    (23, 2, 4, _epochs),
    (24, 0, 5, _add),
    (25, 0, 4, _producer),
    (26, 0, 5, _producer),
    (27, 1, 1, _markers),
    (28, 0, 5, _transactional_offsets),
    (29, 1, 3, _filter),
    (30, 1, 3, _bad_acls),
    (31, 1, 3, lambda world: {"filters": [_filter(world) | {"resource_name_filter": "nobody-has-it"}]}),
    (32, 1, 4, _describe_configs),
    (33, 0, 2, _alter_configs),
    (34, 1, 2, _directories),
    (37, 0, 3, _grow),
    (42, 0, 2, _names("groups_names", "group")),
    (43, 0, 2, _elect),
    (44, 0, 1, _alter_configs),
    (45, 0, 1, _move),
    (46, 0, 0, _moves),
    (47, 0, 0, _erase),
    (48, 0, 1, _quotas),
    (49, 0, 1, _alter_quotas),
    (50, 0, 0, _users),
    (51, 0, 0, _alter_users),
    (57, 0, 2, _features),
    (60, 0, 2, _cluster),
    (61, 0, 0, _topics_and_indexes("name")),
    (64, 0, 0, lambda _world: {"broker_id": 77}),
    (65, 0, 0, _names("transactional_ids", "transaction")),
    (68, 0, 1, _heartbeat),
    (69, 0, 1, _names("group_ids", "group")),
    (74, 0, 1, lambda world: {"resource_types": world.rng.choice([[], [2], [99]])}),
    (75, 0, 0, _pages),
)


def rights(side: Side, rng: random.Random) -> None:
    """Each API, in some versions."""
    hidden = [
        "host",
        "rack",
        "controller_id",
        "leader_epoch",
        "log_append_time",
        "base_offset",
        "log_start_offset",
        "session_id",
        "config_source",
        "error_message",
    ]
    side.hidden = frozenset(
        [*hidden, "high_watermark", "last_stable_offset", "offset", "end_offset", "low_watermark", "records"]
    )
    world = World(side, rng)
    try:
        _restrict(world)
        for _ in range(4):
            for key, first, last, make in REQUESTS:
                world.version = rng.randint(first, last)
                fields = make(world)
                answer = side.once(key, world.version, **fields)
                shown = {name: value for name, value in fields.items() if name != "topic_data"}
                side.record(f"{key} v{world.version} {_text(shown)}", _sorted(_own(world, key, answer)))
    finally:
        _free(side)


def _text(fields: Fields) -> str:
    return str({key: value for key, value in fields.items() if "uuid" not in repr(value).lower()})


def _own(world: World, key: int, answer: Any) -> Any:
    """An answer without what other runs have made."""
    answer = _with_names(answer, {topic_id: name for name, topic_id in world.ids.items()})
    if key == 11 and isinstance(answer, dict):
        del answer["member_id"]  # Kafka has the requested one in some errors
    if key == 50 and isinstance(answer, dict):
        answer["results"] = [each | {"user": ""} for each in answer["results"]]  # Kafka names none that is denied
    if key == 16 and isinstance(answer, dict):
        answer["groups"] = [each for each in answer["groups"] if world.side.run in each["group_id"]]
    if key == 74 and isinstance(answer, dict):
        answer["config_resources"] = [
            each for each in answer["config_resources"] if world.side.run in each["resource_name"]
        ]
    return answer


def _with_names(value: Any, names: dict[uuid.UUID, str]) -> Any:
    """An answer with the names of topics for their ids: it is sorted."""
    if isinstance(value, dict):
        return {key: _with_names(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_names(each, names) for each in value]
    return names.get(value, "unknown id") if isinstance(value, uuid.UUID) else value


SCENARIOS: Final[tuple[Scenario, ...]] = (rights,)
