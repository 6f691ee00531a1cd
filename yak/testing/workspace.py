"""The base of all clusters of a test run: a folder, a metadata store, and a guardian that outlives a killed run."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from yak.errors import YakError
from yak.local import redis_child
from yak.local.redis_server import EmbeddedRedis
from yak.testing.guardian import ALL_CLEAN

_DATABASES: Final = 16
"""The default number of databases of a Redis server."""
_GUARDIAN_SECONDS: Final = 5.0


class Workspace:
    """A folder under TMPDIR with a Redis server that starts when a cluster first needs it.

    Each cluster has its own database of the server. The server listens on a unix socket, so that no other test run can
    take its port between the choice and the start.
    """

    def __init__(self) -> None:
        # The real path, since the kernel reports only that to the guardian.
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="yak-testing-"))
        self._servers: list[EmbeddedRedis] = []
        self._starting = ThreadPoolExecutor(1, "yak-testing-redis")
        self._start: Future[EmbeddedRedis] | None = None
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
        """A path for one more cluster; nothing exists there yet."""
        self._clusters += 1
        return os.path.join(self.folder, f"cluster-{self._clusters}")

    def lend_database(self) -> str:
        """The address of an empty, unused database. Its server may still be starting; see `wait_for_server`.

        Raises UsageError (`no-redis-server`).
        """
        if not self._free and self._used:
            self._free, self._used = self._used, []
            _make_empty(self._free)
        if not self._free:
            self._free = self._new_databases()
        return self._free.pop(0)

    def wait_for_server(self) -> None:
        """Wait until the newest server answers. Raises YakError with the reason when it did not start."""
        if self._start is None:
            return
        try:
            self._start.result()
        except YakError:
            gone = self._servers[-1].url.removesuffix("/0")
            self._free = []
            self._used = [url for url in self._used if not url.startswith(gone)]
            raise

    def give_back_database(self, url: str) -> None:
        """Return the database of an ended cluster. It is emptied when no other database is free."""
        self._used.append(url)

    def close(self) -> None:
        """End the servers, delete the folder, and end the guardian."""
        self._starting.shutdown()
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

    def _new_databases(self) -> list[str]:
        """Start another server in a thread: brokers take longer to load than Redis takes to answer, and wait for it.

        Raises UsageError (`no-redis-server`) at once when there is no server program.
        """
        redis_child.find_server()
        server = EmbeddedRedis(os.path.join(self.folder, f"redis-{len(self._servers) + 1}"))
        self._servers.append(server)
        self._start = self._starting.submit(server.start)
        return [f"{server.url}?db={number}" for number in range(_DATABASES)]


def _make_empty(urls: Sequence[str]) -> None:
    import redis

    for url in urls:
        with redis.Redis.from_url(url) as client:
            client.flushdb()
