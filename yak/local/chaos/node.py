"""One broker of a chaos run: its process, its proxy for clients and brokers, and its proxy to Redis.

The broker advertises the proxy's address, so clients and other brokers connect only through the proxy, which tells them
apart.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from yak.local.broker_process import BrokerSpec
from yak.local.chaos.proxy import Proxy, quiet_port
from yak.local.log_file import last_line
from yak.local.processes import ProcessId, identify, is_running, kill, send_signal, wait_gone
from yak.local.quorum import QuorumSpec
from yak.local.spawn import spawn_detached, yak_argv, yak_environment

_PIECE_BYTES: Final = 1 << 16
_LEAST_BYTES: Final = 4096


class OwnDisk:
    """A tmpfs of so many bytes. Raises OSError where this user may not mount one."""

    def __init__(self, mount_point: Path, size_bytes: int) -> None:
        mount_point.mkdir(parents=True, exist_ok=True)
        self.folder = mount_point / "data"
        """The data folder as the broker sees it."""
        # The holder reads a pipe of this process, so that it ends with it in any way.
        mount = f'mount -t tmpfs -o size={size_bytes} tmpfs "$1" && echo mounted && exec cat'
        if shutil.which("unshare") is None or shutil.which("nsenter") is None:
            raise OSError("unshare and nsenter are not installed")
        self._holder = subprocess.Popen(  # noqa: S603 - the path is handed over as an argument
            ["unshare", "-Urm", "sh", "-c", mount, "sh", str(mount_point)],  # noqa: S607 - as PATH has it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            _, errors = self._holder.communicate()
            raise OSError(errors.strip() or "this user may not mount a file system")
        self.within: tuple[str, ...] = ("nsenter", "--preserve-credentials", "-t", str(self._holder.pid), "-U", "-m")
        """A prefix for the broker's command line."""
        self._root = Path(f"/proc/{self._holder.pid}/root{mount_point}")

    @property
    def readable(self) -> Path:
        """The data folder as this process sees it: through the holder's root."""
        return self._root / "data"

    def fill(self, process: ProcessId) -> None:  # noqa: ARG002 - the other kind needs it
        """Write a file that takes all free space."""
        with (self._root / "ballast").open("wb", buffering=0) as file:
            size = _PIECE_BYTES
            while size >= _LEAST_BYTES:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    size //= 2

    def free(self, process: ProcessId | None) -> None:  # noqa: ARG002 - the other kind needs it
        (self._root / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        """Kill the holder, which ends the file system."""
        self._holder.kill()
        self._holder.wait()


class LimitedDisk:
    """An ordinary folder. While it is full, the broker's files cannot grow, so that its log lines are lost too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.within: tuple[str, ...] = ()

    @property
    def readable(self) -> Path:
        return self.folder

    def fill(self, process: ProcessId) -> None:
        import resource

        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))

    def free(self, process: ProcessId | None) -> None:
        import resource

        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    def close(self) -> None:
        """There is nothing to release."""


Disk: TypeAlias = OwnDisk | LimitedDisk


def can_limit() -> bool:
    """Whether the limits of another process can be changed: Linux has prlimit(2)."""
    return sys.platform.startswith("linux")


STOP_SECONDS: Final = 45.0
LEASE_SECONDS: Final = 4
"""Shorter than usual, so that short runs contain many failovers."""


class Node:
    """A broker that can be started, ended in any way, and disconnected."""

    def __init__(
        self,
        node_id: int,
        *,
        folder: Path,
        disk: Disk,
        redis_port: int,
        sources: Callable[[], Mapping[str, int]],
        configs: tuple[str, ...] = (),
    ) -> None:
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.disk = disk
        self.log_path = folder / f"{self.name}.log"
        self.proxy = Proxy(sources)
        self.redis = Proxy(dict, redis_port)
        self.redis.listen()
        self.quorum: QuorumSpec | None = None
        """The metadata quorum of the cluster; None with Redis alone."""
        self.process: ProcessId | None = None
        self.starts = 0
        self.is_wanted = False
        """Whether the broker should run now: if it does not, it ended unexpectedly."""
        self.stopping_since = 0.0
        self.configs = configs
        self._ready_file = folder / f"{self.name}.json"
        self._child: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start the process and return at once; does nothing when it runs."""
        self.is_wanted = True
        if self.is_running:
            return
        self._ready_file.unlink(missing_ok=True)
        self.proxy.target_port = quiet_port()
        self._child = spawn_detached(self._argv(), log_path=str(self.log_path), environment=yak_environment())
        self.process = identify(self._child.pid)
        self.starts += 1
        self.proxy.listen()

    def _argv(self) -> list[str]:
        folder, redis_url = str(self.disk.folder), f"redis://{self.redis.address}/0"
        port = self.proxy.target_port
        spec = BrokerSpec(self.node_id, "127.0.0.1", port, folder, redis_url, self.configs, quorum=self.quorum)
        more = ("--advertised", self.proxy.address, "--lease-time", f"{LEASE_SECONDS}s")
        return [*self.disk.within, *yak_argv(*spec.serve_arguments(str(self._ready_file)), *more)]

    @property
    def is_running(self) -> bool:
        return self.process is not None and is_running(self.process)

    @property
    def is_ready(self) -> bool:
        return self.is_running and self._ready_file.exists()

    def kill9(self) -> None:
        """`kill -9`: the kernel closes its connections, and refuses new ones."""
        self.is_wanted = False
        self.proxy.refuse()
        if self.process is not None:
            kill(self.process)
        self._reap()

    def begin_stop(self) -> None:
        """Begin an orderly stop (SIGTERM) and return at once."""
        self.is_wanted = False
        self.stopping_since = time.monotonic()
        if self.process is not None:
            send_signal(self.process, signal.SIGCONT)
            send_signal(self.process, signal.SIGTERM)

    def stop(self) -> bool:
        """SIGTERM, and wait for the orderly end; False when it had to be killed."""
        self.begin_stop()
        in_time = self.process is None or wait_gone(self.process, STOP_SECONDS)
        self.kill9()
        return in_time

    def late_stop(self) -> str:
        """That it did not stop in time and was killed, with the last line of its log: how far the stop was."""
        return f"{self.name} did not stop in time and was killed; its log ends with: {last_line(self.log_path)}"

    @property
    def is_late(self) -> bool:
        return self.is_running and not self.is_wanted and time.monotonic() - self.stopping_since > STOP_SECONDS

    def end_code(self, patience_seconds: float = 0.0) -> int | None:
        """The exit code; None while the process still runs after so long."""
        if self._child is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(patience_seconds)
        return self._child.returncode

    def close(self) -> None:
        self.kill9()
        self.proxy.close()
        self.redis.close()
        self.disk.close()

    def log(self) -> str:
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait(10.0)
