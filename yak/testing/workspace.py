"""What all clusters of a test run stand on: a folder, one metadata store, and a guardian that outlives a killed run."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

from yak.errors import StartRefused
from yak.local import ports
from yak.local.redis_server import EmbeddedRedis
from yak.testing.guardian import ALL_CLEAN

_DATABASES: Final = 16
"""What a Redis server has when nothing else is said."""
_GUARDIAN_SECONDS: Final = 5.0


class Workspace:
    """A folder under TMPDIR with a Redis server in it that is started when a cluster first needs it.

    Each cluster has a database of the server to itself. It listens on a unix socket, so that no other test run can be given
    its port between the choice and the start.
    """

    def __init__(self) -> None:
        # The real path: the kernel tells the guardian no other.
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="yak-testing-"))
        self._servers: list[EmbeddedRedis] = []
        self._free: list[str] = []
        self._used: list[str] = []
        self._clusters = 0
        self._guardian = subprocess.Popen(  # noqa: S603 - our own module, and no shell
            [sys.executable, "-P", "-m", "yak.testing.guardian", str(os.getpid()), self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def new_folder(self) -> str:
        """A path for one more cluster; nothing is there yet."""
        self._clusters += 1
        return os.path.join(self.folder, f"cluster-{self._clusters}")

    def lend_database(self) -> str:
        """The address of an empty database that nobody else has. Raises YakError when no server can be started."""
        if not self._free and self._used:
            self._free, self._used = self._used, []
            _make_empty(self._free)
        if not self._free:
            self._free = self._database_urls(self._start_server())
        return self._free.pop(0)

    def give_back_database(self, url: str) -> None:
        """Its cluster's brokers are gone. It is emptied when there is no other one."""
        self._used.append(url)

    def close(self) -> None:
        """End the servers, delete the folder, and let the guardian go."""
        for server in self._servers:
            server.kill()
        self._servers, self._free, self._used = [], [], []
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self._guardian.stdin is not None
        if not os.path.exists(self.folder):
            with contextlib.suppress(BrokenPipeError):
                os.write(self._guardian.stdin.fileno(), ALL_CLEAN)
        self._guardian.stdin.close()
        self._guardian.wait(_GUARDIAN_SECONDS)

    def _start_server(self) -> EmbeddedRedis:
        folder = os.path.join(self.folder, f"redis-{len(self._servers) + 1}")
        try:
            server = EmbeddedRedis(folder).start()
        except StartRefused as refused:
            if refused.code != "redis-socket-path":
                raise
            server = EmbeddedRedis(folder, port=ports.find_free("127.0.0.1")).start()
        self._servers.append(server)
        return server

    def _database_urls(self, server: EmbeddedRedis) -> list[str]:
        if server.url.startswith("unix:"):
            return [f"{server.url}?db={number}" for number in range(_DATABASES)]
        return [f"{server.url.removesuffix('/0')}/{number}" for number in range(_DATABASES)]


def _make_empty(urls: Sequence[str]) -> None:
    import redis

    for url in urls:
        with redis.Redis.from_url(url) as client:
            client.flushdb()
