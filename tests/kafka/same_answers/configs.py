"""Configs that are changed and described: of topics, of the broker and of all brokers, of groups; and quotas and users.

Not tried is what YAK declares: configs without effect, segments below 1 MiB, min.insync.replicas as a dynamic default.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from tests.kafka.same_answers.admin import ABSENT, _created
from tests.kafka.same_answers.engine import Scenario, Side

CONFIGS: Final = (
    "log.segment.bytes=1073741824",
    "group.consumer.min.heartbeat.interval.ms=5000",
    "group.consumer.max.heartbeat.interval.ms=15000",
    "group.consumer.min.session.timeout.ms=45000",
    "group.consumer.max.session.timeout.ms=60000",
)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
_VALUES: Final = {
    "cleanup.policy": ("compact", "delete", "delete,compact", "", "x", "compact,compact", " compact , delete ", "none"),
    "compression.type": ("gzip", "producer", "ZSTD", "none", ""),
    "compression.gzip.level": ("-1", "0", "10"),
    "compression.lz4.level": ("9", "18", "0"),
    "compression.zstd.level": ("3", "23", "-131073"),
    "delete.retention.ms": ("0", "-1", "1"),
    "file.delete.delay.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "flush.ms": ("0", "-1"),
    "follower.replication.throttled.replicas": ("*", "0:1", "0:1,1:1", "x", "", "none"),
    "leader.replication.throttled.replicas": ("*", "0:1", "none", "0:1:2"),
    "index.interval.bytes": ("0", "-1", "4096"),
    "local.retention.ms": ("-2", "-3"),
    "local.retention.bytes": ("-2", "-3"),
    "max.compaction.lag.ms": ("1", "0"),
    "max.message.bytes": ("0", "-1", "100", "2147483648", "1 "),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", "logappendtime"),
    "message.timestamp.after.max.ms": ("0", "-1", "9223372036854775807", "9223372036854775808"),
    "message.timestamp.before.max.ms": ("0", "-1", "+5"),
    "min.cleanable.dirty.ratio": ("0", "1", "1.1", "-0.1", "NaN", "1e-1"),
    "min.compaction.lag.ms": ("0", "-1", "9223372036854775807"),
    "preallocate": ("true", "FALSE", "yes", ""),
    "remote.storage.enable": ("false", "x"),
    "remote.log.copy.disable": ("false", "x"),
    "remote.log.delete.on.disable": ("false", "x"),
    "retention.bytes": ("-1", "-2", "0", "1"),
    "retention.ms": ("-1", "-2", "0", "1", "0x10", "", " 5 "),
    "segment.bytes": ("13", "1048576", "2147483647", "2147483648"),
    "segment.index.bytes": ("3", "4", "0"),
    "segment.jitter.ms": ("0", "-1"),
    "segment.ms": ("0", "1", "-1"),
    "unclean.leader.election.enable": ("true", "false"),
    "message.format.version": ("3.0",),
    "message.downconversion.enable": ("true",),
    "no.such.config": ("1",),
    "": ("1",),
}
"""A topic's configs, and values of which some are refused."""
_GROUP_VALUES: Final = {
    "consumer.session.timeout.ms": ("45000", "44999", "60000", "60001", "5000", "x"),
    "consumer.heartbeat.interval.ms": ("5000", "15000", "4999", "15001", "0"),
    "no.such.config": ("1",),
}
_BROKER_VALUES: Final = {
    "log.roll.ms": ("1", "0"),
    "message.max.bytes": ("1000", "-1"),
    "log.cleanup.policy": ("compact", "delete", "x"),
    "log.cleaner.backoff.ms": ("1", "-1"),
    "max.connections": ("500000", "-1"),
    "producer.id.expiration.ms": ("1000000", "0"),
}
_KEYS: Final = {TOPIC: _VALUES, GROUP: _GROUP_VALUES, BROKER: _BROKER_VALUES, LOGGER: {"root": ("INFO",)}, METRICS: {}}


def changes(side: Side, rng: random.Random) -> None:
    """Changes in each version, also several of one resource, and what is described afterwards."""
    side.hidden = frozenset(["documentation"])
    topics, groups = [_created(side, "one"), _created(side, "two")], [side.topic("g-one"), side.topic("g-two")]
    resources = [(TOPIC, name) for name in topics * 5] + [(GROUP, name) for name in groups]
    resources += [(TOPIC, ABSENT), (TOPIC, ""), (TOPIC, "a b"), (GROUP, ""), (BROKER, "1"), (BROKER, "1")]
    resources += [(LOGGER, "7"), (METRICS, ""), (0, "x"), (64, "x"), (BROKER, "7"), (BROKER, "one"), (BROKER, "")]
    try:
        for _ in range(60):
            kind, name = rng.choice(resources)
            names = sorted(_KEYS.get(kind, {"x": ()}))
            if rng.random() < 0.6 and name not in (
                ABSENT,
                "",
                "a b",
            ):  # Kafka first refuses the values, then those names
                _change(side, rng, kind, name, names)
            else:
                _describe(side, rng, kind, name, names)
    finally:
        for name in ("1", ""):
            resource = {"resource_type": BROKER, "resource_name": name}
            pairs = [{"name": key, "config_operation": 1, "value": None} for key in _BROKER_VALUES]
            side.once(44, 1, resources=[resource | {"configs": pairs}], validate_only=False)


def _change(side: Side, rng: random.Random, kind: int, name: str, names: list[str]) -> None:
    api = rng.choice([44, 44, 44, 33])
    if (kind, name, api) == (BROKER, "", 33):
        return  # Kafka refuses to replace min.insync.replicas
    configs = []
    for key in rng.choices(names, k=rng.choice([1, 1, 1, 1, 2, 3, 0])) if names else []:
        operation = rng.choice([0] * 6 + [1, 2, 3])
        value = rng.choice([*_KEYS.get(kind, {}).get(key, ("x",)), None]) if operation != 1 else None
        configs.append({"name": key, "config_operation": operation, "value": value})
    requested = {"resource_type": kind, "resource_name": name, "configs": configs}
    several = [requested] * (1 if api == 33 else rng.choice([1] * 9 + [2]))  # Kafka does not answer to AlterConfigs
    dry, version = rng.random() < 0.2, rng.choice([0, 1] if api == 44 else [0, 1, 2])
    side.ask(api, version, note=f"{several} {dry}", resources=several, validate_only=dry)
    time.sleep(0.1)  # Kafka answers before its broker has the change


def _describe(side: Side, rng: random.Random, kind: int, name: str, names: list[str]) -> None:
    keys = rng.choice([None if kind == TOPIC else names, rng.sample(names, min(len(names), 4)), names])
    synonyms, documented, version = rng.random() < 0.5, rng.random() < 0.2, rng.randint(1, 4)
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    given = {"include_synonyms": synonyms, "include_documentation": documented}
    answer = side.once(32, version, resources=wanted, **given)
    if isinstance(answer, dict):
        for result in answer["results"]:
            rows = sorted(result["configs"], key=lambda each: each["name"])
            result["configs"] = [] if kind == BROKER and keys is None else rows
            result["configs"] = [row for row in result["configs"] if row["name"] != "min.insync.replicas"]
            for row in rows:
                if "documentation" in row:
                    row["has_documentation"] = row["documentation"] is not None
    side.record(f"DescribeConfigs v{version} {kind} {name} {len(keys or ())} {given}", answer)


# ---------------------------------------------------------------------------------------------------- quotas and users


def quotas(side: Side, rng: random.Random) -> None:
    """Quotas of all forms of entities are set, removed and described; each entity once in a request."""
    side.hidden = frozenset(["error_message"])
    run = side.run
    values: dict[str, list[str | None]] = {
        "user": [f"u-{run}", f"v-{run}", f"u:%/ é-{run}", "", None],
        "client-id": [f"c-{run}", f"d-{run}", "", None],
        "ip": ["127.0.0.7", "::1", "999.0.0.1", "", None],
        "odd": ["x", None],
        "": ["x"],
    }
    kinds = [["user"], ["client-id"], ["user", "client-id"], ["client-id", "user"], ["ip"]]
    odd = [["odd"], ["user", "ip"], [], ["user", "odd"], [""]]
    keys = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]
    keys += ["connection_creation_rate", "odd", ""]
    amounts = [1.0, 1024.0, 0.5, 0.0, -1.0, 1e300, 2.0**63, 2.0**31, 1.0000001, 3.0]
    used = list[list[dict[str, Any]]]()
    for _ in range(50):
        if rng.random() < 0.55:
            several = list[dict[str, Any]]()
            for _ in range(rng.choice([1, 1, 1, 2, 3, 0])):
                types = rng.choice(kinds * 3 + odd)
                entity = [{"entity_type": kind, "entity_name": rng.choice(values[kind])} for kind in types]
                if any(each["entity_name"] is None for each in entity) and rng.random() < 0.7:
                    entity = rng.choice(used) if used else entity
                ops = [
                    {"key": rng.choice(keys), "value": rng.choice(amounts), "remove": rng.random() < 0.25}
                    for _ in range(rng.choice([1, 1, 1, 2, 3, 0]))
                ]
                if _unordered(entity) not in [_unordered(each["entity"]) for each in several]:
                    several.append({"entity": entity, "ops": ops})
                used.append(entity)
            dry, version = rng.random() < 0.15, rng.randrange(2)
            answer = side.once(49, version, entries=several, validate_only=dry)
            side.record(f"AlterClientQuotas v{version} {several} {dry}", _unordered(answer))
        else:
            _filter(side, rng, values)
    for entity in used:
        removed = [{"key": key, "value": 0.0, "remove": True} for key in keys]
        side.once(49, 1, entries=[{"entity": entity, "ops": removed}], validate_only=False)


def _filter(side: Side, rng: random.Random, values: dict[str, list[str | None]]) -> None:
    components = []
    for kind in rng.choice([["user"], ["client-id"], ["user", "client-id"], ["ip"], [], ["odd"], ["user", "ip"], [""]]):
        match = rng.choice([0, 0, 1, 2, 2, 9])
        name = rng.choice(values[kind]) if match == 0 or rng.random() < 0.1 else None
        components.append({"entity_type": kind, "match_type": match, "match": name})
    strict, version = rng.random() < 0.5, rng.randrange(2)
    answer = side.once(48, version, components=components * rng.choice([1] * 9 + [2]), strict=strict)
    side.record(f"DescribeClientQuotas v{version} {components} {strict}", _unordered(answer))


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_unordered, value), key=lambda each: repr(each.get("entity", each)))
    return value


def users(side: Side, rng: random.Random) -> None:
    """SCRAM credentials are set, deleted and described."""
    side.hidden = frozenset(["error_message"])
    names = [side.topic(each) for each in ("u", "v", "é", "w,=")]
    for _ in range(40):
        if rng.random() < 0.4:
            wanted = rng.choice([None, [], [{"name": each} for each in rng.choices([*names, "", ABSENT], k=2)]])
            answer = side.once(50, 0, users=wanted)
            if isinstance(answer, dict) and not wanted:
                answer["results"] = [each for each in answer["results"] if side.run in each["user"]]
            side.record(f"DescribeUserScramCredentials {wanted}", _unordered(answer))
            continue
        chosen = [*names * 4, ""]
        deletions = [
            {"name": rng.choice(chosen), "mechanism": rng.choice([1, 1, 2, 2, 0, 3, -1])}
            for _ in range(rng.choice([0, 0, 1, 2]))
        ]
        upsertions = [
            {
                "name": rng.choice(chosen),
                "mechanism": rng.choice([1, 1, 1, 2, 2, 2, 0, 3]),
                "iterations": rng.choice([4096, 4096, 8192, 16384, 16385, 4095, 0, -1]),
                "salt": b"salt",
                "salted_password": b"p" * rng.choice([32, 64, 1]),
            }
            for _ in range(rng.choice([0, 1, 1, 2]))
        ]
        if rng.random() < 0.5:  # Kafka loses a credential that is set beside a deletion
            upsertions = []
        else:
            deletions = []
        answer = side.once(51, 0, deletions=deletions, upsertions=upsertions)
        time.sleep(0.1)
        side.record(f"AlterUserScramCredentials {deletions} {upsertions}", _unordered(answer))
    side.once(51, 0, deletions=[{"name": name, "mechanism": 1} for name in names], upsertions=[])
    side.once(51, 0, deletions=[{"name": name, "mechanism": 2} for name in names], upsertions=[])


SCENARIOS: Final[tuple[Scenario, ...]] = (changes, quotas, users)
