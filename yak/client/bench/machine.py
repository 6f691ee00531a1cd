"""The machine and software versions of a measurement."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import confluent_kafka
import psutil


def cpu_model() -> str:
    """The processor's name, if the system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, object]:
    """Machine and versions, for a stored result."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "python": platform.python_version(),
        "executable": bool(getattr(sys, "frozen", False)),
        "yak": package_version("yak-broker"),
        "confluent_kafka": package_version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def package_version(name: str) -> str:
    """An installed package's version; `unknown` when its metadata is not bundled."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def machine_line(facts: dict[str, object]) -> str:
    """The machine facts in one line for people."""
    memory = int(str(facts["memory_bytes"])) / 2**30
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {memory:.0f} GiB, {facts['system']}; Python {facts['python']}, "
        f"yak {facts['yak']}, confluent-kafka {facts['confluent_kafka']}, librdkafka {facts['librdkafka']}"
    )
