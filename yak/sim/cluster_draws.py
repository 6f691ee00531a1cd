"""A cluster's topics, configs, roles and racks, as drawn from the seed."""

from __future__ import annotations

from typing import NamedTuple

from yak.cluster.placement import MACHINE
from yak.sim.cluster_admin import CHURN
from yak.sim.compacted_records import COMPACT, COMPACT_SHORT
from yak.sim.seeded_random import SeededRandom
from yak.sim.topic_plan import TopicPlan

BROKERS_A_MACHINE = 2
SHORT, UNCLEAN, PACKED = "t-short", "t-unclean", "t-packed"
_SMALL = (("segment.bytes", "1024"), ("file.delete.delay.ms", "500"))
RETENTIONS = (_SMALL, (*_SMALL, ("retention.bytes", "2048")), (*_SMALL, ("retention.ms", "2500")))
"""How `t-short` deletes records, besides DeleteRecords: not at all, by size, or by age."""


def draw_plans(rng: SeededRandom, brokers: int) -> dict[str, TopicPlan]:
    """Topics of several kinds; in some runs all of them flush every record, so that all brokers may lose power."""
    all_flushed = rng.chance(25 if brokers > 1 else 75)
    plans = [
        TopicPlan("t-three", rng.between(1, 2), 3, 2, all_flushed),
        TopicPlan("t-safe", 1, 3, 2, is_flushed=True),
        TopicPlan("t-loose", 1, 3, 1, all_flushed),
        TopicPlan("t-two", 1, 2, rng.between(1, 2), all_flushed),
        TopicPlan("t-one", 1, 1, 1, all_flushed),
        TopicPlan(SHORT, 1, 3, 2, all_flushed, rng.choice(RETENTIONS)),
    ]
    chosen = [plan for plan in plans if rng.chance(50)] or plans[:1]
    if brokers == 1 and rng.chance(50):
        chosen.append(TopicPlan(PACKED, 1, 1, 1, all_flushed, compression="gzip"))
    return {plan.name: plan for plan in (*chosen, TopicPlan(CHURN, rng.between(1, 2), 3, 1, all_flushed))}


def draw_compaction(rng: SeededRandom, *, is_flushed: bool) -> tuple[list[TopicPlan], dict[str, str]]:
    """The compacted topic, in some runs, and broker configs; in some runs the committed offsets are compacted as well."""
    settings = {"log.cleaner.backoff.ms": str(rng.choice((20, 200, 1_000)))}
    if rng.chance(40):
        segment_bytes = str(rng.choice((400, 1_500)))
        settings |= {
            "offsets.topic.segment.bytes": segment_bytes,
            "transaction.state.log.segment.bytes": segment_bytes,
            "log.cleaner.min.cleanable.ratio": rng.choice(("0.01", "0.5")),
            "log.cleaner.delete.retention.ms": rng.choice(("500", "86400000")),
        }
    configs = (
        ("segment.bytes", rng.choice(("300", "700", "2048"))),
        ("min.cleanable.dirty.ratio", rng.choice(("0", "0.01", "0.5"))),
        ("min.compaction.lag.ms", rng.choice(("0", "0", "500", "2000"))),
        ("delete.retention.ms", rng.choice(("0", "1000", "4000", "86400000"))),
        ("file.delete.delay.ms", rng.choice(("0", "500"))),
    )
    if not rng.chance(40):
        return [], settings
    if rng.chance(25):
        retention = rng.choice(((), (("retention.bytes", "3000"),), (("retention.ms", "2500"),)))
        return [TopicPlan(COMPACT_SHORT, 1, 3, 2, is_flushed, retention, configs)], settings
    return [TopicPlan(COMPACT, 1, 3, 2, is_flushed, compaction=configs)], settings


def draw_unclean(rng: SeededRandom, brokers: int) -> list[TopicPlan]:
    """In some runs of several brokers a topic that allows unclean elections."""
    plan = TopicPlan(UNCLEAN, 1, 3, 1, rng.chance(25), allows_unclean=True)
    return [plan] if rng.chance(30) and brokers > 1 else []


class MetadataLengths(NamedTuple):
    """When the metadata log is replaced by a snapshot: the store's, and that on each broker's disk."""

    trim_every: int
    trim_keeps: int
    image_records: int


def draw_metadata_lengths(rng: SeededRandom) -> MetadataLengths | None:
    """Short logs, in some runs: the logs of others never get a snapshot."""
    lengths = MetadataLengths(rng.choice((5, 20, 60)), rng.choice((0, 5, 20)), rng.choice((1, 5, 30)))
    return lengths if rng.chance(40) else None


def draw_settings(rng: SeededRandom, brokers: int) -> dict[str, str]:
    """Configs of all brokers."""
    return {
        "auto.create.topics.enable": "false",
        "min.insync.replicas": str(min(rng.choice((1, 2, 2)), brokers)),
        "offsets.topic.num.partitions": str(rng.between(1, 2)),
        "log.retention.check.interval.ms": str(rng.choice((500, 2_000))),
        "group.initial.rebalance.delay.ms": str(rng.choice((0, 300))),
        "group.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": str(rng.choice((1_500, 4_000))),
        "group.consumer.heartbeat.interval.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((400, 3_000))),
        "replica.lag.time.max.ms": str(rng.choice((1_000, 3_000, 10_000))),
        "replica.fetch.wait.max.ms": str(rng.choice((300, 500))),
    }


def draw_roles(rng: SeededRandom, brokers: int) -> tuple[str, ...]:
    """Which brokers may become controller."""
    leaders = rng.choice((1, brokers, brokers))
    return tuple("leader" if number < leaders else "follower" for number in range(brokers))


def draw_racks(rng: SeededRandom, brokers: int) -> tuple[str | None, ...]:
    """The racks of the brokers; none in most runs."""
    has_racks = rng.chance(30)
    return tuple(f"r{number % 2}" if has_racks else None for number in range(brokers))


def draw_machines(rng: SeededRandom, brokers: int, *, wanted: bool) -> tuple[str, ...] | None:
    """Machines of two brokers, as the racks of a cluster that is large enough for three; in half of those, or if `wanted`."""
    has_machines = (rng.chance(50) or wanted) and brokers > BROKERS_A_MACHINE * 2
    return tuple(f"{MACHINE}{number // BROKERS_A_MACHINE}" for number in range(brokers)) if has_machines else None
