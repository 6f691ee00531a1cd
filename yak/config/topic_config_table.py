"""The table of Kafka 4's topic configs. Names, types, defaults and rules: Kafka's LogConfig.java and TopicConfig.java."""

import re
from collections.abc import Mapping
from typing import Final

from yak.config.definitions import (
    LONG_MAX,
    Check,
    ConfigDef,
    ConfigType,
    Synonym,
    Value,
    at_least,
    between,
    one_of,
    subset_of,
    table_of,
)

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_NEVER: Final = str(LONG_MAX)
_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST = ConfigType.DOUBLE, ConfigType.LIST


def _from(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


def _only_delete(_name: str, value: Value) -> None:
    assert isinstance(value, list)
    if "compact" in value:
        raise ValueError(
            "compaction of other topics than the internal ones is not served by this version; only delete is"
        )


def _gzip_level(name: str, value: Value) -> None:
    if value != -1:
        between(1, 9)(name, value)


_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled_replicas(_name: str, value: Value) -> None:
    """Kafka's ThrottledReplicaListValidator."""
    assert isinstance(value, list)
    if value != ["*"] and not all(_THROTTLED_REPLICA.fullmatch(item) for item in value if item):
        raise ValueError("it is *, or a list of PARTITION:NODE")


_WITH_EFFECT: Final = (
    ConfigDef(
        "cleanup.policy",
        _LIST,
        "delete",
        "What happens to old segments: `delete` drops them by age and size. `compact`, which keeps the last record of each key, "
        "is for internal topics only, so far. An empty list keeps all segments.",
        subset_of("delete", "compact", may_be_empty=True),
        _from("log.cleanup.policy"),
        served=_only_delete,
    ),
    ConfigDef(
        "compression.type",
        _STRING,
        "producer",
        "How batches are stored: as the producer sent them (`producer`), not compressed, or with one codec.",
        one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        _from("compression.type"),
    ),
    ConfigDef(
        "delete.retention.ms",
        _LONG,
        "86400000",
        "How long a compacted topic keeps the mark of a deleted key, from the first compaction that sees it.",
        at_least(0),
        _from("log.cleaner.delete.retention.ms"),
    ),
    ConfigDef(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        "How long the files of a deleted segment stay on disk, renamed, so that reads under way can end.",
        at_least(0),
        _from("log.segment.delete.delay.ms"),
    ),
    ConfigDef(
        "flush.messages",
        _LONG,
        _NEVER,
        "Records appended to a partition before it is synced to the device. 1: every acknowledged record is on it.",
        at_least(1),
        _from("log.flush.interval.messages"),
    ),
    ConfigDef(
        "flush.ms",
        _LONG,
        _NEVER,
        "Longest time that appended records wait to be synced to the device.",
        at_least(0),
        _from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    ConfigDef(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas that fetch no faster than follower.replication.throttled.rate: `*`, or PARTITION:NODE,...",
        _throttled_replicas,
    ),
    ConfigDef(
        "index.interval.bytes",
        _INT,
        "4096",
        "Bytes of records for each entry of the offset index: fewer make look-ups exact and indexes large.",
        at_least(0),
        _from("log.index.interval.bytes"),
    ),
    ConfigDef(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas that are sent no faster than leader.replication.throttled.rate: `*`, or PARTITION:NODE,...",
        _throttled_replicas,
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        _LONG,
        _NEVER,
        "Longest time before a record of a compacted topic can be compacted away.",
        at_least(1),
        _from("log.cleaner.max.compaction.lag.ms"),
    ),
    ConfigDef(
        "max.message.bytes",
        _INT,
        "1048588",
        "Largest batch that is accepted, in bytes as it is sent, compressed or not.",
        at_least(0),
        _from("message.max.bytes"),
    ),
    ConfigDef(
        "message.timestamp.after.max.ms",
        _LONG,
        "3600000",
        "How far ahead of the broker's clock a record's timestamp may be, with CreateTime.",
        at_least(0),
        _from("log.message.timestamp.after.max.ms"),
    ),
    ConfigDef(
        "message.timestamp.before.max.ms",
        _LONG,
        _NEVER,
        "How far behind the broker's clock a record's timestamp may be, with CreateTime.",
        at_least(0),
        _from("log.message.timestamp.before.max.ms"),
    ),
    ConfigDef(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "Whose time records carry: the producer's (`CreateTime`) or the broker's at append (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        _from("log.message.timestamp.type"),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        "Share of uncompacted bytes at which compaction of a compacted topic starts.",
        between(0, 1),
        _from("log.cleaner.min.cleanable.ratio"),
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        "Shortest time before a record of a compacted topic can be compacted away.",
        at_least(0),
        _from("log.cleaner.min.compaction.lag.ms"),
    ),
    ConfigDef(
        "min.insync.replicas",
        _INT,
        "1",
        "Replicas that must be in sync for a produce with acks=all to be accepted.",
        at_least(1),
        _from("min.insync.replicas"),
    ),
    ConfigDef(
        "retention.bytes",
        _LONG,
        "-1",
        "Size over which the oldest segments of a partition are dropped; -1 is without bound.",
        None,
        _from("log.retention.bytes"),
    ),
    ConfigDef(
        "retention.ms",
        _LONG,
        "604800000",
        "Age over which the oldest segments of a partition are dropped; -1 is without bound.",
        at_least(-1),
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    ),
    ConfigDef(
        "segment.bytes",
        _INT,
        "1073741824",
        "Size at which a new segment file is begun.",
        at_least(14),
        _from("log.segment.bytes"),
    ),
    ConfigDef(
        "segment.index.bytes",
        _INT,
        "10485760",
        "Largest size of a segment's offset index; a full index begins a new segment.",
        at_least(4),
        _from("log.index.size.max.bytes"),
    ),
    ConfigDef(
        "segment.jitter.ms",
        _LONG,
        "0",
        "At most so much is taken off segment.ms by chance, so that partitions do not roll all at once.",
        at_least(0),
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    ),
    ConfigDef(
        "segment.ms",
        _LONG,
        "604800000",
        "Age at which a new segment file is begun even if the last is not full.",
        at_least(1),
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "Whether a replica that is not in sync may become leader when no other can, losing records.",
        None,
        _from("unclean.leader.election.enable"),
    ),
)


def _without_effect(
    name: str, kind: ConfigType, default: str, documentation: str, check: Check | None = None, *synonyms: str
) -> ConfigDef:
    return ConfigDef(name, kind, default, documentation, check, _from(*synonyms), has_effect=False)


_WITHOUT_EFFECT: Final = (
    _without_effect(
        "compression.gzip.level",
        _INT,
        "-1",
        "Level of the gzip codec; -1 is the codec's own.",
        _gzip_level,
        "compression.gzip.level",
    ),
    _without_effect(
        "compression.lz4.level", _INT, "9", "Level of the lz4 codec.", between(1, 17), "compression.lz4.level"
    ),
    _without_effect(
        "compression.zstd.level",
        _INT,
        "3",
        "Level of the zstd codec.",
        between(-131072, 22),
        "compression.zstd.level",
    ),
    _without_effect(
        "local.retention.bytes",
        _LONG,
        "-2",
        "Size kept on local disks of a tiered topic; -2: as retention.bytes.",
        at_least(-2),
        "log.local.retention.bytes",
    ),
    _without_effect(
        "local.retention.ms",
        _LONG,
        "-2",
        "Age kept on local disks of a tiered topic; -2: as retention.ms.",
        at_least(-2),
        "log.local.retention.ms",
    ),
    _without_effect(
        "preallocate",
        _BOOLEAN,
        "false",
        "Whether segment files take their full size at once.",
        None,
        "log.preallocate",
    ),
    _without_effect("remote.log.copy.disable", _BOOLEAN, "false", "Stop copying segments of a tiered topic."),
    _without_effect("remote.log.delete.on.disable", _BOOLEAN, "false", "Delete remote segments when tiering ends."),
    _without_effect("remote.storage.enable", _BOOLEAN, "false", "Whether old segments move to remote storage."),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigDef]] = table_of(_WITH_EFFECT + _WITHOUT_EFFECT)
"""Every topic config by name, in alphabetical order."""
