"""CPU seconds of processes on this machine, measured from outside."""

import socket
import sys
import time
from collections.abc import Mapping

import psutil


def process_cpu_seconds(pid: int) -> float:
    """User and system seconds of one process, all its threads. Raises OSError or psutil.Error when it is gone.

    On Linux from the process' own CPU clock (clock_getcpuclockid(3)) in nanoseconds; /proc counts in ticks of 10 ms,
    too coarse for runs of a second.
    """
    if sys.platform == "linux":
        return time.clock_gettime((~pid << 3) | 2)
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def used_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by process name; a new process counts from its start."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def listeners(addresses: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """The pids of local processes that listen at these addresses (name -> host, port).

    Names with a remote address, or with a listener that this user may not inspect, are left out.
    """
    by_port: dict[int, int] = {}
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.pid is not None and connection.laddr:
            by_port[connection.laddr.port] = connection.pid
    return {
        name: by_port[port] for name, (host, port) in addresses.items() if port in by_port and _is_this_machine(host)
    }


def _is_this_machine(host: str) -> bool:
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    ours = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    return bool(found & ours)
