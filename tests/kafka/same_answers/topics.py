"""Topics and their records with odd arguments: creations, growth, deletions, Metadata, and batches that no client sends."""

from __future__ import annotations

import random
import struct
import time
import uuid
from typing import Any, Final

from tests.kafka.same_answers.data import T0, create, fetch
from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.compression import compress
from yak.protocol.record_batch import HEADER_BYTES, compute_crc, with_records
from yak.protocol.record_writer import build_batch

ABSENT: Final = "absent"
_FIELDS: Final = {
    "base_offset": (0, ">q", (1, -1, 7)),
    "batch_length": (8, ">i", (0, -1, 1 << 30)),
    "partition_leader_epoch": (12, ">i", (0, 5, -2)),
    "magic": (16, ">b", (0, 1)),
    "attributes": (21, ">h", (8, 0x20)),
    "last_offset_delta": (23, ">i", (0, 1, 5, -1, 2**31 - 1)),
    "base_timestamp": (27, ">q", (-1, 0, T0 - 10**11)),
    "producer_epoch": (51, ">h", (0, -2, 32767)),
    "base_sequence": (53, ">i", (0, -2, 2**31 - 1)),
    "records_count": (57, ">i", (0, 1, 5, -1, 2**31 - 1)),
}
"""Where each field of a batch's header is, its layout, and values to try."""


def batches(side: Side, rng: random.Random) -> None:
    """Produce requests whose batch has one or two odd fields, and what the log has afterwards.

    Not tried is what YAK refuses on purpose, and Kafka does not: transactions without a producer id, other negative
    producer ids and timestamps, a maximum timestamp that no record has, and bytes behind the batch. Kafka does not answer
    records that are null, and YAK does not read records that it stores compressed. A batch that is shorter than its header is
    CORRUPT_MESSAGE for YAK and INVALID_RECORD for Kafka.
    """
    side.hidden = frozenset(["log_append_time", "max_timestamp", "timestamp"])
    configs = rng.choice(
        [
            {},
            {},
            {"message_timestamp_type": "LogAppendTime"},
            {"cleanup_policy": "compact"},
            {"compression_type": "gzip"},
        ]
    )
    topic = create(side, "odd", **configs)
    for _ in range(40):
        count, key = rng.randint(1, 3), rng.choice([None, b"k"])
        batch = build_batch([(key, b"v")] * count, T0)
        codec = rng.choice([0, 0, 0, 1, 3])
        if codec:
            batch = with_records(batch, compress(codec, batch[HEADER_BYTES:]), codec)
        changed = bytearray(batch)
        names = rng.sample(sorted(_FIELDS), rng.randrange(3))
        values = {name: rng.choice(_FIELDS[name][2]) for name in names}
        for name, value in values.items():
            struct.pack_into(_FIELDS[name][1], changed, _FIELDS[name][0], value)
        if "base_timestamp" in values:
            struct.pack_into(">q", changed, 35, values["base_timestamp"])  # the records are of one time
        is_whole = rng.random() < 0.95
        if is_whole:
            struct.pack_into(">I", changed, 17, compute_crc(changed))
        records = bytes(changed)
        shape = rng.choice(["one"] * 12 + ["empty", "two", "cut"])
        records = {
            "one": records,
            "empty": b"",
            "two": records * 2,
            "cut": records[:-1],
        }[shape]
        version, acks = rng.choice([3, 7, 8, 9, 11, 12]), rng.choice([-1, -1, 1])
        name, index = rng.choice([(topic, 0)] * 12 + [(topic, 1), (topic, -1), (ABSENT, 0), ("", 0)])
        if "batch_length" in values:  # else Kafka refuses the whole request
            name, index = topic, 0
        data = [{"name": name, "partition_data": [{"index": index, "records": records}]}]
        note = f"{count} {key!r} codec {codec} {values} {is_whole} {shape} acks {acks} to {name} {index}"
        side.ask(0, version, note=note, transactional_id=rng.choice([None] * 9 + ["t"]), acks=acks, topic_data=data)
    fetch(side, topic, 0)
    for timestamp in (-1, -2, -3, T0):
        wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        side.ask(2, 9, note=str(timestamp), replica_id=-1, topics=[{"name": topic, "partitions": [wanted]}])


def topics(side: Side, rng: random.Random) -> None:
    """Topics are created, grown, described and deleted, by names and ids that may be wrong or come twice."""
    side.hidden = frozenset(["host", "rack", "controller_id", "config_source"])
    names = [side.topic(each) for each in ("one", "two", "th.ree", "th_ree")]
    ids: dict[str, Any] = {}
    for what in rng.choices(
        [*["create"] * 4, *["grow"] * 3, "delete", "delete", *["metadata"] * 3, "trim", "elect", "move", "moves"], k=40
    ):
        name = rng.choice([*names * 3, "", "a b", "x" * 250, "__cluster_metadata", ABSENT])
        if what == "create":
            _create(side, rng, name)
        elif what == "grow":
            assignments = rng.choice(
                [
                    None,
                    None,
                    None,
                    [],
                    [{"broker_ids": [1]}],
                    [{"broker_ids": [1, 1]}],
                    [{"broker_ids": [9]}],
                    [{"broker_ids": []}],
                ]
            )
            count, dry = rng.choice([1, 2, 3, 4, 0, -1, 10_001]), rng.random() < 0.3
            requested = [{"name": name, "count": count, "assignments": assignments}] * rng.choice([1, 1, 1, 2, 0])
            side.ask(37, rng.randrange(4), note=f"{requested} {dry}", topics=requested, validate_only=dry)
        elif what == "delete":
            _delete(side, rng, name, ids.get(name))
        elif what == "metadata":
            version = rng.randrange(4, 14)  # older ones create topics
            wanted = [{"name": name, "topic_id": None}]
            if version >= 10 and rng.random() < 0.4:
                wanted = [{"name": rng.choice([None, name]), "topic_id": ids.get(name) or uuid.UUID(int=9)}]
            answer = side.once(3, version, topics=wanted, allow_auto_topic_creation=False)
            if isinstance(answer, dict):
                for each in answer["topics"]:
                    ids[each["name"]] = each.get("topic_id") or ids.get(each["name"])
            side.record(f"Metadata v{version} {name} {[each['name'] is None for each in wanted]}", answer)
        elif what == "trim":
            requested = [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": rng.choice([0, 1, 9, -1]), "offset": rng.choice([0, -1, -2, 1, 2**62])}
                    ],
                }
            ]
            side.ask(21, rng.randrange(3), note=str(requested), topics=requested)
        elif what == "elect":
            requested = rng.choice([[{"topic": name, "partitions": [0, 9]}], []])
            side.ask(
                43,
                rng.randrange(3),
                note=str(requested),
                election_type=rng.choice([0, 1, 1]),
                topic_partitions=requested,
            )
        elif what == "move":
            replicas = rng.choice([None, [1], [9], [], [1, 1], [-1]])
            requested = [
                {"name": name, "partitions": [{"partition_index": rng.choice([0, 9, -1]), "replicas": replicas}]}
            ]
            side.ask(45, 0, note=str(requested), topics=requested)
        else:
            requested = rng.choice([None, [{"name": name, "partition_indexes": [0, 9]}], []])
            side.ask(46, 0, note=str(requested), topics=requested)


def _create(side: Side, rng: random.Random, name: str) -> None:
    version = rng.randint(2, 7)
    assignments = rng.choice(
        [[]] * 6
        + [[(0, [1])], [(0, [1]), (1, [1])], [(1, [1])], [(0, [9])], [(0, [])], [(0, [1, 1])], [(0, [1]), (0, [1])]]
    )
    given = [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments]
    default = -1 if assignments and rng.random() < 0.8 else rng.choice([1, 1, 2, -1, 0, -2, 10_001])
    factor = -1 if assignments and rng.random() < 0.8 else rng.choice([1, 1, 1, -1, 0, -2, 2, 32767])
    configs = rng.choice(
        [[]] * 5
        + [
            [("retention.ms", "x")],
            [("retention.ms", None)],
            [("no.such", "1")],
            [("cleanup.policy", "compact")],
            [("retention.ms", "1"), ("retention.ms", "2")],
        ]
    )
    pairs = [{"name": key, "value": value} for key, value in configs]
    requested = {
        "name": name,
        "num_partitions": default,
        "replication_factor": factor,
        "assignments": given,
        "configs": pairs,
    }
    dry = rng.random() < 0.2
    side.ask(
        19, version, note=f"{requested} {dry}", topics=[requested] * rng.choice([1, 1, 1, 1, 2, 0]), validate_only=dry
    )
    time.sleep(0.05)


def _delete(side: Side, rng: random.Random, name: str, topic_id: Any) -> None:
    version = rng.randint(1, 6)
    if version < 6:
        side.ask(20, version, note=name, topic_names=[name] * rng.choice([1, 1, 1, 0]))
    else:
        requested = {
            "name": rng.choice([name, name, None]),
            "topic_id": rng.choice([None, None, topic_id, uuid.UUID(int=9)]),
        }
        note = f"{requested['name']} {requested['topic_id'] is None} {requested['topic_id'] == topic_id}"
        side.ask(20, version, note=note, topics=[requested])
    time.sleep(0.05)


SCENARIOS: Final[tuple[Scenario, ...]] = (batches, topics)
