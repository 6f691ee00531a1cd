"""Random requests of producers, transactions and consumers, valid and wrong ones."""

from __future__ import annotations

import random
import time
from typing import Any, Final

from tests.kafka.same_answers.engine import Scenario, Side
from yak.protocol.record_writer import build_batch

T0: Final = 1_700_000_000_000
TRANSACTIONAL: Final = 0x10
UNBOUNDED: Final = 1 << 20


def create(side: Side, name: str, partitions: int = 1, **configs: str) -> str:
    """Create a topic that keeps its records, which are old; Kafka answers before its leader is ready."""
    topic = side.topic(name)
    pairs = {"retention_ms": "-1"} | configs
    given = [{"name": key.replace("_", "."), "value": value} for key, value in pairs.items()]
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": given}
    answer = side.once(19, 5, topics=[wanted])
    assert answer["topics"][0]["error_code"] == "none", answer
    time.sleep(0.1)
    return topic


def produce(side: Side, topic: str, count: int, note: str, **more: Any) -> bool:
    """Produce records; whether they were acknowledged."""
    index, version, name = more.pop("index", 0), more.pop("version", 9), more.pop("transactional_id", None)
    batch = build_batch([(None, b"v")] * count, more.pop("timestamp", T0), **more)
    data = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
    answer = side.ask(0, version, note=note, transactional_id=name, acks=-1, topic_data=data)
    return bool(answer["responses"][0]["partition_responses"][0]["error_code"] == "none")


def fetch(side: Side, topic: str, offset: int, *, index: int = 0, isolation: int = 0, **more: int) -> None:
    """Fetch outside of sessions."""
    wanted = {"partition": index, "fetch_offset": offset, "partition_max_bytes": UNBOUNDED, "log_start_offset": -1}
    wanted |= {"current_leader_epoch": -1, "last_fetched_epoch": -1} | more
    side.ask(
        *(1, 12),
        note=f"{offset} isolation {isolation} {more}",
        max_bytes=UNBOUNDED,
        max_wait=0,
        isolation_level=isolation,
        session_epoch=-1,
        rack_id="",
        topics=[{"topic": topic, "partitions": [wanted]}],
    )


def list_offsets(side: Side, topic: str, timestamp: int, *, index: int = 0, isolation: int = 0) -> None:
    """The offset of a timestamp, or of a special one."""
    wanted = {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
    note = f"{timestamp} isolation {isolation}"
    topics = [{"name": topic, "partitions": [wanted]}]
    side.ask(2, 9, note=note, replica_id=-1, isolation_level=isolation, topics=topics)


def random_log(side: Side, rng: random.Random) -> None:
    """Producers with and without ids, wrong sequences and epochs, deletions, and reads at any offset."""
    side.hidden = frozenset(["log_append_time"])
    topic = create(side, "log", compression_type=rng.choice(["producer", "gzip"]))
    known: dict[int, tuple[int, int]] = {}
    for _ in range(60):
        match rng.choice(["plain", "plain", *["sequence"] * 6, "delete", "fetch", "fetch", "fetch", "list", "epoch"]):
            case "plain":
                produce(side, topic, rng.randint(1, 3), "plain", timestamp=T0 + rng.randrange(0, 5_000, 100))
            case "sequence":
                _sequence(side, rng, topic, known)
            case "delete":
                offset = rng.choice([-1, 0, 1, 5, 20, rng.randrange(80)])
                topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
                side.ask(21, 2, note=str(offset), topics=topics)
            case "fetch":
                epochs = {each: rng.choice([-1, -1, 0, 1]) for each in ("current_leader_epoch", "last_fetched_epoch")}
                fetch(side, topic, rng.choice([0, 1, 5, rng.randrange(90)]), isolation=rng.randrange(2), **epochs)
            case "list":
                list_offsets(side, topic, rng.choice([-1, -2, -4, T0 + rng.randrange(0, 6_000, 50)]))
            case _:
                wanted = {
                    "partition": 0,
                    "current_leader_epoch": rng.randint(-2, 1),
                    "leader_epoch": rng.randint(-2, 1),
                }
                side.ask(23, 4, replica_id=-1, note=str(wanted), topics=[{"topic": topic, "partitions": [wanted]}])


def _sequence(side: Side, rng: random.Random, topic: str, known: dict[int, tuple[int, int]]) -> None:
    """A batch of an idempotent producer: the next one, an earlier one, or a wrong one."""
    producer_id, count = rng.choice([100, 101, 102]), rng.randint(1, 3)
    last_epoch, expected = known.get(producer_id, (0, 0))
    epoch = max(0, last_epoch + rng.choice([0] * 8 + [1, -1, 2]))
    sequence = (
        expected if rng.random() < 0.55 else max(0, rng.choice([0, expected + 1, *range(expected - 6, expected)]))
    )
    if epoch > last_epoch and rng.random() < 0.7:
        sequence = 0
    note = f"{producer_id} epoch {epoch} sequence {sequence} count {count}"
    batch = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    is_new = epoch > last_epoch or sequence == expected or producer_id not in known
    if produce(side, topic, count, note, **batch) and is_new:
        known[producer_id] = epoch, sequence + count


def random_transactions(side: Side, rng: random.Random) -> None:
    """A transactional producer with protocol 2 (KIP-890): batches, ends, bumped epochs and zombies."""
    side.hidden = frozenset(["log_append_time", "log_start_offset"])
    topic, name = create(side, "orders", 2), side.topic("producer")
    producer_id, epoch, expected = -1, -1, [0, 0]
    for what in ["begin", *rng.choices(["send", "send", "send", "commit", "abort", "begin", "bump", "read"], k=50)]:
        index, age, gap = rng.randrange(2), rng.choice([0] * 9 + [1]), rng.choice([0] * 9 + [1])
        named = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": max(0, epoch - age)}
        if what == "send":
            batch = {"producer_id": producer_id, "producer_epoch": max(0, epoch - age), "attributes": TRANSACTIONAL}
            batch |= {"base_sequence": expected[index] + gap, "index": index, "version": 12, "transactional_id": name}
            if produce(side, topic, 1, f"{index} age {age} gap {gap}", **batch) and not age and not gap:
                expected[index] += 1
        elif what == "read":
            fetch(side, topic, 0, index=index, isolation=1)
            list_offsets(side, topic, -1, index=index, isolation=1)
        else:
            if what == "begin":
                named |= {"producer_id": -1, "producer_epoch": -1}
            elif what == "bump":
                # an epoch that is not the current one ends the transaction in Kafka, though the request is refused
                named["producer_epoch"] = epoch
            begins = what in ("begin", "bump")
            more = {"transaction_timeout": 60_000} if begins else {"committed": what == "commit"}
            answer = side.ask(22 if begins else 26, 5, note=f"{what} age {age}", **named, **more)
            if answer["error_code"] == "none":
                producer_id, epoch, expected = answer["producer_id"], answer["producer_epoch"], [0, 0]
            _settle(side, name)


def _settle(side: Side, name: str) -> None:
    """Wait until the markers of a transaction are written: a broker may answer before that."""
    for _ in range(100):
        listed = side.once(66, 1, state_filters=["PrepareCommit", "PrepareAbort"], duration_filter=-1)
        if name not in [each["transactional_id"] for each in listed["transaction_states"]]:
            return
        time.sleep(0.02)


SCENARIOS: Final[tuple[Scenario, ...]] = (random_log, random_transactions)
