"""YAK's own Redis server for the duration of a `with` block: for tests, benchmarks and one-shot commands.

It uses `yak.local.redis_child`, like the server that outlives its command.
"""

import os
from collections.abc import Callable
from typing import Self

from yak.local import processes, redis_child
from yak.local.processes import ProcessId
from yak.local.redis_child import RunningRedis


class EmbeddedRedis:
    """A server on the data of one folder, on a unix socket in it.

    The append-only file is synced before each reply; no eviction, no snapshots. Its log is `redis.log` in the folder.
    """

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(directory)
        self._socket_path = redis_child.socket_for(self._directory)
        self._running: RunningRedis | None = None

    @property
    def url(self) -> str:
        """The address, also before the server runs."""
        return redis_child.socket_url(self._socket_path)

    @property
    def pid(self) -> int:
        """The server's process id; only while it runs."""
        assert self._running is not None
        return self._running.process.pid

    def start(self) -> Self:
        """Start the server and wait until it answers. Raises the errors of `redis_child.start`."""
        log_path = os.path.join(self._directory, "redis.log")
        self._running = redis_child.start(self._directory, 0, log_path, socket_path=self._socket_path)
        return self

    def stop(self) -> None:
        """Stop the server; kill it after a timeout."""
        self._end(redis_child.stop)

    def kill(self) -> None:
        """`kill -9`: acknowledged writes are in its file all the same."""
        self._end(processes.kill)

    def _end(self, end: Callable[[ProcessId], bool]) -> None:
        running, self._running = self._running, None
        if running is not None:
            end(running.process)
            redis_child.forget_socket(self._socket_path, self._directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
