"""Fetches with any bounds and offsets in each version.

Known differences: Kafka cuts the last batch at the bound, reads the first partition of a request first, and answers
UNKNOWN_SERVER_ERROR to negative bounds and unknown isolation levels.
"""

from __future__ import annotations

import random
import uuid
from typing import Final

from tests.kafka.same_answers.admin import _created
from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.record_writer import build_batch

_SIZES: Final = (10, 100, 1000, 20_000)


def bounds(side: Side, rng: random.Random) -> None:
    """Two partitions, small bounds, any offset and wait; recorded is whether there are records."""
    side.hidden = frozenset(["log_append_time"])
    topic = _created(side, "sized")
    topic_id = side.once(3, 12, topics=[{"name": topic, "topic_id": None}])["topics"][0]["topic_id"]
    for index in (0, 1):
        for _ in range(rng.randint(2, 6)):
            batch = build_batch([(None, b"v" * rng.choice(_SIZES))] * rng.randint(1, 3), 1_700_000_000_000)
            data = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
            side.once(0, 9, transactional_id=None, acks=-1, topic_data=data)
    for _ in range(40):
        version = rng.randint(4, 18)
        given = {
            "max_bytes": rng.choice([0, 1, 100, 500, 5_000, 50_000, 1 << 30]),
            "min_bytes": rng.choice([0, 1, 1, 1000, 1 << 30, -1]),
            "max_wait": rng.choice([0, 0, 50, -1]),
            "isolation_level": rng.choice([0, 0, 1]),
        }
        rows = [
            {
                "partition": index,
                "fetch_offset": rng.choice([0, 0, 0, 1, 3, 5, 99, -1]),
                "partition_max_bytes": rng.choice([0, 1, 100, 500, 5_000, 50_000, 1 << 30]),
                "log_start_offset": rng.choice([-1, 0, 5]),
                "current_leader_epoch": rng.choice([-1, -1, -1, 0, 1]),
                "last_fetched_epoch": rng.choice([-1, -1, 0, 1]),
                "high_watermark": rng.choice([2**63 - 1, 0]),
            }
            for index in rng.choice([[0], [0], [1], [9]])
        ]
        named = {"topic_id": rng.choice([topic_id] * 9 + [uuid.UUID(int=9)])} if version >= 13 else {"topic": topic}
        answer = side.once(
            *(1, version),
            **given,
            replica_id=-1,
            session_epoch=-1,
            rack_id="",
            replica_state={"replica_id": -1, "replica_epoch": -1},
            topics=[{**named, "partitions": rows}],
        )
        if isinstance(answer, dict):
            for each in answer["responses"]:
                for row in each["partitions"]:
                    row["records"] = len(row["records"] or b"") > 0
        side.record(f"Fetch v{version} {given} {rows}", answer)


SCENARIOS: Final[tuple[Scenario, ...]] = (bounds,)
