"""How much of a large frame must be there before the kernel wakes its reader (SO_RCVLOWAT).

A megabyte comes over loopback in a dozen pieces, and each would cost a turn of the event loop. Told how much is missing, the
kernel wakes the reader once or twice. It does so in any case at the connection's end, and when no more fits into its buffer.
"""

import os
import socket
import sys
from typing import Final

FROM_BYTES: Final = 16 * 1024
"""Less than this is not worth two system calls."""
UP_TO_BYTES: Final = 512 * 1024
"""The kernel keeps twice as much for a connection that is waited for; its default bound is 6 MB."""
_KERNEL_MIN: Final = (4, 18)
"""Before it a socket's buffer did not grow with the mark, and a reader could wait for what had no room (796f82eafcd9)."""


def heeds_mark(platform: str, release: str) -> bool:
    """Whether this system's TCP wakes a reader by the mark, and always in the end; `release` as uname has it."""
    numbers = release.split(".")[:2]
    if platform != "linux" or len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return False
    return tuple(map(int, numbers)) >= _KERNEL_MIN


_HEEDS_MARK: Final = heeds_mark(sys.platform, os.uname().release)


class LowWater:
    """The mark of one socket."""

    __slots__ = ("_marked",)

    def __init__(self) -> None:
        self._marked = 1

    def mark(self, sock: socket.socket, missing_bytes: int) -> bool:
        """Note how much of a frame is missing, 0 for none; returns whether to wait for the next wake-up. Raises OSError."""
        wanted = min(missing_bytes, UP_TO_BYTES) if missing_bytes >= FROM_BYTES and _HEEDS_MARK else 1
        if wanted != self._marked:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
            self._marked = wanted
        return wanted > 1
