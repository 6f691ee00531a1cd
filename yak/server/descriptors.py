"""A bounded pool of file descriptors behind any number of `PooledFile` handles.

A broker has several files for each of thousands of partitions, far more than a process may open. A handle opens its
file on use. It loses the descriptor when the pool is full and other files were used more recently (the second chance
rule). A descriptor in use is never closed: the kernel reuses its number, and a write would go to another file.

Two rules ensure that. Every operation but `append` pins the descriptor under the pool's lock. `append` is the hot path
and takes no lock: it sets `appending` *before* it reads `fd`, and eviction clears `fd` *before* it reads `appending`.
At least one of the two sees the other, since the global interpreter lock, which the pool asserts, orders attribute
accesses. So only one thread at a time may append to a file; the storage layer ensures that anyway.
"""

import errno
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from yak.limits import PEERS_PROVING_MAX, PEERS_RESERVED
from yak.ports.disk import Buffer, DiskFull
from yak.private_files import FILE_MODE
from yak.server.cached_reads import PLAIN, UNKNOWN, read_nowait
from yak.server.file_slices import CacheStat, PooledSlice
from yak.server.write_back import WriteBack, sync_data, wait_for_write_out

_POOL_MAX = 4096
_OTHERS = 64
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
IOV_MAX = os.sysconf("SC_IOV_MAX")


class PooledFile:
    """One file of the real disk, see `yak.ports.disk.File`; only `RealDisk.open` creates it.

    The pool and the write-back thread use the public attributes below `path`.
    """

    __slots__ = (
        "__weakref__",
        "_nowait",
        "_pool",
        "_write_back",
        "appending",
        "failure",
        "fd",
        "path",
        "pins",
        "recent",
        "removed",
        "truncated_to",
    )

    def __init__(self, path: str, pool: "DescriptorPool", write_back: WriteBack) -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.appending = False
        self.recent = False
        self.removed = False
        self.truncated_to: tuple[int, ...] = ()
        self.failure: OSError | None = None
        self._pool = pool
        self._write_back = write_back
        self._nowait = UNKNOWN

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers with one `writev` (several past IOV_MAX or 2 GiB). Returns the number of bytes.

        Raises OSError: that of the write, after the file is truncated to its old size, or an earlier failure of
        background write-back.
        """
        if self.failure is not None:
            raise self.failure
        total = sum(map(len, buffers))
        self.appending = True
        try:
            fd = self.fd
            if fd < 0:
                fd = self._pool.open_for(self, pin=False)
            written = _first_write(fd, buffers)
            if written != total:
                _append_rest(fd, buffers, written, total)
        except OSError as error:
            error.filename = error.filename or self.path
            raise
        finally:
            self.appending = False
            if self.removed:  # `forget` left the descriptor to this append
                self._pool.forget(self)
        self.recent = True
        write_back = self._write_back
        write_back.files[self] = None
        write_back.dirty_bytes += total
        if write_back.dirty_bytes >= write_back.every_bytes:
            write_back.request()
        return total

    def read(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes from `position`; may wait for the device."""
        fd = self._pool.pin(self)
        try:
            return os.pread(fd, size, position)
        finally:
            self._pool.unpin(self)

    def read_cached(self, size: int, position: int) -> bytes | None:
        """The cached part of `size` bytes from `position`, None if nothing is. May wait only without RWF_NOWAIT."""
        fd = self._pool.pin(self)
        try:
            if self._nowait != PLAIN:
                self._nowait, data = read_nowait(fd, size, position, self._nowait)
                if self._nowait != PLAIN:
                    return data
            return os.pread(fd, size, position)
        finally:
            self._pool.unpin(self)

    def slice_cached(self, size: int, position: int) -> PooledSlice | None:
        """The bytes as a slice for `sendfile`; None unless the kernel reports all of them cached."""
        pool = self._pool
        if not pool.cache_stat.works:
            return None
        fd = pool.pin(self)
        try:
            is_cached = pool.cache_stat.is_cached(fd, size, position)
        finally:
            pool.unpin(self)
        return PooledSlice(pool, self, size, position) if is_cached else None

    def size(self) -> int:
        """The file's size in bytes."""
        if self.fd < 0 and not self.removed:
            return os.stat(self.path).st_size
        fd = self._pool.pin(self)
        try:
            return os.fstat(fd).st_size
        finally:
            self._pool.unpin(self)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        fd = self._pool.pin(self)
        self.truncated_to += (size,)
        try:
            os.ftruncate(fd, size)
        finally:
            self._pool.unpin(self)

    def sync(self) -> None:
        """Make all earlier appends durable. Also raises an earlier write-back failure."""
        self._sync(sync_data)

    def check_synced(self) -> None:
        """After a sync of the file system: raise an earlier write-back failure, or one that no call reported yet."""
        self._sync(wait_for_write_out)

    def _sync(self, sync: Callable[[int], None]) -> None:
        fd = self._pool.pin(self)
        try:
            sync(fd)
            if self.failure is not None:
                # The kernel reported this failure to the background thread, and does not report it again.
                raise self.failure
        finally:
            self._pool.unpin(self)

    def close(self) -> None:
        """Close the descriptor; the next use opens the file again."""
        self._pool.close_descriptor(self)


class DescriptorPool:
    """At most `limit` open descriptors, or more while more are in use at once."""

    def __init__(self, limit: int) -> None:
        # By getattr, since Python has it from 3.13 on, the first version that can run without the lock.
        has_gil: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
        assert has_gil is None or has_gil(), (
            "YAK's files need Python's global interpreter lock: use a standard build of Python, or run with PYTHON_GIL=1"
        )
        self.limit = limit
        self.cache_stat = CacheStat()
        """Only the event loop's thread uses it."""
        self._lock = threading.Lock()
        self._open: OrderedDict[PooledFile, None] = OrderedDict()
        """The files with a descriptor, in the order of the second chance rule."""

    def pin(self, file: PooledFile) -> int:
        """The file's descriptor, which stays open until `unpin`."""
        with self._lock:
            fd = file.fd
            if fd >= 0:
                file.pins += 1
                file.recent = True
                return fd
        return self.open_for(file, pin=True)

    def unpin(self, file: PooledFile) -> None:
        """End one use of the descriptor."""
        with self._lock:
            file.pins -= 1
            if file.removed and file.pins == 0 and file.fd >= 0 and not file.appending:
                self._close_now(file)

    def open_for(self, file: PooledFile, *, pin: bool, create: bool = False) -> int:
        """Open the file unless another thread just did. Returns its descriptor."""
        fd = self._open_path(file, create)
        with self._lock:
            if file.fd >= 0:
                os.close(fd)
            else:
                file.fd = fd
                self._open[file] = None
            file.recent = True
            file.pins += pin
            fd = file.fd
            if len(self._open) > self.limit:
                # The pin protects the new descriptor; `appending` protects that of an append.
                file.pins += 1
                self._evict(len(self._open) - self.limit)
                file.pins -= 1
        return fd

    def close_descriptor(self, file: PooledFile) -> None:
        """Close the file's descriptor, unless it is in use (the pool closes it later)."""
        with self._lock:
            if file.fd >= 0 and file.pins == 0:
                self._close_now(file)

    def forget(self, file: PooledFile) -> None:
        """The file was removed or replaced on disk: close its descriptor after its last use.

        `removed` is set before `appending` is read, and an append reads them in the other order: one of the two closes.
        """
        with self._lock:
            file.removed = True
            if file.fd >= 0 and file.pins == 0:
                self._close_now(file)

    def close_all(self) -> None:
        """Close all descriptors that are not in use."""
        with self._lock:
            self._evict(len(self._open), spare_recent=False)

    def _open_path(self, file: PooledFile, create: bool) -> int:
        for attempt in range(3):
            path = file.path
            if file.removed:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            try:
                fd = os.open(path, _OPEN_FLAGS | (os.O_CREAT if create else 0), FILE_MODE)
                if file.path == path:
                    return fd
                os.close(fd)  # it was renamed meanwhile: another file may have its name
            except FileNotFoundError:
                if file.path == path:
                    raise
            except OSError as error:
                raise_full(error)  # a failed creation leaves no file
                if error.errno not in (errno.EMFILE, errno.ENFILE) or attempt:
                    raise
                with self._lock:
                    self._evict(max(1, len(self._open) // 2), spare_recent=False)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.path)

    def _evict(self, wanted: int, *, spare_recent: bool = True) -> None:
        for _ in range(2 * len(self._open)):
            if wanted <= 0:
                return
            file = self._open.popitem(last=False)[0]
            if file.pins or (spare_recent and file.recent and not file.removed):
                file.recent = False
                self._open[file] = None
            elif self._close_now(file):
                wanted -= 1
            else:
                self._open[file] = None

    def _close_now(self, file: PooledFile) -> bool:
        fd, file.fd = file.fd, -1
        if file.appending:
            file.fd = fd
            return False
        self._open.pop(file, None)
        os.close(fd)
        return True


def raise_full(error: OSError) -> None:
    """Raise DiskFull if the error of a write that left nothing behind means a full disk or quota."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFull(error.errno, error.strerror, error.filename) from error


def _first_write(fd: int, buffers: Sequence[Buffer]) -> int:
    try:
        return os.writev(fd, buffers if len(buffers) <= IOV_MAX else buffers[:IOV_MAX])
    except OSError as error:
        raise_full(error)  # a failed write wrote nothing
        raise


def _append_rest(fd: int, buffers: Sequence[Buffer], written: int, total: int) -> None:
    """Continue after a short write; on failure truncate the file to its size before `written`."""
    start = os.fstat(fd).st_size - written
    rest = [memoryview(buffer).cast("B") for buffer in buffers]
    done = written
    step = written
    try:
        while done < total:
            while rest and step >= len(rest[0]):
                step -= len(rest.pop(0))
            if step:
                rest[0] = rest[0][step:]
            step = os.writev(fd, rest[:IOV_MAX])
            if step == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += step
    except OSError as error:
        try:
            os.ftruncate(fd, start)
        except OSError:
            raise error from None
        raise_full(error)
        raise


class DescriptorShares(NamedTuple):
    """How many open files each part of the broker may have."""

    files: int
    """Those of the pool."""
    clients: int
    """Connections of clients; at least 16, though a very low limit does not have so many."""
    peers_proving: int
    """Connections that no broker has authenticated yet (`yak.server.peer_reserve`)."""


def share_out(limit: int) -> DescriptorShares:
    """Share out the open files of this process: what the rest leaves is divided between files and clients.

    The rest is the store, the listeners, Python, and other brokers.
    """
    peers_proving = min(PEERS_PROVING_MAX, max(4, limit // 16))
    left = limit - _OTHERS - PEERS_RESERVED - peers_proving
    files = max(16, min(left // 2, _POOL_MAX))
    return DescriptorShares(files, max(16, left - files), peers_proving)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit. Returns the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard
    if sys.platform == "darwin" and (hard == resource.RLIM_INFINITY or hard > 10_240):
        wanted = 10_240  # kern.maxfilesperproc; macOS refuses "unlimited"
    if soft == resource.RLIM_INFINITY:
        soft = wanted
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):
            pass
    return soft
