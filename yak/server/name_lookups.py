"""Resolves the names of hosts in threads of their own, a few for each name.

A lookup takes half a minute or more if no name server answers, and a broker tries again every second. In Trio's 40
threads such lookups would delay other work. Here an attempt waits while enough earlier lookups of the name run.
"""

import errno
import os
import socket
from typing import Any, Final
from weakref import WeakValueDictionary

import trio

_AT_ONCE: Final = 4
"""Of one name: connections to a broker are made together."""


class NameLookups(trio.abc.HostnameResolver):
    """The resolver of one `trio.run` (`trio.socket.set_custom_hostname_resolver`); numeric addresses need none."""

    def __init__(self) -> None:
        self._limiters: WeakValueDictionary[bytes | None, trio.CapacityLimiter] = WeakValueDictionary()
        """By name, as long as a lookup of it runs."""

    async def getaddrinfo(self, host: bytes | None, *args: Any) -> Any:
        """As socket.getaddrinfo. Raises OSError."""
        limiter = self._limiters.setdefault(host, trio.CapacityLimiter(_AT_ONCE))
        try:
            return await trio.to_thread.run_sync(
                socket.getaddrinfo, host, *args, abandon_on_cancel=True, limiter=limiter
            )
        except RuntimeError as error:  # the system starts no thread; as in `run_in_thread`
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error

    async def getnameinfo(self, *args: Any) -> Any:
        """As socket.getnameinfo. Raises OSError."""
        return await trio.to_thread.run_sync(socket.getnameinfo, *args, abandon_on_cancel=True)
