"""The table of Kafka 4's topic configs. Names, types, defaults and rules: Kafka's LogConfig.java and TopicConfig.java."""

import re
from collections.abc import Callable, Mapping
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
    define,
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
    define(
        "cleanup.policy",
        _LIST,
        "delete",
        subset_of("delete", "compact", may_be_empty=True),
        _from("log.cleanup.policy"),
    )(
        "What happens to old segments: `delete` drops them by age and size, `compact` keeps the last record of each key, and "
        "`compact,delete` does both. An empty list keeps all segments."
    ),
    define(
        "compression.type",
        _STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        _from("compression.type"),
    )("The compression of stored batches: the producer's (`producer`), none, or one codec."),
    define("delete.retention.ms", _LONG, "86400000", at_least(0), _from("log.cleaner.delete.retention.ms"))(
        "How long compaction keeps a tombstone, from the first compaction that finds it."
    ),
    define("file.delete.delay.ms", _LONG, "60000", at_least(0), _from("log.segment.delete.delay.ms"))(
        "How long the files of a deleted segment stay on disk, renamed, so that active reads can finish."
    ),
    define("flush.messages", _LONG, _NEVER, at_least(1), _from("log.flush.interval.messages"))(
        "Records appended to a partition before it is synced to disk. 1: every record is synced before it is acknowledged."
    ),
    define("flush.ms", _LONG, _NEVER, at_least(0), _from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"))(
        "Longest time before appended records are synced to disk."
    ),
    define("follower.replication.throttled.replicas", _LIST, "", _throttled_replicas)(
        "Replicas throttled by follower.replication.throttled.rate: `*`, or PARTITION:BROKER,..."
    ),
    define("index.interval.bytes", _INT, "4096", at_least(0), _from("log.index.interval.bytes"))(
        "Bytes of records per entry of the offset index. A small value makes lookups faster and indexes larger."
    ),
    define("leader.replication.throttled.replicas", _LIST, "", _throttled_replicas)(
        "Leaders that throttle by leader.replication.throttled.rate: `*`, or PARTITION:BROKER,..."
    ),
    define("max.compaction.lag.ms", _LONG, _NEVER, at_least(1), _from("log.cleaner.max.compaction.lag.ms"))(
        "Longest time before a record of a compacted topic becomes eligible for compaction."
    ),
    define("max.message.bytes", _INT, "1048588", at_least(0), _from("message.max.bytes"))(
        "Largest accepted record batch in bytes, after compression."
    ),
    define(
        "message.timestamp.after.max.ms", _LONG, "3600000", at_least(0), _from("log.message.timestamp.after.max.ms")
    )("How far ahead of the broker's clock a record's timestamp may be, with CreateTime."),
    define("message.timestamp.before.max.ms", _LONG, _NEVER, at_least(0), _from("log.message.timestamp.before.max.ms"))(
        "How far behind the broker's clock a record's timestamp may be, with CreateTime."
    ),
    define(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        _from("log.message.timestamp.type"),
    )("The timestamp of records: the producer's (`CreateTime`) or the broker's at append (`LogAppendTime`)."),
    define("min.cleanable.dirty.ratio", _DOUBLE, "0.5", between(0, 1), _from("log.cleaner.min.cleanable.ratio"))(
        "Ratio of dirty (uncompacted) bytes at which compaction starts."
    ),
    define("min.compaction.lag.ms", _LONG, "0", at_least(0), _from("log.cleaner.min.compaction.lag.ms"))(
        "Shortest time before a record of a compacted topic becomes eligible for compaction."
    ),
    define("min.insync.replicas", _INT, "1", at_least(1), _from("min.insync.replicas"))(
        "Minimum size of the ISR for a produce with acks=all."
    ),
    define("retention.bytes", _LONG, "-1", None, _from("log.retention.bytes"))(
        "Size of a partition above which its oldest segments are deleted; -1: no limit."
    ),
    define(
        "retention.ms",
        _LONG,
        "604800000",
        at_least(-1),
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", _MINUTE_MS),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    )("Age above which the oldest segments of a partition are deleted; -1: no limit."),
    define("segment.bytes", _INT, "1073741824", at_least(14), _from("log.segment.bytes"))(
        "Size at which the log rolls to a new segment."
    ),
    define("segment.index.bytes", _INT, "10485760", at_least(4), _from("log.index.size.max.bytes"))(
        "Largest size of a segment's offset index; a full index rolls the log."
    ),
    define(
        "segment.jitter.ms",
        _LONG,
        "0",
        at_least(0),
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    )("Largest random reduction of segment.ms, so that partitions do not roll at the same time."),
    define(
        "segment.ms", _LONG, "604800000", at_least(1), (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS))
    )("Age at which the log rolls even if the active segment is not full."),
    define("unclean.leader.election.enable", _BOOLEAN, "false", None, _from("unclean.leader.election.enable"))(
        "Whether a replica outside the ISR may be elected leader if no other can. Committed records may be lost."
    ),
)


def _without_effect(
    name: str, kind: ConfigType, default: str, check: Check | None = None, *synonyms: str
) -> Callable[[str], ConfigDef]:
    return define(name, kind, default, check, _from(*synonyms), has_effect=False)


_WITHOUT_EFFECT: Final = (
    _without_effect("compression.gzip.level", _INT, "-1", _gzip_level, "compression.gzip.level")(
        "Level of the gzip codec; -1 is the codec's own."
    ),
    _without_effect("compression.lz4.level", _INT, "9", between(1, 17), "compression.lz4.level")(
        "Level of the lz4 codec."
    ),
    _without_effect("compression.zstd.level", _INT, "3", between(-131072, 22), "compression.zstd.level")(
        "Level of the zstd codec."
    ),
    _without_effect("errors.deadletterqueue.group.enable", _BOOLEAN, "false")(
        "Whether share groups may use it as dead-letter queue."
    ),
    _without_effect("local.retention.bytes", _LONG, "-2", at_least(-2), "log.local.retention.bytes")(
        "Size kept on local disks of a tiered topic; -2: as retention.bytes."
    ),
    _without_effect("local.retention.ms", _LONG, "-2", at_least(-2), "log.local.retention.ms")(
        "Age kept on local disks of a tiered topic; -2: as retention.ms."
    ),
    _without_effect(
        "max.decompressed.message.bytes", _INT, "2147483639", between(1, 2147483639), "max.decompressed.message.bytes"
    )("Largest size of a decompressed record in bytes."),
    _without_effect("preallocate", _BOOLEAN, "false", None, "log.preallocate")(
        "Whether segment files take their full size at once."
    ),
    _without_effect("remote.copy.lag.bytes", _LONG, "-1", at_least(-1), "log.remote.copy.lag.bytes")(
        "Newer bytes after which a segment of a tiered topic is copied; -1: as local.retention.bytes."
    ),
    _without_effect("remote.copy.lag.ms", _LONG, "0", at_least(-1), "log.remote.copy.lag.ms")(
        "Age at which a segment of a tiered topic is copied; -1: as local.retention.ms."
    ),
    _without_effect("remote.log.copy.disable", _BOOLEAN, "false")("Stop copying segments of a tiered topic."),
    _without_effect("remote.log.delete.on.disable", _BOOLEAN, "false")("Delete remote segments when tiering ends."),
    _without_effect("remote.storage.enable", _BOOLEAN, "false")("Whether old segments move to remote storage."),
)

TOPIC_CONFIGS: Final[Mapping[str, ConfigDef]] = table_of(_WITH_EFFECT + _WITHOUT_EFFECT)
"""Every topic config by name, in alphabetical order."""
