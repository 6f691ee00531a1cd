"""Parts of files that the kernel sends (`sendfile`), so that a large response takes no memory and no copy here.

`sendfile` waits for the device when a page is not cached, so slices have cached pages only, by `cachestat` (Linux 6.5
and newer). Elsewhere the bytes are read.
"""

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yak.server.descriptors import DescriptorPool, PooledFile

_CACHESTAT: Final = 451
"""The system call's number, the same on every architecture (Linux, include/uapi/asm-generic/unistd.h)."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _Range(ctypes.Structure):
    """struct cachestat_range."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    """struct cachestat, all in pages."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


class CacheStat:
    """How much of a file the kernel caches, where the kernel reports that. For one thread only."""

    def __init__(self) -> None:
        self.works = sys.platform == "linux"
        self._range = _Range()
        self._counts = _Counts()
        if self.works:
            self._syscall = ctypes.CDLL(None, use_errno=True).syscall

    def is_cached(self, fd: int, size: int, position: int) -> bool:
        """Whether all pages of the range are in the page cache."""
        self._range.offset, self._range.length = position, size
        arguments = (_CACHESTAT, fd, ctypes.byref(self._range), ctypes.byref(self._counts), 0)
        if self._syscall(*arguments) != 0:
            self.works = ctypes.get_errno() == errno.EINTR
            return False
        first, last = position // _PAGE_BYTES, (position + size - 1) // _PAGE_BYTES
        return int(self._counts.cache) == last - first + 1


class PooledSlice:
    """Bytes of a file to send to one socket. See `yak.ports.disk.FileSlice`."""

    __slots__ = ("_end", "_file", "_pool", "_position", "_truncations")

    def __init__(self, pool: "DescriptorPool", file: "PooledFile", size: int, position: int) -> None:
        self._pool = pool
        self._file = file
        self._position = position
        self._end = position + size
        self._truncations = len(file.truncated_to)

    def __len__(self) -> int:
        return self._end - self._position

    def __bytes__(self) -> bytes:
        """Read all of it. Raises OSError(EIO) when the file ends too early."""
        return self._read(len(self))

    def take(self, size: int) -> bytes:
        """Read the first `size` bytes, and remove them from the slice. Raises OSError(EIO) when the file ends too early."""
        data = self._read(size)
        self._position += size
        return data

    def _read(self, size: int) -> bytes:
        data = self._file.read(size, self._position)
        self._check(is_short=len(data) < size)
        return data

    def _check(self, *, is_short: bool = False) -> None:
        """Raise OSError(EIO) if the file ended inside of the slice, now or in between: other records may be there by now."""
        since = self._file.truncated_to[self._truncations :]
        if is_short or any(size < self._end for size in since):
            raise OSError(errno.EIO, "the file became shorter than its slice", self._file.path)

    def send(self, socket_fd: int) -> int:
        """Send as much as the socket takes, and remove it from the slice. Returns the bytes sent.

        Raises BlockingIOError when the socket takes none, OSError(EIO) when the file ends too early.
        """
        self._check()
        fd = self._pool.pin(self._file)
        try:
            sent = os.sendfile(socket_fd, fd, self._position, self._end - self._position)
        finally:
            self._pool.unpin(self._file)
        self._check(is_short=sent == 0)
        self._position += sent
        return sent
