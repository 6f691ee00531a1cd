"""The memory that this process may take: the machine's, or that of its container or service (cgroups(7))."""

import os
from collections.abc import Iterator

from yak.config.broker_configs import BrokerConfig
from yak.limits import request_memory_bytes_max


def request_memory_bytes(config: BrokerConfig) -> int:
    """What all partly received requests may take together: `queued.max.request.bytes`, or a share of this process's memory."""
    given = config.queued_max_request_bytes
    return given if given > 0 else request_memory_bytes_max(memory_bytes())


def memory_bytes(cgroups: str = "/proc/self/cgroup", mount: str = "/sys/fs/cgroup") -> int:
    """The smallest limit of this process: beyond that of its control group the kernel kills it."""
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(cgroups, mount))


def _limits(cgroups: str, mount: str) -> Iterator[int]:
    """The limits of the process's control group and of all above it. Version 2 has no name of a controller in its line."""
    yield 2**63
    for line in _read(cgroups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = (f"{mount}/memory", "memory.limit_in_bytes") if controllers else (mount, "memory.max")
        path = path.rstrip("/")
        # in a container of version 1 the path is the machine's: only its last ancestor, the root, is mounted there
        while True:
            limit = _read(f"{folder}{path}/{name}").strip()
            if limit.isdecimal():  # else "max", or there is no such file
                yield int(limit)
            if not path:
                break
            path = path.rpartition("/")[0]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""
