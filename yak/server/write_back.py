"""Limits dirty pages: after every few MB of appends, a thread makes the kernel start writing them out.

Otherwise the page cache takes appends until the kernel's dirty limit, and then the event loop waits in a write
(measured: single appends of 330 to 720 ms on a busy disk). This is no durability, which only `File.sync` gives.
"""

import ctypes
import errno
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yak.server.descriptors import DescriptorPool, PooledFile

EVERY_BYTES = 8 * 1024 * 1024
_SYNC_FILE_RANGE_WRITE = 2
_SYNC_FILE_RANGE_WRITE_AND_WAIT = 7
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""These fail no write, and pass: the file waits for the next round."""
_NOT_SUPPORTED = (errno.ENOSYS, errno.EPERM)
"""An old kernel, or the sandbox of a container, has no such system call."""

if sys.platform == "darwin":
    import fcntl

    def sync_data(fd: int) -> None:
        """Make a file's bytes durable with F_FULLFSYNC: on macOS `fsync` stops at the drive's cache."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:

    def sync_data(fd: int) -> None:
        """Make a file's bytes, and its size, durable."""
        os.fdatasync(fd)


def _libc_sync_file_range() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).sync_file_range
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function


_sync_file_range = _libc_sync_file_range()


def start_write_out(fd: int) -> None:
    """Start writing the file's dirty pages; may wait for the device's queue. Raises OSError."""
    _write_out(fd, _SYNC_FILE_RANGE_WRITE)


def wait_for_write_out(fd: int) -> None:
    """Wait until the file has no dirty pages, without a flush of the device's cache. Raises OSError if a page was lost."""
    _write_out(fd, _SYNC_FILE_RANGE_WRITE_AND_WAIT)


def _write_out(fd: int, flags: int) -> None:
    if _sync_file_range is None:
        sync_data(fd)
    elif _sync_file_range(fd, 0, 0, flags) != 0:
        number = ctypes.get_errno()
        if number not in _NOT_SUPPORTED:
            raise OSError(number, os.strerror(number))
        sync_data(fd)


class WriteBack:
    """The files with appends since the last round, and the thread that starts their write-out.

    Appenders add to `files` and `dirty_bytes` without a lock. A round removes a file before its write-out, so that one
    added at any time is written out by this round or by the next one; a lost count only delays a round.
    """

    def __init__(self, pool: "DescriptorPool", every_bytes: int = EVERY_BYTES) -> None:
        self.every_bytes = every_bytes
        self.dirty_bytes = 0
        self.files: dict[PooledFile, None] = {}
        self.rounds = 0
        self._pool = pool
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._busy = False
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Begin a round in the thread; while it is busy, only reset the count."""
        self.dirty_bytes = 0
        if self._busy:
            return
        self._busy = True
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="write-back", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system starts no thread now: a later request tries again
                self._busy = False
                return
            self._thread = thread
        self._queue.put(None)

    def _run(self) -> None:
        while True:
            self._queue.get()
            for file in list(self.files):
                self.files.pop(file, None)
                self._write_out(file)
            self._busy = False
            self.rounds += 1

    def _write_out(self, file: "PooledFile") -> None:
        if file.removed:
            return
        try:
            fd = self._pool.pin(file)
            try:
                start_write_out(fd)
            finally:
                self._pool.unpin(file)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                self.files[file] = None
            else:
                # Keep it for the next append or sync: the kernel reports a failed write-back once.
                file.failure = error
