"""This broker's copy of the metadata log, on its own disk.

Records are synced here before the broker acts on them. So after a crash the broker knows all that it acted on, and it
notices a metadata store that was rolled back. The directory holds `<offset>.log` files, named after the first record
they may hold, and at most one `snapshot`, with the tail of the hash chain behind it. Each entry is framed as length and
CRC-32C (both big endian, 4 bytes) and JSON.

Past `MAX_RECORDS` or `MAX_BYTES` the driver runs a `Compaction`, which writes the image as a snapshot and removes the
files it covers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crc32c import crc32c

from yak.cluster.hash_chain import HashChainTail
from yak.cluster.image import ChainBroken, Image
from yak.cluster.payload import BadRecord
from yak.cluster.snapshot import json_pieces, write_snapshot
from yak.ids import MetadataOffset
from yak.ports.disk import Disk, File
from yak.ports.metadata_store import TailedRecord

MAX_RECORDS = 5_000
"""Records after the snapshot; replaying that many takes well under a second."""
MAX_BYTES = 8 * 1024 * 1024
_FRAME_HEADER_BYTES = 8
_SNAPSHOT = "snapshot"
_HASH_CHAIN = "HashChain"
"""The kind of the entry behind the snapshot: the tail of the hash chain up to it."""
_SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class AppendSync:
    """A plan to make appended records durable; it shares the open file with the step, which only appends to it."""

    file: File
    new_in: str | None
    """The directory of a file that is new."""

    def run(self, disk: Disk) -> None:
        """Sync the file, and the name of a new one. Raises OSError."""
        self.file.sync()
        if self.new_in is not None:
            disk.sync_directory(self.new_in)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A plan to write the image, which is immutable, as a snapshot, and to remove the files that it covers."""

    path: str
    image: Image
    hash_chain: str
    """The tail of the hash chain: without it, a restore could not compare this history with that of a broker behind it."""
    old_files: tuple[str, ...]

    def run(self, disk: Disk) -> None:
        """Write the snapshot first. Raises OSError."""
        record = write_snapshot(self.image)
        tail = replace(record, kind=_HASH_CHAIN, payload={"tail": self.hash_chain})
        disk.write_file(self.path, _frame("".join(json_pieces(_entry(record)))) + _frame(json.dumps(_entry(tail))))
        for path in self.old_files:
            disk.remove(path)


class ImageLog:
    """The open log. `append` runs in the step; the plans that it returns run in threads, in order."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Private: use `open`."""
        self._disk = disk
        self.directory = directory
        self._file: File | None = None
        self._old_files: list[str] = []
        self.is_compacting = False
        """Whether a plan of `compaction` is under way: a second one must not run beside it, which could end first."""
        self.records_max: int | None = None
        """Replaces `MAX_RECORDS`."""
        self._records = 0
        self._bytes = 0
        self._last: MetadataOffset = 0
        self._directory_unsynced = False
        self.hash_chain = HashChainTail()
        """The hash chain tail of the newest records."""
        self.truncated_bytes = 0
        """Bytes of an incomplete tail that `open` truncated."""

    @classmethod
    def open(cls, disk: Disk, directory: str) -> tuple["ImageLog", Image]:
        """Read all of the log; may wait for the device. An incomplete tail or a damaged entry is truncated with all
        behind it.

        Raises OSError, and BadRecord when a whole entry is unreadable (written by a newer version).
        """
        log = cls(disk, directory)
        disk.make_directory(directory)
        image = log._read_snapshot()
        for name in sorted(name for name in disk.names(directory) if name.endswith(_SUFFIX)):
            image = log._read_log(f"{directory}/{name}", image)
        if log._file is not None:
            # the process before may have been killed between an append and its sync
            AppendSync(log._file, directory).run(disk)
        log._last = image.offset
        return log, image

    def append(self, records: Sequence[TailedRecord]) -> AppendSync:
        """Append records; returns the plan that makes them durable. Raises OSError."""
        if self._file is None:
            self._file = self._disk.open(f"{self.directory}/{self._last + 1:020d}{_SUFFIX}", create=True)
            self._directory_unsynced = True
        frames = [_frame(json.dumps(_entry(record), separators=(",", ":"))) for record in records]
        self._bytes += self._file.append(frames)
        self._records += len(records)
        self._last = records[-1].offset
        self.hash_chain.extend(records)
        is_new, self._directory_unsynced = self._directory_unsynced, False
        return AppendSync(self._file, self.directory if is_new else None)

    def compaction(self, image: Image) -> Compaction | None:
        """The plan to replace a long log by a snapshot; None while it is short, or an earlier plan is under way.

        `image` must hold all of the log. `compacted` must follow.
        """
        is_short = self._records < (self.records_max or MAX_RECORDS) and self._bytes < MAX_BYTES
        if is_short or self.is_compacting or image.offset != self._last:
            return None
        if self._file is not None:
            self._old_files.append(self._file.path)
            self._file.close()
            self._file = None
        old_files, self._old_files = self._old_files, []
        self._records = self._bytes = 0
        self.is_compacting = True
        return Compaction(f"{self.directory}/{_SNAPSHOT}", image, self.hash_chain.to_text(), tuple(old_files))

    def compacted(self, plan: Compaction, error: BaseException | None = None) -> None:
        """A plan ended; if it failed, the next one removes its old files too."""
        self.is_compacting = False
        if error is not None:
            self._old_files += plan.old_files

    def _read_snapshot(self) -> Image:
        path = f"{self.directory}/{_SNAPSHOT}"
        if not self._disk.exists(path):
            return Image()
        entries, good_bytes = _entries(self._disk.read_file(path))
        if not entries or good_bytes == 0:
            raise BadRecord(f"{path}: the checksum does not match")
        self.hash_chain.extend(entries[:1])
        for tail in entries[1:2]:  # an older YAK wrote none
            self.hash_chain = HashChainTail.from_text(str(tail.payload["tail"]))
        try:
            return Image().apply(entries[0])
        except BadRecord as error:
            raise BadRecord(f"{path}: {error}") from error

    def _read_log(self, path: str, image: Image) -> Image:
        file = self._disk.open(path)
        data = _read_all(file)
        entries, good_bytes = _entries(data)
        newer = [entry for entry in entries if entry.offset > image.offset]
        try:
            image = image.apply_all(newer)[0]
        except (ChainBroken, BadRecord) as error:
            raise BadRecord(f"{path}: {error}") from error
        self.hash_chain.extend(newer)
        if good_bytes < len(data):
            self.truncated_bytes += len(data) - good_bytes
            file.truncate(good_bytes)
        if self._file is not None:
            self._old_files.append(self._file.path)
            self._file.close()
        self._file = file
        self._records += len(entries)
        self._bytes += good_bytes
        return image


def _read_all(file: File) -> bytes:
    parts = []
    position = 0
    while part := file.read(1 << 20, position):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def _entry(record: TailedRecord) -> dict[str, object]:
    return {
        "offset": record.offset,
        "hash": record.chain_hash,
        "previous_hash": record.previous_hash,
        "kind": str(record.kind),
        "timestamp_ms": record.timestamp_ms,
        "payload": record.payload,
    }


def _frame(text: str) -> bytes:
    body = text.encode()
    return len(body).to_bytes(4, "big") + crc32c(body).to_bytes(4, "big") + body


def _entries(data: bytes) -> tuple[list[TailedRecord], int]:
    """The whole entries at the beginning, and their size in bytes."""
    records = []
    position = 0
    while position + _FRAME_HEADER_BYTES <= len(data):
        start = position + _FRAME_HEADER_BYTES
        end = start + int.from_bytes(data[position : position + 4], "big")
        body = data[start:end]
        # A power loss leaves zeros for bytes that did not reach the device, and the checksum of nothing is zero.
        if not body or end > len(data) or crc32c(body) != int.from_bytes(data[position + 4 : start], "big"):
            break
        entry = json.loads(body)
        records.append(
            TailedRecord(
                offset=entry["offset"],
                chain_hash=entry["hash"],
                kind=entry["kind"],
                timestamp_ms=entry["timestamp_ms"],
                payload=entry["payload"],
                previous_hash=entry["previous_hash"],
            )
        )
        position = end
    return records, position


def read_entries(data: bytes) -> list[TailedRecord]:
    """The whole entries at the beginning of a file's bytes, for tools: nothing is truncated or repaired."""
    return _entries(data)[0]
