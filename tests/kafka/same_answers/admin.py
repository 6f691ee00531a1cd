"""What admin clients ask: offsets, log directories, producers, transactions, the cluster and configs, with odd arguments."""

from __future__ import annotations

import random
import re
import time
import uuid
from typing import Any, Final

from tests.kafka.same_answers.data import T0, TRANSACTIONAL, create, produce
from tests.kafka.same_answers.engine import Scenario, Side

ABSENT: Final = "absent"
BROKER, TOPIC = 4, 2


def _created(side: Side, name: str) -> str:
    """A topic of two partitions, whose leaders are ready."""
    topic = create(side, name, 2)
    requested = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": -1} for index in (0, 1)]
    while "not_leader" in repr(side.once(2, 9, replica_id=-1, topics=[{"name": topic, "partitions": requested}])):
        time.sleep(0.05)
    return topic


def _sorted(value: Any) -> Any:
    """An answer with its lists in one order."""
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    return sorted(map(_sorted, value), key=repr) if isinstance(value, list) else value


def offsets(side: Side, rng: random.Random) -> None:
    """ListOffsets in each version, of special and ordinary timestamps, with leader epochs and any replica id."""
    topic = _created(side, "offsets")
    for number in range(rng.randint(1, 4)):
        produce(side, topic, 2, "plain", timestamp=T0 + 1000 * (3 - number))
    for _ in range(40):
        version = rng.randint(1, 11)
        wanted = {
            "partition_index": rng.choice([0, 0, 0, 1, 7, -1]),
            "current_leader_epoch": rng.choice([-1, -1, 0, 1]) if version >= 4 else -1,
            "timestamp": rng.choice([-1, -1, -2, -2, -3, -4, -5, -6, -7, T0, T0 + 1500, T0 + 9000]),
        }
        name = rng.choice([topic, topic, topic, ABSENT, "", "a b"])
        replica, isolation = rng.choice([-1, -1, -1, -2, 1, 9]), rng.randrange(2)
        note = f"{name} {wanted} replica {replica} isolation {isolation}"
        topics = [{"name": name, "partitions": [wanted]}]
        side.ask(2, version, note=note, replica_id=replica, isolation_level=isolation, topics=topics)


def transactions(side: Side, rng: random.Random) -> None:
    """Producers and transactions in several states, and their lists and descriptions."""
    side.hidden = frozenset(["transaction_start_time", "coordinator_epoch", "last_timestamp"])
    topic = _created(side, "paid")
    names = {each: side.topic(each) for each in ("pay-1", "pay-2", "ship")}
    known = {}
    for name, full in names.items():
        answer = side.ask(22, 5, transactional_id=full, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1)
        identity = known[name] = {"producer_id": answer["producer_id"], "producer_epoch": answer["producer_epoch"]}
        for index in rng.sample([0, 1], rng.randrange(3)):
            batch = {**identity, "attributes": TRANSACTIONAL, "base_sequence": 0, "index": index}
            produce(side, topic, 1, f"{name} {index}", version=12, transactional_id=full, **batch)
        if rng.random() < 0.3:
            side.ask(26, 5, transactional_id=full, committed=rng.random() < 0.5, **identity)
            time.sleep(0.3)
    produce(side, topic, 2, "idempotent", producer_id=100, producer_epoch=3, base_sequence=5)
    for _ in range(20):
        _list(side, rng, [each["producer_id"] for each in known.values()])
    for name in (*names.values(), ABSENT, ""):
        side.record(f"DescribeTransactions {name}", _sorted(side.once(65, 0, transactional_ids=[name])))
    for name, indexes in ((topic, [0, 1, 5]), (ABSENT, [0]), ("", [0]), ("a b", [0]), ("__consumer_offsets", [0])):
        for index in indexes:
            answer = side.once(61, 0, topics=[{"name": name, "partition_indexes": [index]}])
            for each in answer["topics"][0]["partitions"]:
                each["active_producers"] = _sorted(each["active_producers"])
            side.record(f"DescribeProducers {name} {index}", answer)


def _list(side: Side, rng: random.Random, ids: list[int]) -> None:
    """ListTransactions with some filters; only the transactions of this run, by name."""
    version = rng.randrange(3)
    number = rng.randrange(len(ids))
    patterns = [
        None,
        "",
        f".*{side.run}",
        f"pay-.-{side.run}",
        "pay",
        "[",
        "a(?=b)",
        f"(?i)PAY-1-{side.run}",
        "x" * 300,
    ]
    given: dict[str, Any] = {
        "state_filters": rng.choice([[], [], ["Ongoing"], ["Empty", "Bogus"], ["ongoing"], [""], ["CompleteCommit"]]),
        "producer_id_filters": rng.choice([[], [], [ids[number]], [999_999]]),
        "duration_filter": rng.choice([-1, -1, 0, 86_400_000, -5]) if version >= 1 else -1,
        "transactional_id_pattern": rng.choice(patterns) if version >= 2 else None,
    }
    answer = side.once(66, version, **given)
    if isinstance(answer, dict):
        own = [each for each in answer["transaction_states"] if each["transactional_id"].endswith(side.run)]
        answer["transaction_states"] = sorted(own, key=lambda each: each["transactional_id"])
    note = {**given, "producer_id_filters": f"{len(given['producer_id_filters'])} of {number}"}
    side.record(f"ListTransactions v{version} {note}", answer)


def directories(side: Side, rng: random.Random) -> None:
    """DescribeLogDirs in each version."""
    side.hidden = frozenset(["log_dir", "total_bytes", "usable_bytes"])
    topic = _created(side, "stored")
    for _ in range(rng.randrange(3)):
        produce(side, topic, 2, "plain")
    for version in range(1, 6):
        for topics in ([(topic, [0, 1, 9])], [(topic, [1]), (ABSENT, [0])], [(ABSENT, [0])], [], [("", [0])]):
            requested = [{"topic": name, "partitions": indexes} for name, indexes in topics]
            answer = _sorted(side.once(35, version, topics=requested))
            side.record(f"DescribeLogDirs v{version} {topics}", answer)


def cluster(side: Side, rng: random.Random) -> None:
    """DescribeCluster in each version, with each kind of endpoint."""
    del rng
    side.hidden = frozenset(["host", "rack"])
    for version in range(3):
        for kind in (0, 1, 2, 3) if version else (1,):
            for fenced in (False, True) if version >= 2 else (False,):
                for operations in (False, True):
                    given = {"endpoint_type": kind, "include_fenced_brokers": fenced}
                    given["include_cluster_authorized_operations"] = operations
                    side.ask(60, version, note=str(given), **given)


def configs(side: Side, rng: random.Random) -> None:
    """DescribeConfigs of topics, brokers and what does not exist."""
    side.hidden = frozenset(["documentation"])
    topic = create(side, "configured", retention_ms="1000", cleanup_policy="compact,delete")
    keys = ["retention.ms", "cleanup.policy", "retention.bytes", "segment.ms", "flush.ms", "no.such.config"]
    of_brokers = ["log.retention.ms", "log.roll.ms", "message.max.bytes", "max.connections", "log.cleaner.backoff.ms"]
    of_brokers += ["producer.id.expiration.ms", "transaction.partition.verification.enable"]
    resources = [(TOPIC, topic, keys), (TOPIC, ABSENT, None), (TOPIC, "", None), (TOPIC, "a b", None)]
    resources += [(BROKER, "1", of_brokers), (BROKER, "", of_brokers), (BROKER, "7", None), (BROKER, "one", None)]
    resources += [
        (8, "7", None),
        (8, "", None),
        (16, "", None),
        (32, "", None),
        (32, "g", ["consumer.session.timeout.ms"]),
    ]
    resources += [(0, "x", None), (1, "x", None), (64, "x", None), (TOPIC, topic, []), (BROKER, "1", ["no.such"])]
    for version in range(1, 5):
        for kind, name, wanted in resources:
            synonyms = rng.random() < 0.5
            requested = {"resource_type": kind, "resource_name": name, "configuration_keys": wanted}
            answer = side.once(
                32, version, resources=[requested], include_synonyms=synonyms, include_documentation=False
            )
            if isinstance(answer, dict):
                for result in answer["results"]:
                    named = [each for each in result["configs"] if wanted]
                    result["configs"] = sorted(named, key=lambda each: each["name"])
            side.record(f"DescribeConfigs v{version} {kind} {name} {wanted} synonyms {synonyms}", answer)


CHANGES: Final = (
    ("log.cleaner.backoff.ms", ("1", "-1", "x", "")),
    ("log.cleaner.dedupe.buffer.size", ("2000000", "-1")),
    ("max.connections", ("5", "-1", "x")),
    ("max.connections.per.ip", ("5", "0", "-1")),
    ("producer.id.expiration.ms", ("1", "0", "-1", "1.5")),
    ("transaction.partition.verification.enable", ("false", "TRUE", "yes", "")),
    ("leader.replication.throttled.rate", ("1", "0", "-1")),
    ("log.retention.ms", ("1", "-1", "0", "x")),
    ("message.max.bytes", ("1", "-1")),
    ("log.cleaner.enable", ("false",)),
    ("node.id", ("2",)),
    ("log.retention.hours", ("2",)),
    ("group.max.size", ("2",)),
)
"""Broker configs, dynamic ones and others, with good and bad values."""


def changes(side: Side, rng: random.Random) -> None:
    """IncrementalAlterConfigs and AlterConfigs of this broker and of all, as dry runs."""
    for name, values in CHANGES:
        for value in (*values, None):
            for resource in ("1", ""):
                operation = 1 if value is None else rng.choice([0, 0, 0, 2, 3])
                config = {"name": name, "config_operation": operation, "value": value}
                requested = [{"resource_type": BROKER, "resource_name": resource, "configs": [config]}]
                note = f"{name}={value} of {resource!r}, operation {operation}"
                side.ask(44, 1, note=note, resources=requested, validate_only=True)
                if value is not None and resource:  # for all brokers Kafka refuses to replace min.insync.replicas
                    side.ask(33, 2, note=note, resources=requested, validate_only=True)


def regexes(side: Side, rng: random.Random) -> None:
    """The topics that a regular expression of a KIP-848 group matches, internal ones too."""
    topics = {_created(side, "seen"), _created(side, "Seen")}
    ids = {}
    wanted = [{"name": name, "topic_id": None} for name in (*topics, "__consumer_offsets", "__transaction_state")]
    for topic in side.once(3, 12, topics=wanted)["topics"]:
        ids[topic["topic_id"]] = topic["name"]
    run = re.escape(side.run)
    for expression in (
        f"seen-{run}",
        f"(?i)SEEN-{run}",
        "__consumer.*",
        "__.*",
        f".*{run}",
        "seen",
        f"^seen-{run}$",
        "[",
    ):
        group, member = side.topic(f"g{rng.randrange(10**9)}"), str(uuid.UUID(int=rng.getrandbits(128)))
        epoch, found = 0, None
        for _ in range(30):
            given = {"group_id": group, "member_id": member, "member_epoch": epoch, "rebalance_timeout": 60_000}
            given |= {"subscribed_topic_regex": expression, "topic_partitions": []} if not epoch else {}
            answer = side.once(68, 1, **given)
            epoch = answer["member_epoch"]
            assigned = answer["assignment"]
            if answer["error_code"] != "none":
                found = answer["error_code"]
                break
            if assigned and assigned["topic_partitions"]:
                found = sorted((ids.get(each["topic_id"]), each["partitions"]) for each in assigned["topic_partitions"])
            time.sleep(0.02)
        side.record(f"ConsumerGroupHeartbeat {expression}", [str(found)])


SCENARIOS: Final[tuple[Scenario, ...]] = (offsets, transactions, directories, cluster, configs, changes, regexes)
