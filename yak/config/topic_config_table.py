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


def _gzip_level(name: str, value: Value) -> None:
    if value != -1:
        between(1, 9)(name, value)


_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled_replicas(_name: str, value: Value) -> None:
    """Kafka's ThrottledReplicaListValidator."""
    assert isinstance(value, list)
    if value != ["*"] and not all(_THROTTLED_REPLICA.fullmatch(item) for item in value if item):
        raise ValueError("use * or a list of PARTITION:BROKER")


_WITH_EFFECT: Final = (
    ConfigDef(
        "cleanup.policy",
        _LIST,
        "delete",
        "What happens to old segments: `delete` drops them by age and size, `compact` keeps the last record of each key, and "
        "`compact,delete` does both. An empty list keeps all segments.",
        subset_of("delete", "compact", may_be_empty=True),
        _from("log.cleanup.policy"),
    ),
    ConfigDef(
        "compression.type",
        _STRING,
        "producer",
        "The compression of stored batches: the producer's (`producer`), none, or one codec.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        _from("compression.type"),
    ),
    ConfigDef(
        "delete.retention.ms",
        _LONG,
        "86400000",
        "How long compaction keeps a tombstone, from the first compaction that finds it.",
        at_least(0),
        _from("log.cleaner.delete.retention.ms"),
    ),
    ConfigDef(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        "How long the files of a deleted segment stay on disk, renamed, so that active reads can finish.",
        at_least(0),
        _from("log.segment.delete.delay.ms"),
    ),
    ConfigDef(
        "flush.messages",
        _LONG,
        _NEVER,
        "Records appended to a partition before it is synced to disk. 1: every record is synced before it is acknowledged.",
        at_least(1),
        _from("log.flush.interval.messages"),
    ),
    ConfigDef(
        "flush.ms",
        _LONG,
        _NEVER,
        "Longest time before appended records are synced to disk.",
        at_least(0),
        _from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    ConfigDef(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas throttled by follower.replication.throttled.rate: `*`, or PARTITION:BROKER,...",
        _throttled_replicas,
    ),
    ConfigDef(
        "index.interval.bytes",
        _INT,
        "4096",
        "Bytes of records per entry of the offset index. A small value makes lookups faster and indexes larger.",
        at_least(0),
        _from("log.index.interval.bytes"),
    ),
    ConfigDef(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        "Replicas throttled by leader.replication.throttled.rate: `*`, or PARTITION:BROKER,...",
        _throttled_replicas,
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        _LONG,
        _NEVER,
        "Longest time before a record of a compacted topic becomes eligible for compaction.",
        at_least(1),
        _from("log.cleaner.max.compaction.lag.ms"),
    ),
    ConfigDef(
        "max.message.bytes",
        _INT,
        "1048588",
        "Largest accepted record batch in bytes, after compression.",
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
        "The timestamp of records: the producer's (`CreateTime`) or the broker's at append (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        _from("log.message.timestamp.type"),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        "Ratio of dirty (uncompacted) bytes at which compaction starts.",
        between(0, 1),
        _from("log.cleaner.min.cleanable.ratio"),
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        "Shortest time before a record of a compacted topic becomes eligible for compaction.",
        at_least(0),
        _from("log.cleaner.min.compaction.lag.ms"),
    ),
    ConfigDef(
        "min.insync.replicas",
        _INT,
        "1",
        "Minimum size of the ISR for a produce with acks=all.",
        at_least(1),
        _from("min.insync.replicas"),
    ),
    ConfigDef(
        "retention.bytes",
        _LONG,
        "-1",
        "Size of a partition above which its oldest segments are deleted; -1: no limit.",
        None,
        _from("log.retention.bytes"),
    ),
    ConfigDef(
        "retention.ms",
        _LONG,
        "604800000",
        "Age above which the oldest segments of a partition are deleted; -1: no limit.",
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
        "Size at which the log rolls to a new segment.",
        at_least(14),
        _from("log.segment.bytes"),
    ),
    ConfigDef(
        "segment.index.bytes",
        _INT,
        "10485760",
        "Largest size of a segment's offset index; a full index rolls the log.",
        at_least(4),
        _from("log.index.size.max.bytes"),
    ),
    ConfigDef(
        "segment.jitter.ms",
        _LONG,
        "0",
        "Largest random reduction of segment.ms, so that partitions do not roll at the same time.",
        at_least(0),
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    ),
    ConfigDef(
        "segment.ms",
        _LONG,
        "604800000",
        "Age at which the log rolls even if the active segment is not full.",
        at_least(1),
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        "Whether a replica outside the ISR may be elected leader if no other can. Committed records may be lost.",
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
        "compression.zstd.level", _INT, "3", "Level of the zstd codec.", between(-131072, 22), "compression.zstd.level"
    ),
    _without_effect(
        "errors.deadletterqueue.group.enable",
        _BOOLEAN,
        "false",
        "Whether share groups may use it as dead-letter queue.",
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
        "max.decompressed.message.bytes",
        _INT,
        "2147483639",
        "Largest size of a decompressed record in bytes.",
        between(1, 2147483639),
        "max.decompressed.message.bytes",
    ),
    _without_effect(
        "preallocate", _BOOLEAN, "false", "Whether segment files take their full size at once.", None, "log.preallocate"
    ),
    _without_effect(
        "remote.copy.lag.bytes",
        _LONG,
        "-1",
        "Newer bytes after which a segment of a tiered topic is copied; -1: as local.retention.bytes.",
        at_least(-1),
        "log.remote.copy.lag.bytes",
    ),
    _without_effect(
        "remote.copy.lag.ms",
        _LONG,
        "0",
        "Age at which a segment of a tiered topic is copied; -1: as local.retention.ms.",
        at_least(-1),
        "log.remote.copy.lag.ms",
    ),
    _without_effect("remote.log.copy.disable", _BOOLEAN, "false", "Stop copying segments of a tiered topic."),
    _without_effect("remote.log.delete.on.disable", _BOOLEAN, "false", "Delete remote segments when tiering ends."),
    _without_effect("remote.storage.enable", _BOOLEAN, "false", "Whether old segments move to remote storage."),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigDef]] = table_of(_WITH_EFFECT + _WITHOUT_EFFECT)
"""Every topic config by name, in alphabetical order."""
