"""How much of a large frame must arrive before the kernel wakes its reader (SO_RCVLOWAT).

A megabyte arrives over loopback in a dozen pieces, each of which would cost a turn of the event loop. With the mark set
to the missing bytes, the kernel wakes the reader once or twice. It always wakes the reader at the end of the connection
and when its buffer is full.
"""

import os
import socket
import sys
from typing import Final

FROM_BYTES: Final = 16 * 1024
"""Fewer bytes are not worth two system calls."""
UP_TO_BYTES: Final = 512 * 1024
"""The kernel reserves twice as much for such a connection; its default bound is 6 MB."""
_KERNEL_MIN: Final = (5, 12)
"""In older kernels a reader could wait for bytes that the kernel had no room for: behind many small packets before 5.7
(24adbc1676af), and while TCP was short of memory before 5.12 (f969dc5a8857)."""


def heeds_mark(platform: str, release: str) -> bool:
    """Whether this system's TCP supports the mark, and never leaves a reader asleep; `release` as in uname."""
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
        """Set the mark for a frame's missing bytes, 0 for none. Returns whether to wait to be woken. Raises OSError."""
        wanted = min(missing_bytes, UP_TO_BYTES) if missing_bytes >= FROM_BYTES and _HEEDS_MARK else 1
        if wanted != self._marked:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
            self._marked = wanted
        return wanted > 1
