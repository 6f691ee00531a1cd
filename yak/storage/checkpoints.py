"""The small text files of a log directory: parse and format, byte for byte as Kafka does; no I/O here.

Sources: OffsetCheckpointFile.java, LeaderEpochCheckpointFile.java, PartitionMetadata.java,
CleanShutdownFileHandler.java, MetaProperties.java, and Uuid.java for ids in text (URL-safe base64, 22 characters).
"""

import base64
import binascii
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from yak.errors import StartRefused
from yak.ids import BrokerEpoch, LeaderEpoch, Offset, TopicPartition

_VERSION = "0"


class BadCheckpoint(ValueError):
    """The bytes are not a valid file of this kind."""


class NewerVersion(BadCheckpoint):
    """A newer YAK, or Kafka, wrote the file: what it means is not known, so a start must not go on without it."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"version {found} is newer than {known}, the newest this YAK reads")

    def refusal(self, path: str) -> StartRefused:
        """The error that ends the start."""
        return StartRefused(
            "data-dir-version",
            f"{path} cannot be read: {self}",
            why="a newer program wrote it; nothing was changed",
            try_=("start the broker with the newer YAK again", "name another, empty directory with --data-dir"),
        )


def _check_version(text: str, of: str = "") -> None:
    """Raises NewerVersion, BadCheckpoint."""
    if text.isascii() and text.isdigit() and int(text) > int(_VERSION):
        raise NewerVersion(int(text), int(_VERSION))
    if text != _VERSION:
        raise BadCheckpoint(f"version {text}{of} is unknown")


def check_checkpoint_version(data: bytes) -> None:
    """Raises NewerVersion for a checkpoint of offsets or epochs that is newer, without reading all of it."""
    first_line = data.split(b"\n", 1)[0].strip()
    if first_line.isdigit() and int(first_line) > int(_VERSION):
        raise NewerVersion(int(first_line), int(_VERSION))


def id_to_text(value: uuid.UUID) -> str:
    """An id as Kafka's 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def id_from_text(text: str) -> uuid.UUID:
    """The id in Kafka's 22 characters. Raises BadCheckpoint."""
    try:
        return uuid.UUID(bytes=base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadCheckpoint(f"{text!r} is not an id of 22 base64 characters") from error


def _counted_lines(data: bytes) -> list[str]:
    try:
        lines = data.decode("utf-8").splitlines()
        version, count = lines[0].strip(), int(lines[1])
    except (UnicodeDecodeError, IndexError, ValueError) as error:
        raise BadCheckpoint("no version and count in the first two lines") from error
    _check_version(version)
    body = [line for line in lines[2:] if line]
    if len(body) != count:
        raise BadCheckpoint(f"the header says {count} entries, the file has {len(body)}")
    return body


def format_offsets(offsets: Iterable[tuple[TopicPartition, Offset]]) -> bytes:
    """A checkpoint of recovery points, log start offsets, high watermarks or cleaner offsets of one log directory."""
    lines = [f"{partition.topic} {partition.partition} {offset}\n" for partition, offset in offsets]
    return f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, Offset]:
    """The inverse of `format_offsets`. Raises BadCheckpoint, also for a negative offset and a repeated partition."""
    result: dict[TopicPartition, Offset] = {}
    for line in _counted_lines(data):
        try:
            topic, partition, offset = line.split()
            topic_partition, value = TopicPartition(topic, int(partition)), int(offset)
        except ValueError as error:
            raise BadCheckpoint(f"bad line {line!r}") from error
        if value < 0 or line != f"{topic} {topic_partition.partition} {value}":
            raise BadCheckpoint(f"bad line {line!r}")
        if topic_partition in result:
            raise BadCheckpoint(f"{topic_partition} has two entries")
        result[topic_partition] = value
    return result


def format_epochs(entries: Sequence[tuple[LeaderEpoch, Offset]]) -> bytes:
    """A checkpoint of leader epochs and their start offsets."""
    lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in entries]
    return f"{_VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def parse_epochs(data: bytes) -> list[tuple[LeaderEpoch, Offset]]:
    """The inverse of `format_epochs`. Raises BadCheckpoint, also when the epochs do not ascend."""
    entries: list[tuple[LeaderEpoch, Offset]] = []
    for line in _counted_lines(data):
        try:
            epoch, start_offset = map(int, line.split())
        except ValueError as error:
            raise BadCheckpoint(f"bad line {line!r}") from error
        if entries and (epoch <= entries[-1][0] or start_offset < entries[-1][1]):
            raise BadCheckpoint("the epochs do not increase")
        entries.append((epoch, start_offset))
    return entries


def format_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The content of `partition.metadata`, which holds the folder's topic id."""
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}".encode()


def parse_partition_metadata(data: bytes) -> uuid.UUID:
    """The topic id in `partition.metadata`. Raises BadCheckpoint."""
    fields = {
        key.strip(): value.strip()
        for key, colon, value in (line.partition(":") for line in data.decode("utf-8", "replace").splitlines())
        if colon
    }
    _check_version(fields.get("version", "?"), " of partition.metadata")
    return id_from_text(fields.get("topic_id", ""))


class MovedLog(NamedTuple):
    """What the `NEW_LOG_MARK` of a log that moved to this log directory, or lost its end, holds until a checkpoint has it."""

    partition: str
    """The name of the log's folder."""
    recovery_point: Offset
    log_start_offset: Offset
    high_watermark: Offset
    cleaned_offset: Offset | None


def format_moved(moved: MovedLog) -> bytes:
    """The content of the mark."""
    return json.dumps(moved).encode()


def parse_moved(data: bytes) -> MovedLog | None:
    """The content of a mark; None for an empty one, that of a new log. Raises BadCheckpoint."""
    if not data:
        return None
    try:
        return MovedLog(*json.loads(data))
    except (ValueError, TypeError) as error:
        raise BadCheckpoint("the mark of a moved log cannot be read") from error


def format_clean_shutdown(broker_epoch: BrokerEpoch) -> bytes:
    """The clean shutdown mark, with the broker epoch of the stop."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(data: bytes) -> BrokerEpoch:
    """The broker epoch in the mark; -1 when it has no readable one (the stop still counts as clean).

    Raises NewerVersion.
    """
    try:
        fields = json.loads(data)
        epoch, version = fields["brokerEpoch"], fields.get("version")
    except (ValueError, KeyError, TypeError, AttributeError):
        return -1
    if isinstance(version, int) and version > int(_VERSION):
        raise NewerVersion(version, int(_VERSION))
    return epoch if isinstance(epoch, int) else -1


def format_properties(properties: Sequence[tuple[str, str]]) -> bytes:
    """A Java properties file of plain ASCII keys and values."""
    return "".join(["#\n", *(f"{key}={value}\n" for key, value in properties)]).encode("ascii")


def parse_properties(data: bytes) -> dict[str, str]:
    """Keys and values of a Java properties file, as far as `meta.properties` uses that format."""
    result: dict[str, str] = {}
    for line in data.decode("latin-1").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, _, value = stripped.partition("=")
        result[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return result
