"""Files that are cheap to hold: a bounded pool of descriptors behind any number of `PooledFile` handles.

A broker holds several files for each of thousands of partitions, far more than a process may have open. A handle opens
its file when it is used and loses the descriptor when the pool is full and others were used more recently (the second
chance rule). A descriptor that some thread is using is never closed: a closed number is handed out again by the
kernel, and a write would land in another file.

Two rules keep that true. Every operation but `append` pins the descriptor under the pool's lock. `append` is the hot
path and takes no lock: it raises `appending` *before* it reads `fd`, and the evictor clears `fd` *before* it looks at
`appending`, so at least one of the two sees the other (under its global lock, which the pool asserts, the interpreter
executes attribute accesses in order). It follows that one file is appended to by one thread at a time, which is the storage layer's rule anyway.
"""

import errno
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from yak.private_files import FILE_MODE
from yak.seams.disk import Buffer, DiskFull
from yak.server.cached_reads import PLAIN, UNKNOWN, read_nowait
from yak.server.file_slices import CacheStat, PooledSlice
from yak.server.write_back import WriteBack, sync_data

_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
try:
    IOV_MAX = os.sysconf("SC_IOV_MAX")
except (ValueError, OSError):  # pragma: no cover - every supported platform names it
    IOV_MAX = 1024
if IOV_MAX <= 0:  # pragma: no cover - "no limit" is spelled -1
    IOV_MAX = 1024


class PooledFile:
    """One file of the real disk, see `yak.seams.disk.File`; made by `RealDisk.open` only.

    The public attributes below `path` belong to the pool and the write-back thread.
    """

    __slots__ = (
        "__weakref__",
        "_nowait",
        "_pool",
        "_write_back",
        "appending",
        "dirty_bytes",
        "failure",
        "fd",
        "path",
        "pins",
        "recent",
        "removed",
    )

    def __init__(self, path: str, pool: "DescriptorPool", write_back: WriteBack) -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.appending = False
        self.recent = False
        self.removed = False
        self.failure: OSError | None = None
        self.dirty_bytes = 0
        self._pool = pool
        self._write_back = write_back
        self._nowait = UNKNOWN

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end with one `writev` (more only past IOV_MAX or 2 GiB); returns their bytes.

        Raises OSError: what the write raised, after the file was cut back to where it was; or an earlier failure of
        background write-back, once the kernel has told of it.
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
        self.recent = True
        write_back = self._write_back
        if self.dirty_bytes == 0:
            write_back.files.append(self)
        self.dirty_bytes += total
        write_back.dirty_bytes += total
        if write_back.dirty_bytes >= write_back.every_bytes:
            write_back.request()
        return total

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`, from the device if need be."""
        fd = self._pool.pin(self)
        try:
            return os.pread(fd, size, position)
        finally:
            self._pool.unpin(self)

    def read_cached(self, size: int, position: int) -> bytes | None:
        """What the page cache has of `size` bytes from `position`; None when it has nothing. Never waits."""
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
        """The bytes as a slice for `sendfile`; None when not all are cached, or the kernel cannot be asked."""
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
        """Bytes in the file now."""
        if self.fd < 0 and not self.removed:
            return os.stat(self.path).st_size
        fd = self._pool.pin(self)
        try:
            return os.fstat(fd).st_size
        finally:
            self._pool.unpin(self)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        fd = self._pool.pin(self)
        try:
            os.ftruncate(fd, size)
        finally:
            self._pool.unpin(self)

    def sync(self) -> None:
        """Make everything appended before this call durable; raises an earlier write-back failure too."""
        fd = self._pool.pin(self)
        try:
            sync_data(fd)
            if self.failure is not None:
                # The background thread was told of this failure, so the kernel does not tell it again.
                raise self.failure
        finally:
            self._pool.unpin(self)

    def close(self) -> None:
        """Give back the descriptor; the next use opens the file again."""
        self._pool.close_descriptor(self)


class DescriptorPool:
    """At most `limit` open descriptors (more only while more than that are in use at once)."""

    def __init__(self, limit: int) -> None:
        # Named by getattr: Python has it from 3.13 on, the first version that can run without the lock.
        has_gil: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
        assert has_gil is None or has_gil(), (
            "YAK's files need Python's global interpreter lock: take a usual build of Python, or run with PYTHON_GIL=1"
        )
        self.limit = limit
        self.cache_stat = CacheStat()
        """Used by the loop's thread only."""
        self._lock = threading.Lock()
        self._open: OrderedDict[PooledFile, None] = OrderedDict()
        self._count = 0

    @property
    def open_count(self) -> int:
        """Descriptors open now."""
        return self._count

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
        """Open the file if nobody else just did; returns its descriptor."""
        fd = self._open_path(file, create)
        with self._lock:
            if file.fd >= 0:
                os.close(fd)
            else:
                file.fd = fd
                self._open[file] = None
                self._count += 1
            file.recent = True
            file.pins += pin
            fd = file.fd
            if self._count > self.limit:
                # The new one is spared by its pin; an appender's by the flag it has raised.
                file.pins += 1
                self._evict(self._count - self.limit)
                file.pins -= 1
        return fd

    def close_descriptor(self, file: PooledFile) -> None:
        """Close the file's descriptor unless a thread is using it (the pool closes it later then)."""
        with self._lock:
            if file.fd >= 0 and file.pins == 0:
                self._close_now(file)

    def forget(self, file: PooledFile) -> None:
        """The file was removed or replaced on disk: close its descriptor as soon as nobody uses it."""
        with self._lock:
            file.removed = True
            if file.fd >= 0 and file.pins == 0:
                self._close_now(file)

    def close_all(self) -> None:
        """Close every descriptor that is not in use."""
        with self._lock:
            self._evict(self._count, spare_recent=False)

    def _open_path(self, file: PooledFile, create: bool) -> int:
        for attempt in range(3):
            path = file.path
            if file.removed:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            try:
                return os.open(path, _OPEN_FLAGS | (os.O_CREAT if create else 0), FILE_MODE)
            except FileNotFoundError:
                if file.path == path:  # else it was renamed under us
                    raise
            except OSError as error:
                raise_full(error)  # a file that could not be created is not there
                if error.errno not in (errno.EMFILE, errno.ENFILE) or attempt:
                    raise
                with self._lock:
                    self._evict(max(1, self._count // 2), spare_recent=False)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file.path)

    def _evict(self, wanted: int, *, spare_recent: bool = True) -> None:
        for _ in range(2 * len(self._open)):
            if wanted <= 0:
                return
            file = self._open.popitem(last=False)[0]
            if file.fd < 0:
                continue
            if file.pins or (spare_recent and file.recent and not file.removed):
                file.recent = False
                self._open[file] = None
            elif self._close_now(file, in_ring=False):
                wanted -= 1
            else:
                self._open[file] = None

    def _close_now(self, file: PooledFile, *, in_ring: bool = True) -> bool:
        fd, file.fd = file.fd, -1
        if file.appending:
            file.fd = fd
            return False
        if in_ring:
            del self._open[file]
        self._count -= 1
        os.close(fd)
        return True


def raise_full(error: OSError) -> None:
    """Raise DiskFull for an error of a write that left nothing behind, if it says that there is no room."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFull(error.errno, error.strerror, error.filename) from error


def _first_write(fd: int, buffers: Sequence[Buffer]) -> int:
    try:
        return os.writev(fd, buffers if len(buffers) <= IOV_MAX else buffers[:IOV_MAX])
    except OSError as error:
        raise_full(error)  # a write that fails wrote nothing
        raise


def _append_rest(fd: int, buffers: Sequence[Buffer], written: int, total: int) -> None:
    """Go on after a short write; on failure cut the file back to where it was before `written`."""
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


def raise_descriptor_limit(pool_cap: int = 4096) -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one; returns (limit, how many the pool may use)."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard
    if sys.platform == "darwin" and (hard == resource.RLIM_INFINITY or hard > 10_240):
        wanted = 10_240  # kern.maxfilesperproc; "unlimited" is refused there
    elif hard == resource.RLIM_INFINITY:  # pragma: no cover - Linux has a finite hard limit
        wanted = 1_048_576
    if soft == resource.RLIM_INFINITY:
        soft = wanted
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):
            pass
    return soft, max(16, min(soft // 2, pool_cap))
