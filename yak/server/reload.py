"""What SIGHUP reads again: the certificates of the listeners, and the users file.

A file that cannot be used is logged with the reason, and the broker goes on with what it has.
"""

import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from yak.core.events import Event, OwnUsersChanged
from yak.errors import YakError
from yak.server import log
from yak.server.jobs import run_in_thread
from yak.server.users_file import read_users_file

if TYPE_CHECKING:
    from yak.server.tls_listener import ListenerTls

_TERMINAL: Final = "/dev/tty"


class ListenerReloads:
    """Makes the listeners use changed configs, in threads. The newest ones win, in whatever order Trio runs the tasks."""

    def __init__(self, listeners: "Sequence[ListenerTls]") -> None:
        self._listeners = listeners
        self._newest: Mapping[str, str] = {}
        self._turn = trio.Lock()

    def begin(self, nursery: trio.Nursery, configs: Mapping[str, str]) -> None:
        """Use these configs over those of the start, and read the files again, in a task of this nursery."""
        self._newest = configs
        nursery.start_soon(self._reload)

    async def _reload(self) -> None:
        async with self._turn:
            for each in self._listeners:
                await run_in_thread(each.reload, self._newest)


async def reload_files(
    listeners: "Iterable[ListenerTls]", users_file: str | None, post: Callable[[Event], None], turn: trio.Lock
) -> None:
    """Read the files again, in threads, and use what can be used.

    The users come first, and in turn, so that the newest are the last: a certificate's file system may hang.
    """
    if users_file is not None:
        async with turn:
            try:
                users = await run_in_thread(read_users_file, users_file)
            except YakError as error:
                log.write("error", "users-reload-failed", {"code": error.code, "what": error.message, "why": error.why})
            else:
                post(OwnUsersChanged(users))
                log.write("info", "users-reloaded", {"users": len(users)})
    for each in listeners:
        await run_in_thread(each.reload)


class Terminal:
    """The terminal that this process was started in, if any.

    The kernel sends SIGHUP also when the terminal is closed; a broker in its foreground then has to stop. One that nohup(1)
    started, with SIGHUP ignored, has no terminal in this sense.
    """

    def __init__(self, path: str = _TERMINAL) -> None:
        self._path = path
        self._was_there = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and self._is_there()

    @property
    def is_gone(self) -> bool:
        """Whether it was closed since the start."""
        return self._was_there and not self._is_there()

    def _is_there(self) -> bool:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_NOCTTY))
        except OSError as error:
            return error.errno in (errno.EMFILE, errno.ENFILE)  # no file handles are left, which is not its end
        return True
