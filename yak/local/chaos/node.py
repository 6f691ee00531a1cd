"""One broker of a chaos run: its process, its proxy for clients and brokers, and its proxy to Redis.

The broker advertises the proxy's address, so clients and other brokers connect only through the proxy, which tells them
apart.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from yak.local.chaos.proxy import Proxy, quiet_port
from yak.local.chaos.small_disk import Disk
from yak.local.processes import ProcessId, identify, is_running, kill, send_signal, wait_gone
from yak.local.quorum import RAFT, QuorumSpec
from yak.local.spawn import spawn_detached, yak_argv, yak_environment

STOP_SECONDS: Final = 45.0


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
        arguments: tuple[str, ...],
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
        self._arguments = arguments
        self._ready_file = folder / f"{self.name}.json"
        self._child: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start the process and return at once; does nothing when it runs."""
        self.is_wanted = True
        if self.is_running:
            return
        self._ready_file.unlink(missing_ok=True)
        port = quiet_port()
        words = ["serve", "--node-id", str(self.node_id), "--port", str(port), "--advertised", self.proxy.address]
        words += ["--data-dir", str(self.disk.folder)]
        if self.quorum is not None:
            words += self.quorum.serve_arguments()
        if self.quorum is None or self.quorum.metadata != RAFT:
            words += ["--redis-url", f"redis://{self.redis.address}/0"]
        words += ["--ready-file", str(self._ready_file), "--no-http", *self._arguments]
        argv = [*self.disk.within, *yak_argv(*words)]
        self._child = spawn_detached(argv, log_path=str(self.log_path), environment=yak_environment())
        self.process = identify(self._child.pid)
        self.starts += 1
        self.proxy.target_port = port
        self.proxy.listen()

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.process is not None and is_running(self.process)

    @property
    def is_ready(self) -> bool:
        """Whether the process exists and its ready file is there."""
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

    @property
    def is_late(self) -> bool:
        """Whether an orderly stop has exceeded its timeout."""
        return self.is_running and not self.is_wanted and time.monotonic() - self.stopping_since > STOP_SECONDS

    def end_code(self) -> int | None:
        """The exit code; None while the process runs."""
        return None if self._child is None else self._child.poll()

    def close(self) -> None:
        """End the process, the proxies and the disk."""
        self.kill9()
        self.proxy.close()
        self.redis.close()
        self.disk.close()

    def log(self) -> str:
        """The output of all starts."""
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait(10.0)
