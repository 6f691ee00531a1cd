"""Offsets in the segment files have no gaps or overlaps, epochs never fall, and every CRC is valid.

Only compacted logs have gaps, and none between two segments.

Scanning files after every step would make a run quadratic, so each call scans what was appended since the last one.
The whole log is scanned at every start and at the end.
"""

from __future__ import annotations

from yak.protocol.record_batch import compute_crc, iterate_headers
from yak.sim.deliveries import Violation
from yak.sim.disk import SimDisk
from yak.sim.history import Watcher
from yak.sim.node import SimNode
from yak.storage.log import Log


class OffsetsContiguous(Watcher):
    """Remembers the scanned position of each segment file."""

    def __init__(self) -> None:
        self._life = -1
        self._scanned: dict[str, tuple[int, int, int]] = {}
        """file -> (position, next offset, newest epoch)"""
        self._checked: dict[Log, tuple[int, int, int, str]] = {}
        """log -> (end offset, start offset, segments replaced, folder) at the last scan: only a change needs a scan"""

    def stepped(self, node: SimNode) -> None:
        broker = node.broker
        if broker is None:
            return
        if self._life != node.starts_count:
            self._life = node.starts_count
            self._scanned.clear()
            self._checked.clear()
        disk = node.disk
        for topic_partition, partition in broker.partitions.items():
            log = partition.log
            if log is None:
                continue
            seen, now = self._checked.get(log), (log.log_end_offset, log.log_start_offset, log.swaps, log.path)
            if seen == now:
                continue
            if seen is None or seen[2:] != now[2:]:
                for path in [path for path in self._scanned if path.startswith(f"{log.path}/")]:
                    del self._scanned[path]
            self._checked[log] = now
            end = self._scan(disk, log.path, allows_gaps=log.may_have_gaps)
            if end is not None and end != log.log_end_offset:
                raise Violation(f"{topic_partition}: the files end at {end}, the log at {log.log_end_offset}")

    def _scan(self, disk: SimDisk, directory: str, *, allows_gaps: bool) -> int | None:
        if not disk.is_directory(directory):
            return None
        names = [name for name in disk.names(directory) if name.endswith(".log")]
        end: int | None = None
        for name in names:
            path = f"{directory}/{name}"
            base = int(name.removesuffix(".log"))
            if end is not None and base != end:
                raise Violation(f"{path}: the segment starts at {base}, the one before ends at {end}")
            end = self._scan_file(disk, path, base, allows_gaps=allows_gaps)
        return end

    def _scan_file(self, disk: SimDisk, path: str, base: int, *, allows_gaps: bool) -> int:
        position, next_offset, epoch = self._scanned.get(path, (0, base, -1))
        data = disk.peek(path, position)
        size = position + len(data)
        if not data:
            return next_offset
        for place, header in iterate_headers(data):
            if header.base_offset < next_offset or (header.base_offset > next_offset and not allows_gaps):
                raise Violation(f"{path}: offset {header.base_offset} where {next_offset} is due")
            if header.partition_leader_epoch < epoch:
                raise Violation(f"{path}@{next_offset}: epoch {header.partition_leader_epoch} after {epoch}")
            if header.crc != compute_crc(data, place, header.size_bytes):
                raise Violation(f"{path}@{next_offset}: the CRC does not hold")
            next_offset, epoch = header.next_offset, header.partition_leader_epoch
            position += header.size_bytes
        if position != size:
            raise Violation(f"{path}: {size - position} bytes after the last whole batch")
        self._scanned[path] = (position, next_offset, epoch)
        return next_offset
