"""Figures of the process and its disks, for the rates: memory, CPU share, free space. A thread reads the disks."""

import os
import time
from typing import TYPE_CHECKING, Any, Final

import psutil
import trio

if TYPE_CHECKING:
    from yak.broker.broker import Broker
    from yak.server.shell import Shell

DISKS_EVERY_SECONDS: Final = 5.0


class ProcessFigures:
    """Resource use of the broker's process. Disk figures are None until first read; a hanging disk keeps old ones."""

    def __init__(self, shell: "Shell", broker: "Broker") -> None:
        self._shell = shell
        self._broker = broker
        self._process = psutil.Process()
        self._cpu_s, self._at = time.process_time(), time.monotonic()
        self._cpu_share = 0.0
        self._disks: tuple[int, int] | None = None
        self._disks_at = 0.0
        self._is_asking = False

    def look(self) -> dict[str, Any]:
        """Bytes, and CPU as a share of one core since an earlier call at least half a second ago."""
        now, cpu_s = time.monotonic(), time.process_time()
        if now - self._at >= 0.5:
            self._cpu_share = (cpu_s - self._cpu_s) / (now - self._at)
            self._cpu_s, self._at = cpu_s, now
        if now - self._disks_at >= DISKS_EVERY_SECONDS and not self._is_asking:
            self._is_asking = True
            self._shell.nursery.start_soon(self._ask_disks)
        free, size = self._disks or (None, None)
        return {
            "memory_bytes": self._process.memory_info().rss,
            "cpu_share": round(self._cpu_share, 3),
            "disk_free_bytes": free,
            "disk_size_bytes": size,
        }

    async def _ask_disks(self) -> None:
        paths = [each.path for each in self._broker.log_store.directories if each.failure is None]
        try:
            self._disks = await trio.to_thread.run_sync(_fullest, paths, abandon_on_cancel=True) or self._disks
        finally:
            self._is_asking = False
            self._disks_at = time.monotonic()


def _fullest(paths: list[str]) -> tuple[int, int] | None:
    """(free bytes, total bytes) of the file system with the least free space; None when none can be read."""
    found: list[tuple[int, int]] = []
    for path in paths:
        try:
            stat = os.statvfs(path)
        except OSError:
            continue
        found.append((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
    return min(found, default=None)
