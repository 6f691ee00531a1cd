"""File and folder names of a log directory, as Kafka spells them (LogFileUtils.java, UnifiedLog's directory names)."""

import uuid

from yak.ids import Offset, TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETE_FOLDER_SUFFIX = "-delete"
STRAY_FOLDER_SUFFIX = "-stray"
FUTURE_FOLDER_SUFFIX = "-future"
UNCREATED_SUFFIX = ".uncreated"
LOCAL_CLUSTER_STATE = "cluster.json"
"""A directory with this file is that of `yak up`, whose brokers have their own directories inside."""
OWN_FOLDER_PREFIX = "__yak_"
"""Folders of other parts of the broker in a log directory, such as its metadata records.

The folder of a topic of such a name ends with the number of its partition, which these do not."""

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
NEW_LOG_MARK = "fresh.yak"
"""In a partition's folder: the checkpoints may still hold offsets of an earlier log of its name. YAK's, not Kafka's.

Empty in the folder of a new log, and of one that a full resync began below its log start offset. That of a log that moved
here holds its offsets, and seals the copy."""
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOG_SIZES = "log-sizes.yak"
"""In a log directory: the bytes of each log at the last clean stop. YAK's, not Kafka's."""
BOOT_MARK = "boot.yak"
"""In a log directory: the machine's boot id when it was last used. YAK's, not Kafka's."""
META_PROPERTIES = "meta.properties"
LOCK = ".lock"

_NAME_MAX = 255
_OFFSET_DIGITS = 20


def offset_name(offset: Offset) -> str:
    """An offset as file names contain it: 20 digits."""
    return f"{offset:020d}"


def parse_offset(name: str, suffix: str) -> Offset | None:
    """The base offset in `<20 digits><suffix>`, or None when the name is not of that form."""
    digits = name[: -len(suffix)]
    if not name.endswith(suffix) or len(digits) != _OFFSET_DIGITS or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits)


def parse_partition_folder(name: str) -> TopicPartition | None:
    """The partition that a folder `<topic>-<partition>` holds, or None when the name is not of that form."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    if len(partition) > 10 or (len(partition) > 1 and partition[0] == "0"):
        return None
    return TopicPartition(topic, int(partition))


def uncreated_name(topic_id: uuid.UUID, partition: int) -> str:
    """The mark, in a log directory, of a partition that has never had a log here: the disk was full. YAK's, not Kafka's."""
    return f"{topic_id.hex}-{partition}{UNCREATED_SUFFIX}"


def set_aside_name(topic_partition: TopicPartition, unique: uuid.UUID, suffix: str) -> str:
    """`<topic>-<partition>.<hex><suffix>`; the topic is shortened so that the name stays within 255 bytes."""
    tail = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    return topic_partition.topic[: _NAME_MAX - len(tail)] + tail


def is_set_aside(name: str) -> bool:
    """Whether a delete, a stray check or a move between directories renamed this folder."""
    return name.endswith((DELETE_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, FUTURE_FOLDER_SUFFIX))
