"""A cluster whose brokers a benchmark may end and restart; and the local YAK cluster as one."""

import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import psutil

from yak.client.admin import Admin
from yak.errors import YakError
from yak.local import ports, processes
from yak.local.cluster import LocalCluster, UpSettings


class Fleet(Protocol):
    """Brokers by node id, all on this machine."""

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients."""

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds so far of each running process by name: `node 1`, and the metadata store's."""

    def controller(self) -> int | None:
        """The active controller's node id; None when unknown."""

    def kill(self, node_id: int) -> object:
        """SIGKILL, and wait until the process is gone."""

    def pause(self, node_id: int) -> object:
        """SIGSTOP."""

    def resume(self, node_id: int) -> object:
        """SIGCONT."""

    def stop_node(self, node_id: int) -> None:
        """Stop a broker in order, and wait for its end."""

    def restart(self, node_id: int) -> object:
        """Start a killed or stopped broker on its own data, and wait until it answers."""


class LocalFleet(LocalCluster):
    """YAK brokers and their Redis as `yak up` starts them, in their own directory."""

    @property
    def bootstrap(self) -> str:
        return self.status().bootstrap

    def cpu_seconds(self) -> dict[str, float]:
        pids = {f"node {each.node_id}": each.pid for each in self.status().brokers} | {"redis": self.redis_pid()}
        return {name: process_cpu_seconds(pid) for name, pid in pids.items() if pid is not None}

    def controller(self) -> int | None:
        """The controller from the cluster's metadata, which every YAK broker reports correctly."""
        found = Admin(self.bootstrap).metadata().controller_id
        return None if found < 0 else found

    def stop_node(self, node_id: int) -> None:
        """SIGTERM: the broker moves its leaders first. Raises YakError when it does not end in time."""
        process = self._running_process(node_id, "there is nothing to stop")
        if not processes.stop(process, patience_seconds=30.0):
            raise YakError("bench-stop", f"node {node_id} did not end in 30 s and was killed")


@contextmanager
def own_fleet(brokers: int, settings: UpSettings | None = None) -> Iterator[LocalFleet]:
    """Brokers in a temporary directory, which is always deleted; any of them may lead. Raises YakError."""
    with tempfile.TemporaryDirectory(prefix="yak-bench-", ignore_cleanup_errors=True) as folder:
        fleet = LocalFleet(os.path.join(folder, "cluster"))
        try:
            fleet.up(replace(settings or UpSettings(), port=0, brokers=brokers, leaders=brokers))
            yield fleet
        finally:
            fleet.discard()


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
    by_port = ports.listening()
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
