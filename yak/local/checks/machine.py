"""This machine: disk space, fsync latency, open files, the port, and the lease settings."""

import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from yak.client.reach import probe
from yak.local import ports
from yak.local.checks.finding import Finding
from yak.view.formats import format_size

_MIB: Final = 1024 * 1024
DISK_WARN_BYTES: Final = 2048 * _MIB
DISK_FAIL_BYTES: Final = 128 * _MIB
FSYNC_WARN_MS: Final = 20.0
FSYNC_SECONDS: Final = 0.5
FSYNC_AT_MOST: Final = 100
OPEN_FILES_WARN: Final = 4096
OPEN_FILES_FAIL: Final = 512


def nearest_existing(path: str) -> str:
    """The directory itself, or its closest existing parent."""
    place = Path(path).absolute()
    while not place.is_dir():
        place = place.parent
    return str(place)


def check_disk(data_dir: str) -> Finding:
    """Free space at the data directory, or where it would be."""
    place = nearest_existing(data_dir)
    usage = shutil.disk_usage(place)
    detail = f"{format_size(usage.free)} free of {format_size(usage.total)} at {place}"
    if usage.free < DISK_FAIL_BYTES:
        return Finding("disk", "FAIL", detail, "free some space, or choose another --data-dir")
    if usage.free < DISK_WARN_BYTES:
        return Finding("disk", "warn", detail, "yak topics alter TOPIC -c retention.bytes=BYTES")
    return Finding("disk", "ok", detail)


def check_fsync(data_dir: str) -> Finding:
    """Write 4 KiB and fsync it, repeatedly for half a second at most, at the data directory; the file is deleted."""
    place = nearest_existing(data_dir)
    block = b"\0" * 4096
    times_ms: list[float] = []
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".yak-doctor-") as file:
            deadline = time.monotonic() + FSYNC_SECONDS
            while len(times_ms) < FSYNC_AT_MOST and (not times_ms or time.monotonic() < deadline):
                began = time.monotonic()
                os.pwrite(file.fileno(), block, 4096 * len(times_ms))
                os.fsync(file.fileno())
                times_ms.append((time.monotonic() - began) * 1000.0)
    except OSError as error:
        return Finding("fsync", "FAIL", f"{place}: {os.strerror(error.errno or 0)}", "choose another --data-dir")
    median_ms = statistics.median(times_ms)
    detail = f"{1000.0 / median_ms:.0f} a second (median {median_ms:.2f} ms, worst {max(times_ms):.1f} ms) at {place}"
    if median_ms > FSYNC_WARN_MS:
        return Finding("fsync", "warn", detail, "keep flush.messages at its default, or use a faster disk")
    return Finding("fsync", "ok", detail)


def check_open_files() -> Finding:
    """The limit of open files and sockets for a broker of this user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = float("inf") if hard == resource.RLIM_INFINITY else float(hard)
    detail = f"{soft} by default, {'no limit' if most == float('inf') else hard} at most"
    if most < OPEN_FILES_FAIL:
        return Finding("open files", "FAIL", detail, "raise the hard limit: ulimit -Hn 65536, or LimitNOFILE=")
    if soft < OPEN_FILES_WARN:
        return Finding("open files", "warn", detail, "ulimit -n 65536")
    return Finding("open files", "ok", detail)


def check_port(host: str, port: int) -> Finding:
    """Whether a broker can listen on the configured port, or already does."""
    if port == 0 or ports.is_free(host, port):
        return Finding("port", "ok", f"{host}:{port} is free")
    who = ports.holder(port) or "another program"
    if probe(f"{host}:{port}", 1.0).outcome == "kafka":
        return Finding("port", "ok", f"{host}:{port} is a broker's: {who}")
    return Finding("port", "warn", f"{who} listens on {host}:{port}, and it is not a broker", "yak up --port 0")


def check_lease(lease_s: float, renew_s: float) -> Finding:
    """Whether the controller's lease is renewed well before it expires."""
    detail = f"lease {lease_s:g} s, renewed every {renew_s:g} s"
    if renew_s >= lease_s:
        return Finding("lease", "FAIL", detail, f"--renew-interval {lease_s / 3:.3g}s")
    if renew_s > lease_s / 2:
        return Finding("lease", "warn", f"{detail}: one late renewal ends it", f"--renew-interval {lease_s / 3:.3g}s")
    return Finding("lease", "ok", detail)
