"""Damage to one copy of a partition: a flipped bit in a file, a write that landed at another place, or a lost end.

Only detectable damage: by a batch's checksum, by the neighbouring offsets and epochs, by an index entry, or by a
snapshot's own checksum. `docs/reliability.md` lists undetectable damage under "What is not promised".
"""

from __future__ import annotations

from typing import Final, NamedTuple

from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import FilePosition, Offset
from yak.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    compute_crc,
    iterate_headers,
    read_header,
)
from yak.sim.compacted_records import COMPACTED
from yak.sim.disk import Content
from yak.sim.history import Copy
from yak.sim.seeded_random import SeededRandom
from yak.storage.checkpoints import parse_offsets
from yak.storage.log_directory import LOWERED_RECOVERY_POINTS
from yak.storage.names import LOG_SUFFIX, NEW_LOG_MARK, RECOVERY_POINT_CHECKPOINT
from yak.transactions.records import TRANSACTION_TOPIC

_CRC_AT: Final = 17
"""The checksum's position in a batch header: damage before it shows by other means."""
_COVERED_FROM: Final = 21
_LAST_OFFSET_DELTA: Final = range(23, 27)
"""Not damaged: the simulator's checks identify batches by their ends."""
_UNCOVERED_PERCENT: Final = 35
_FIELDS: Final = ("base offset", "base offset", "length", "epoch", "helper")
_EPOCH_BITS: Final = range(8, 32)
"""No run reaches such an epoch."""
_SECTORS: Final = (512, 4096)
_LOST_BATCHES_MAX: Final = 6
_TRIES: Final = 8


class Batch(NamedTuple):
    """A batch on a copy's disk."""

    path: str
    place: FilePosition
    header: BatchHeader

    def bytes_in(self, data: Buffer) -> bytes:
        """The bytes at its position in such a file."""
        return bytes(data[self.place : self.place + self.header.size_bytes])


def folder_of(copy: Copy) -> str:
    """The folder of the copy's files."""
    return f"{copy.node.directories[0]}/{copy.topic_partition}"


def files_of(copy: Copy) -> dict[str, Content]:
    """The copy's files by name, in order."""
    disk, folder = copy.node.disk, folder_of(copy)
    names = disk.names(folder) if disk.is_directory(folder) else []
    paths = [f"{folder}/{name}" for name in names]
    contents = disk.contents()
    return {path: contents[path] for path in paths if path in contents}


def batches_of(copy: Copy) -> list[Batch]:
    """Each batch on the copy's disk, as it is without damage."""
    return [
        Batch(path, place, header)
        for path, content in files_of(copy).items()
        if path.endswith(".log")
        for place, header in iterate_headers(content.sound())
    ]


def is_damaged(copy: Copy) -> bool:
    """Whether any file of the copy has wrong bytes, including those that compaction copied into a new segment."""
    files = files_of(copy)
    return any(content.wounds for content in files.values()) or any(
        compute_crc(files[path].sound(), place, header.size_bytes) != header.crc
        for path, place, header in batches_of(copy)
    )


class WrongCrc(NamedTuple):
    """A damaged batch whose own checksum shows the damage: the bytes before the checksum are right."""

    content: Content
    place: FilePosition
    header: BatchHeader


def wrong_crcs(copy: Copy) -> list[WrongCrc]:
    """The batches on the copy's disk with damage in their checksums or in the bytes that these cover."""
    found = []
    for path, content in files_of(copy).items():
        if not path.endswith(".log") or not content.wounds:
            continue
        sound, data = content.sound(), content.data
        for place, header in iterate_headers(sound):
            is_uncovered = sound[place : place + _CRC_AT] != data[place : place + _CRC_AT]
            if not is_uncovered and compute_crc(data, place, header.size_bytes) != read_header(data, place).crc:
                found.append(WrongCrc(content, place, header))
    return found


def flip(copy: Copy, rng: SeededRandom) -> str:
    """Flip a bit of a stored batch or of a helper file. Returns the place.

    Half of the time the batch is the newest. The result is empty if the damage would be undetectable together with
    earlier damage: a wrong length in an otherwise damaged batch is taken for a partial write.
    """
    batches = batches_of(copy)
    batch = batches[-1] if rng.chance(50) else rng.choice(batches)
    covered = [at for at in range(_COVERED_FROM, batch.header.size_bytes) if at not in _LAST_OFFSET_DELTA]
    path, position = batch.path, batch.place + rng.choice(covered)
    bit = rng.below(8)
    if rng.chance(_UNCOVERED_PERCENT):
        field = rng.choice(_FIELDS)
        found = _helper(copy, rng) if field == "helper" else _uncovered(copy, batch, batch == batches[-1], field, rng)
        path, position, bit = found or (path, position, bit)
    content = copy.node.disk.contents()[path]
    wrong = bytes((content.data[position] ^ (1 << bit),))
    if content.wounds and path.endswith(".log") and not _is_detectable(copy, path, position, wrong):
        return ""
    content.damage(position, wrong)
    return f"a bit flips in {path} at byte {position}"


def _uncovered(copy: Copy, batch: Batch, is_last: bool, field: str, rng: SeededRandom) -> tuple[str, int, int] | None:
    """(file, byte, bit) before the checksum's range of a batch; None if that damage would be undetectable."""
    if field == "base offset":
        bits = [
            bit
            for bit in range(64)
            if (1 << bit) > batch.header.last_offset_delta
            and not _may_be_gap(copy, batch, batch.header.base_offset ^ (1 << bit))
        ]
        end = 7
    elif field == "length":
        bits, end = list(range(32)), 11
    else:
        # the last epoch of a log is that of its last batch
        bits, end = [] if is_last else list(_EPOCH_BITS), 15
    if not bits:
        return None
    bit = rng.choice(bits)
    return batch.path, batch.place + end - bit // 8, bit % 8


def _may_be_gap(copy: Copy, batch: Batch, base_offset: Offset) -> bool:
    """Whether a batch at this offset is plausible, because compaction may have removed the records before it."""
    if not _is_compacted(copy):
        return False
    before = (each for each in batches_of(copy) if each.path == batch.path and each.place < batch.place)
    first = int(batch.path.rpartition("/")[2].partition(".")[0])
    return max((each.header.next_offset for each in before), default=first) <= base_offset < 1 << 63


def _helper(copy: Copy, rng: SeededRandom) -> tuple[str, int, int] | None:
    files = [
        (path, len(content.data))
        for path, content in files_of(copy).items()
        if path.endswith((".index", ".snapshot")) and content.data
    ]
    if not files:
        return None
    path, size = rng.choice(files)
    return path, rng.below(size), rng.below(8)


def misdirect(copy: Copy, source: Copy, rng: SeededRandom) -> str:
    """Put bytes of `source` over bytes of a log of `copy`. Returns the place, empty if nothing fits.

    They are either a whole batch at another batch's position, or a sector.
    """
    for _ in range(_TRIES):
        found = _batch_for_batch(copy, source, rng) if rng.chance(50) else _sector_for_sector(copy, source, rng)
        if found is None:
            continue
        taken, path, position, size = found
        foreign = bytes(copy.node.disk.contents()[taken[0]].data[taken[1] : taken[1] + size])
        victim = copy.node.disk.contents()[path]
        if _is_detectable(copy, path, position, foreign) and victim.damage(position, foreign):
            return f"{len(foreign)} bytes of {taken[0]} at byte {taken[1]} stand in {path} at byte {position}"
    return ""


def lose(source: Copy, rng: SeededRandom) -> str:
    """Put zeros at the intended place of a misdirected write. Returns the place."""
    batch = rng.choice(batches_of(source))
    sector = rng.choice(_SECTORS)
    begin = batch.place // sector * sector
    source.node.disk.contents()[batch.path].damage(begin, bytes(sector))
    return f"zeros stand in {batch.path} at byte {begin}"


def cut_synced_tail(copy: Copy, rng: SeededRandom) -> str:
    """While the broker does not run: its disk loses batches below the recovery point, and all behind them. Returns the place.

    The result is empty if no checkpoint says that the copy has such batches.
    """
    disk, folder = copy.node.disk, folder_of(copy)
    recovery_point = _recovery_point(copy)
    flushed = [batch for batch in batches_of(copy) if batch.header.next_offset <= recovery_point]
    if not flushed or disk.exists(f"{folder}/{NEW_LOG_MARK}"):
        return ""
    batch = rng.choice(flushed[-_LOST_BATCHES_MAX:])
    position = batch.place + (rng.below(batch.header.size_bytes) if rng.chance(50) else 0)
    files = files_of(copy)
    for path in [each for each in files if each.endswith(LOG_SUFFIX) and each > batch.path]:
        disk.remove(path)
    files[batch.path].truncate(position)
    files[batch.path].sync()
    disk.sync_file_system("/")
    return f"{batch.path} ends at byte {position}, below the recovery point {recovery_point}"


def _recovery_point(copy: Copy) -> Offset:
    """The recovery point that the next start goes by; 0 if the checkpoints have none."""
    disk, directory = copy.node.disk, copy.node.directories[0]
    paths = [f"{directory}/{name}" for name in (RECOVERY_POINT_CHECKPOINT, LOWERED_RECOVERY_POINTS)]
    known = [parse_offsets(disk.read_file(path)) for path in paths if disk.exists(path)]
    return min((points[copy.topic_partition] for points in known if copy.topic_partition in points), default=0)


def _batch_for_batch(
    copy: Copy, source: Copy, rng: SeededRandom
) -> tuple[tuple[str, FilePosition], str, FilePosition, int] | None:
    victim = rng.choice(batches_of(copy))
    others = [batch for batch in batches_of(source) if batch != victim]
    alike = [batch for batch in others if batch.header.size_bytes == victim.header.size_bytes]
    if not others:
        return None
    other = rng.choice(alike if alike and rng.chance(70) else others)
    return (other.path, other.place), victim.path, victim.place, other.header.size_bytes


def _sector_for_sector(
    copy: Copy, source: Copy, rng: SeededRandom
) -> tuple[tuple[str, FilePosition], str, FilePosition, int] | None:
    size = rng.choice(_SECTORS)
    logs = [path for path, content in files_of(copy).items() if path.endswith(".log") and content.data]
    files = [path for path, content in files_of(source).items() if content.data]
    if not logs or not files:
        return None
    path, taken = rng.choice(logs), rng.choice(files)
    contents = copy.node.disk.contents()
    position, begin = (rng.below(-(-len(contents[name].data) // size)) * size for name in (path, taken))
    return (taken, begin), path, position, size


def _is_detectable(copy: Copy, path: str, position: FilePosition, foreign: bytes) -> bool:
    """Whether every batch position with wrong bytes fails its checksum, or has offsets that cannot be there."""
    content = copy.node.disk.contents()[path]
    right, data = content.sound(), content.data[:]
    end = min(position + len(foreign), len(data))
    data[position:end] = foreign[: end - position]
    batches = [Batch(path, place, header) for place, header in iterate_headers(right)]
    damaged = [each for each in batches if each.bytes_in(data) != each.bytes_in(right)]
    last_intact = max((each.place for each in batches if each not in damaged), default=-1)
    for each in damaged:
        place, header, found = each.place, each.header, read_header(data, each.place)
        is_gap = _may_be_gap(copy, each, found.base_offset)
        if found.size_bytes > len(data) - place:
            # the start of a plausible batch at the end of the file: a process that died in a write leaves the same
            may_be = found.magic == MAGIC_V2 and last_intact < place
            is_same = found.base_offset == header.base_offset
        else:
            may_be = found.size_bytes >= HEADER_BYTES and compute_crc(data, place, found.size_bytes) == found.crc
            is_same = found.base_offset <= header.base_offset <= found.last_offset
        if may_be and (is_same or is_gap):
            return False
    return True


def _is_compacted(copy: Copy) -> bool:
    return copy.topic_partition.topic in (OFFSETS_TOPIC, TRANSACTION_TOPIC, *COMPACTED)
