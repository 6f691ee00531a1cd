"""How `yak` starts other programs: itself as a child, and foreign programs such as a Redis server.

This file handles the traps of the one-file executable (PyInstaller manual, "Run-time Information" and "Notes about
specific features"). There `sys.executable` is `yak` itself and knows no `-m`. The bootloader points LD_LIBRARY_PATH at
the bundle, so that a foreign program would load YAK's libraries. A child `yak` that must outlive its parent needs its
own unpacked bundle, which PYINSTALLER_RESET_ENVIRONMENT requests.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from yak.private_files import make_directory, open_file

_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_SEED_ALIASES = ("BROKER_ID", "REDIS_HOST", "REDIS_PORT", "LEASE_TIME_SECONDS", "RENEW_INTERVAL_SECONDS")
_INHERITED_SETTINGS = ("YAK_LOG_LEVEL", "YAK_LOG_FORMAT", "YAK_REDIS_SERVER", "YAK_REDIS_PASSWORD", "YAK_HTTP_TOKEN")
_LOG_ROTATE_BYTES = 16 * 1024 * 1024


def is_frozen() -> bool:
    """Whether this is the PyInstaller executable, rather than Python on the sources."""
    return bool(getattr(sys, "frozen", False))


def yak_argv(*arguments: str) -> list[str]:
    """The command line that runs this `yak` again.

    `-P` keeps the working directory off the child's module path, so that a folder there called `packaging` or `redis`
    cannot shadow a library.
    """
    if is_frozen():
        return [sys.executable, *arguments]
    return [sys.executable, "-P", "-m", "yak.commands", *arguments]


def foreign_environment() -> dict[str, str]:
    """The environment for a foreign program: without the library path of the bundle."""
    result = dict(os.environ)
    if is_frozen():
        for name in _LIBRARY_PATHS:
            original = result.pop(f"{name}_ORIG", None)
            result.pop(name, None)
            if original is not None:
                result[name] = original
    return result


def yak_environment() -> dict[str, str]:
    """The environment for a child `yak` that gets all its settings by flags.

    The caller's own YAK_* settings and their aliases are left out: YAK_ADVERTISED_HOST or REDIS_HOST meant for another
    broker must not reach this one. YAK_REDIS_PASSWORD is inherited, and YAK_HTTP_TOKEN, so that the child enforces the
    same authentication.
    """
    result = {
        name: value
        for name, value in foreign_environment().items()
        if name in _INHERITED_SETTINGS or not (name.startswith("YAK_") or name in _SEED_ALIASES)
    }
    result["NO_COLOR"] = "1"
    if is_frozen():
        result["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
    return result


def open_log(path: str) -> int:
    """A file descriptor that appends to a log; a log over 16 MiB is first renamed to `<name>.1`."""
    file = Path(path)
    make_directory(str(file.parent))
    if file.exists() and file.stat().st_size > _LOG_ROTATE_BYTES:
        file.replace(f"{path}.1")
    return open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Detached(subprocess.Popen[bytes]):
    """A program that outlives this object, so that no ResourceWarning is due: with `-W error` it fails the user's test."""

    def __del__(self) -> None:
        super().__del__(_warn=lambda *_, **__: None)  # type: ignore[call-arg]  # it still collects the exit status


def spawn_detached(argv: Sequence[str], *, log_path: str, environment: Mapping[str, str]) -> Detached:
    """Start a program in its own session, with both outputs appended to a log file.

    The session keeps the terminal's Ctrl+C from it, and the program outlives `yak`.
    """
    log = open_log(log_path)
    try:
        return Detached(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(environment),
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(log)
