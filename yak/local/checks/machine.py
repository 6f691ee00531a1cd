"""This machine: disk space, fsync latency, open files, the port, and the lease settings."""

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from shlex import quote
from typing import Final

from yak.client.reach import probe
from yak.errors import YakError
from yak.local import ports
from yak.local.checks.finding import Finding
from yak.local.cluster import LocalCluster
from yak.local.status import ClusterStatus
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
    try:
        if port == 0 or ports.is_free(host, port):
            return Finding("port", "ok", f"{host}:{port} is free")
    except YakError as error:
        return Finding("port", "FAIL", f"{error.message}: {error.why}", "yak config show --origin   shows who set it")
    who = ports.holder(port)
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


MIN_COLUMNS: Final = 80
MIN_ROWS: Final = 24


def check_terminal() -> Finding:
    """One finding about this terminal; skipped when the output is no terminal."""
    if not sys.stdout.isatty():
        return Finding("terminal", "skip", "the output is not a terminal")
    size = shutil.get_terminal_size((0, 0))
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    detail = f"{size.columns}x{size.lines}, {_colours()}, {encoding}"
    if encoding != "utf8":
        return Finding("terminal", "warn", f"{detail}: signs may be shown as ?", "export LC_ALL=C.UTF-8")
    if size.columns < MIN_COLUMNS or size.lines < MIN_ROWS:
        return Finding("terminal", "warn", detail, f"make it at least {MIN_COLUMNS}x{MIN_ROWS}")
    return Finding("terminal", "ok", detail)


def _colours() -> str:
    if os.environ.get("NO_COLOR"):
        return "no colours (NO_COLOR)"
    if os.environ.get("COLORTERM") in {"truecolor", "24bit"}:
        return "16 million colours"
    term = os.environ.get("TERM", "")
    if "256color" in term:
        return "256 colours"
    return "no colours" if term in {"", "dumb"} else "16 colours"


def read_status(data_dir: str) -> ClusterStatus | None:
    """The cluster's status; None when no cluster was started there, or its state cannot be read."""
    try:
        status = LocalCluster(data_dir).status()
    except YakError:
        return None
    return status if status.brokers else None


def start_again(data_dir: str) -> str:
    """The command that starts the brokers and the Redis of this directory."""
    return f"yak up -d --data-dir {quote(data_dir)}"


def check_local_cluster(data_dir: str) -> Finding:
    """Whether the processes that should run do run."""
    try:
        status = LocalCluster(data_dir).status()
    except YakError as error:
        return Finding("local cluster", "FAIL", f"{error.message}: {error.why}", error.try_[0] if error.try_ else "")
    if not status.brokers:
        return Finding("local cluster", "skip", f"none was started in {status.data_dir}")
    if all(broker.state == "stopped" for broker in status.brokers):
        return Finding("local cluster", "skip", f"the one in {status.data_dir} is stopped")
    up_again = start_again(status.data_dir)
    dead = [str(broker.node_id) for broker in status.brokers if broker.state == "dead"]
    if dead:
        return Finding("local cluster", "FAIL", f"node {', '.join(dead)} should run and is gone", up_again)
    if status.redis_running is False:
        return Finding("local cluster", "FAIL", "its Redis should run and is gone", up_again)
    paused = [broker.node_id for broker in status.brokers if broker.state == "paused"]
    if paused:
        resume = f"yak node resume {paused[0]} --data-dir {quote(status.data_dir)}"
        return Finding("local cluster", "warn", f"node {', '.join(map(str, paused))} is paused", resume)
    nodes = ", ".join(f"node {broker.node_id} at {broker.address}" for broker in status.brokers)
    return Finding("local cluster", "ok", f"{nodes}, in {status.data_dir}")
