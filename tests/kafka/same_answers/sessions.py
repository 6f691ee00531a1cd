"""Fetch sessions (KIP-227): full and incremental fetches, forgotten partitions, and wrong ids and epochs."""

from __future__ import annotations

import random
import uuid
from typing import Any, Final

from tests.kafka.same_answers.admin import _created
from tests.kafka.same_answers.data import produce
from tests.kafka.same_answers.engine import Scenario, Side


def sessions(side: Side, rng: random.Random) -> None:
    """One session at a time of a consumer that fetches by name or by id."""
    side.hidden = frozenset(["log_append_time"])
    topics = [_created(side, "a"), _created(side, "b")]
    described = side.once(3, 12, topics=[{"name": name, "topic_id": None} for name in topics])["topics"]
    ids = {each["name"]: each["topic_id"] for each in described}
    session, epoch, offsets = 0, 0, dict[tuple[str, int], int]()
    for _ in range(40):
        if rng.random() < 0.3:
            produce(side, rng.choice(topics), 1, "plain", index=rng.randrange(2))
        version = rng.choice([4, 6, 7, 11, 12, 12, 13, 16, 17])
        by_id = version >= 13
        places = rng.sample(
            [*((name, index) for name in topics for index in (0, 1)), (topics[0], 9), ("absent", 0)], rng.randrange(4)
        )
        rows = []
        for name, index in places:
            offset = rng.choice([0, offsets.get((name, index), 0), 1, 50])
            rows.append(
                (
                    name,
                    {
                        "partition": index,
                        "fetch_offset": offset,
                        "partition_max_bytes": 1 << 20,
                        "log_start_offset": -1,
                        "current_leader_epoch": -1,
                        "last_fetched_epoch": -1,
                        "high_watermark": 2**63 - 1,
                    },
                )
            )
        kind = rng.choice(["full", "next", "next", "next", "next", "wrong", "end", "other"])
        given = {
            "full": (0, 0),
            "next": (session, epoch),
            "wrong": (session, epoch + 1),
            "end": (session, -1),
            "other": (12345, rng.choice([0, 1, -1])),
        }[kind]
        forgotten = rng.sample([(name, index) for name in topics for index in (0, 1)], rng.choice([0, 0, 0, 1, 4]))

        fields: dict[str, Any] = {
            "replica_id": -1,
            "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "rack_id": "",
            "session_id": given[0],
            "session_epoch": given[1],
            "topics": [{**_named(ids, name, by_id), "partitions": [row]} for name, row in rows],
            "forgotten_topics_data": [{**_named(ids, name, by_id), "partitions": [index]} for name, index in forgotten],
        }
        answer = side.once(1, version, **fields)
        side.record(
            f"Fetch v{version} {kind} {places} forgets {forgotten}",
            _flat(answer, {topic_id: name for name, topic_id in ids.items()}),
        )
        if isinstance(answer, dict) and version >= 7 and kind in ("full", "next") and answer["error_code"] == "none":
            is_new = kind == "full" or (session, epoch) == (0, 0)
            session = answer["session_id"]
            epoch = 0 if not session else 1 if is_new else epoch + 1
            for row in answer["responses"]:
                offsets[row["name"], row["partition_index"]] = max(0, row["high_watermark"])
        elif kind == "end":
            session, epoch = 0, 0


def _named(ids: dict[str, uuid.UUID], name: str, by_id: bool) -> dict[str, Any]:
    return {"topic_id": ids.get(name, uuid.UUID(int=9))} if by_id else {"topic": name}


def _flat(answer: Any, names: dict[uuid.UUID, str]) -> Any:
    """The answer with one row for each partition, by topic and index: Kafka may name a topic several times."""
    if isinstance(answer, dict):
        rows = [
            {"name": topic.get("topic") or names.get(topic.get("topic_id"), "unknown id"), **each}
            for topic in answer["responses"]
            for each in topic["partitions"]
        ]
        answer["responses"] = sorted(rows, key=lambda row: (row["name"], row["partition_index"]))
    return answer


SCENARIOS: Final[tuple[Scenario, ...]] = (sessions,)
