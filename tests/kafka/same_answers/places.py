"""Admin requests of several items at once: pages of topics, moves, elections, log directories, groups, internal topics."""

from __future__ import annotations

import random
import uuid
from typing import Any, Final

from tests.kafka.same_answers.admin import ABSENT, _created, _sorted
from tests.kafka.same_answers.data import produce
from tests.kafka.same_answers.engine import Scenario, Side

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def places(side: Side, rng: random.Random) -> None:
    """Requests about three topics, internal ones, and some that do not exist."""
    side.hidden = frozenset(
        [
            "host",
            "rack",
            "error_message",
            "controller_id",
            "config_source",
            "leader_epoch",
            "log_dir",
            "total_bytes",
            "usable_bytes",
        ]
    )
    topics = [_created(side, each) for each in ("a", "b", "c")]
    produce(side, topics[0], 3, "plain")
    asked = {
        43: _elect,
        45: _move,
        46: _moves,
        75: _pages,
        34: _directories,
        21: _trim,
        37: _grow,
        19: _create,
        20: _delete,
        61: _producers,
        23: _epochs,
        2: _timestamps,
        10: _coordinators,
        16: _groups,
        74: _resources,
        57: _features,
        64: lambda *_: (0, {"broker_id": 77}),
        47: _erase,
    }
    for _ in range(80):
        key = rng.choice(list(asked))
        version, fields = asked[key](side, rng, topics)
        answer = side.once(key, version, **fields)
        if key == 16 and isinstance(answer, dict):
            answer["groups"] = [each for each in answer["groups"] if side.run in each["group_id"]]
        if key == 43 and isinstance(answer, dict) and fields["topic_partitions"] is None:
            answer["replica_election_results"] = [
                each for each in answer["replica_election_results"] if side.run in each["topic"]
            ]
        if key == 74 and isinstance(answer, dict):
            answer["config_resources"] = [
                each for each in answer["config_resources"] if side.run in each["resource_name"]
            ]
        side.record(f"{key} v{version} {fields}", _sorted(answer))


def _names(rng: random.Random, topics: list[str]) -> list[str]:
    odd = [ABSENT, "", "a b", "x" * 250, ".", OFFSETS, TRANSACTIONS, "__cluster_metadata"]
    return sorted({rng.choice([*topics * 4, *odd]) for _ in range(rng.choice([0, 1, 1, 2, 3]))})


def _indexes(rng: random.Random) -> list[int]:
    return rng.choice([[0], [0, 1], [1, 0], [9], [-1], [0, 9]])


def _elect(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    named = [{"topic": name, "partitions": _indexes(rng)} for name in _names(rng, topics)]
    wanted = rng.choice([named, named, named, None])
    return rng.randrange(3), {
        "election_type": rng.choice([0, 0, 1]),
        "topic_partitions": wanted,
        "timeout": 5000,
    }


def _move(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    replicas = [None, [1], [9], [], [1, 1], [-1], [1, 9]]
    rows = [
        {
            "name": name,
            "partitions": [{"partition_index": index, "replicas": rng.choice(replicas)} for index in _indexes(rng)],
        }
        for name in _names(rng, topics) or topics
    ]
    return rng.randrange(2), {"topics": rows, "allow_replication_factor_change": rng.random() < 0.5}


def _moves(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [{"name": name, "partition_indexes": _indexes(rng)} for name in _names(rng, topics)]
    return 0, {"topics": rng.choice([None, rows, rows])}


def _pages(side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    names = [name for name in _names(rng, topics) if name] or topics  # Kafka answers "" with UNKNOWN_SERVER_ERROR
    place = {
        "topic_name": rng.choice([*names, "a", "zzz", side.topic("b")]),
        "partition_index": rng.choice([0, 1, 2, 9, -1]),
    }
    return 0, {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": rng.choice([0, 1, 1, 2, 3, 100, -1]),
        "cursor": rng.choice([None, place]),
    }


def _directories(side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    del side
    paths = rng.choices(["/nowhere", "", "relative"], k=rng.choice([0, 1, 1, 2]))
    rows = [
        {
            "path": path,
            "topics": [{"name": name, "partitions": _indexes(rng)} for name in _names(rng, topics) if len(name) < 250],
        }
        for path in paths
    ]
    return rng.randint(1, 2), {"dirs": rows}


def _trim(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "offset": rng.choice([0, -1, -2, 1, 99])} for index in _indexes(rng)
            ],
        }
        for name in _names(rng, topics)
        if not name.startswith("__")
    ]
    return rng.randrange(3), {"topics": rows}


def _grow(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "name": name,
            "count": rng.choice([0, 1, 2, 3, 4, -1]),
            "assignments": rng.choice(
                [None, None, [{"broker_ids": [1]}], [{"broker_ids": [1]}] * 2, [{"broker_ids": [7]}], []]
            ),
        }
        for name in _names(rng, topics)
        if name not in (OFFSETS, TRANSACTIONS)
    ]
    return rng.randrange(4), {"topics": rows, "validate_only": True}


def _create(side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "name": name,
            "num_partitions": rng.choice([1, 2, -1, 0]),
            "replication_factor": rng.choice([1, 1, -1, 0, 2]),
            "assignments": [],
            "configs": rng.choice([[], [], [{"name": "retention.ms", "value": rng.choice(["1", "x", None, "-2"])}]]),
        }
        for name in [*_names(rng, topics), side.topic("n.ew"), side.topic("n_ew")][-3:]
    ]
    return rng.randint(2, 7), {"topics": rows, "validate_only": True}


def _delete(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    names = [name for name in _names(rng, topics) if name not in (*topics, OFFSETS, TRANSACTIONS)]
    rows = [{"name": rng.choice([name, None]), "topic_id": rng.choice([None, uuid.UUID(int=9)])} for name in names]
    return rng.randint(1, 6), {"topic_names": names, "topics": rows}


def _producers(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    names = [name for name in _names(rng, topics) if not name.startswith("__")]
    return 0, {"topics": [{"name": name, "partition_indexes": _indexes(rng)} for name in names]}


def _epochs(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "topic": name,
            "partitions": [
                {
                    "partition": index,
                    "current_leader_epoch": rng.choice([-1, 0, 5]),
                    "leader_epoch": rng.choice([-1, 0, 5]),
                }
                for index in _indexes(rng)
            ],
        }
        for name in _names(rng, topics)
        if not name.startswith("__")
    ]
    return rng.randint(2, 4), {"replica_id": rng.choice([-1, -2]), "topics": rows}


def _timestamps(_side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index,
                    "current_leader_epoch": -1,
                    "timestamp": rng.choice([-1, -2, -3, -4, -5, -6, 0, 2**62]),
                }
                for index in _indexes(rng)
            ],
        }
        for name in _names(rng, topics)
        if not name.startswith("__")
    ]
    return rng.randint(1, 11), {"replica_id": -1, "topics": rows}


def _coordinators(side: Side, rng: random.Random, _topics: list[str]) -> tuple[int, dict[str, Any]]:
    keys = rng.choices([side.topic("g"), "", "é", "x" * 300], k=rng.choice([0, 1, 1, 2]))
    return rng.randrange(7), {
        "key": (keys or [""])[0],
        "key_type": rng.choice([0, 0, 1, 2, 3, -1]),
        "coordinator_keys": keys,
    }


def _groups(_side: Side, rng: random.Random, _topics: list[str]) -> tuple[int, dict[str, Any]]:
    states = rng.choice([[], [], ["Stable"], ["stable", "EMPTY"], ["bogus"], [""], ["Stable", "bogus"]])
    kinds = rng.choice([[], [], ["consumer"], ["CLASSIC"], ["bogus"], [""], ["share"]])
    return rng.randrange(6), {"states_filter": states, "types_filter": kinds}


def _resources(_side: Side, rng: random.Random, _topics: list[str]) -> tuple[int, dict[str, Any]]:
    return rng.randrange(2), {
        "resource_types": rng.choice([[], [2], [4], [8], [16], [32], [99], [0], [2, 2], [2, 99], [-1]])
    }


def _features(_side: Side, rng: random.Random, _topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {
            "feature": rng.choice(["odd", "group.version", "transaction.version", ""]),
            "max_version_level": rng.choice([-1, 7, 9]),
            "allow_downgrade": rng.random() < 0.3,
            "upgrade_type": rng.choice([1, 1, 0, 2, 3, 9]),
        }
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    return rng.randrange(3), {"feature_updates": rows, "validate_only": True}


def _erase(side: Side, rng: random.Random, topics: list[str]) -> tuple[int, dict[str, Any]]:
    rows = [
        {"name": name, "partitions": [{"partition_index": each} for each in _indexes(rng)]}
        for name in _names(rng, topics)
    ]
    return 0, {"group_id": rng.choice(["", side.topic("g")]), "topics": rows}


SCENARIOS: Final[tuple[Scenario, ...]] = (places,)
