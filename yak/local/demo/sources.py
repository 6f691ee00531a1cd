"""The demo's real data: this machine's load and processes, sampled live, and a list of its files as CSV."""

import csv
import json
import os
import socket
import sys
import sysconfig
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import psutil

from yak.sim.history_checker.history import UNREADABLE

CSV_COLUMNS = ("row", "folder", "file", "size_bytes", "modified")


def record_id(value: bytes | None) -> int:
    """The unique number of a record by its value: its number among its source's, and a checksum of its content.

    The spacing and the order of its JSON do not matter. UNREADABLE for a record of another source.
    """
    try:
        fields = json.loads(value or b"")
        number = int(fields["sample"] if "sample" in fields else fields["row"])
    except (ValueError, KeyError, TypeError):
        return UNREADABLE
    return (number & 0x7FFFFFFF) << 32 | zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def host_name() -> str:
    """The key of every sample."""
    return socket.gethostname() or "localhost"


def server_samples(host: str) -> Iterator[bytes]:
    """CPU and memory of this machine as JSON, sampled at each iteration.

    `cpu_seconds` is the kernel's own counter since boot, which is exact at any sampling rate; a percentage over a few
    milliseconds would not be.
    """
    psutil.cpu_percent()
    for number in range(sys.maxsize):
        memory = psutil.virtual_memory()
        cpu = psutil.cpu_times()
        yield _json(
            {
                "sample": number,
                "host": host,
                "time_ms": time.time_ns() // 1_000_000,
                "cpu_seconds": {"user": cpu.user, "system": cpu.system, "idle": cpu.idle},
                "load_1m": os.getloadavg()[0],
                "memory_used_bytes": memory.total - memory.available,
                "memory_percent": memory.percent,
            }
        )


def process_samples() -> Iterator[tuple[bytes, bytes]]:
    """(pid, JSON) of the processes of this machine, in an endless cycle."""
    number = 0
    while True:
        for process in psutil.process_iter(["pid", "name", "memory_info", "cpu_times"]):
            info = process.info
            memory, cpu = info["memory_info"], info["cpu_times"]
            value = {
                "sample": number,
                "time_ms": time.time_ns() // 1_000_000,
                "name": info["name"],
                "rss_bytes": memory.rss if memory else None,
                "cpu_seconds": cpu.user + cpu.system if cpu else None,
            }
            yield str(info["pid"]).encode(), _json(value)
            number += 1


def write_file_list(path: str, at_most: int) -> int:
    """Write a CSV of files of the running Python (of the executable's bundle when frozen); return the number of
    rows."""
    root = Path(getattr(sys, "_MEIPASS", None) or sysconfig.get_paths()["stdlib"])
    rows = 0
    with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                if rows >= at_most:
                    return rows
                try:
                    found = os.stat(os.path.join(folder, name), follow_symlinks=False)
                except OSError:
                    continue
                relative = os.path.relpath(folder, root).split(os.sep)[0]
                modified = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.st_mtime))
                writer.writerow((rows, relative, name, found.st_size, modified))
                rows += 1
    return rows


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
