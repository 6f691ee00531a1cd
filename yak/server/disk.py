"""The real file system behind `yak.ports.disk`."""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import sys
import threading
import weakref

from yak import private_files
from yak.ports.disk import File, Lock
from yak.server.descriptors import DescriptorPool, PooledFile, raise_descriptor_limit, raise_full, share_out
from yak.server.write_back import EVERY_BYTES, WriteBack, sync_data
from yak.storage.names import META_PROPERTIES

_SYNC_VOLUME_FULL_AND_WAIT = 3
"""SYNC_VOLUME_FULLSYNC and SYNC_VOLUME_WAIT of macOS's unistd.h."""


class RealDisk:
    """See `yak.ports.disk.Disk`. Thread-safe, but only one thread at a time may append to a file.

    Each name has one handle: opening it again returns the same object, so that renames and removals reach it.
    """

    def __init__(self, *, max_open_files: int | None = None, write_back_every_bytes: int = EVERY_BYTES) -> None:
        if max_open_files is None:
            max_open_files = share_out(raise_descriptor_limit()).files
        self.pool = DescriptorPool(max_open_files)
        self.write_back = WriteBack(self.pool, write_back_every_bytes)
        self._names_lock = threading.Lock()
        self._files: weakref.WeakValueDictionary[str, PooledFile] = weakref.WeakValueDictionary()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. Raises FileNotFoundError when it is absent and `create` is false."""
        with self._names_lock:
            file = self._files.get(path)
            if file is None:
                file = PooledFile(path, self.pool, self.write_back)
                self._files[path] = file
        if create:
            if file.fd < 0:
                self.pool.open_for(file, pin=False, create=True)
        elif file.fd < 0:
            os.stat(path)
        return file

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Whether the name is a directory."""
        return os.path.isdir(path)

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return sorted(os.listdir(path))

    def file_sizes(self, path: str) -> list[tuple[str, int]]:
        """(name, bytes) of the plain files of a directory, sorted by name."""
        with os.scandir(path) as entries:
            return sorted((entry.name, entry.stat().st_size) for entry in entries if entry.is_file())

    def modified_ms(self, path: str) -> int:
        """When a file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set that time."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, readable by their owner only; no error when it exists."""
        try:
            private_files.make_directory(path, is_ours=_is_data_directory)
        except OSError as error:
            raise_full(error)
            raise

    def read_file(self, path: str) -> bytes:
        """Read a whole small file."""
        with open(path, "rb") as stream:
            return stream.read()

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably."""
        self._replace(path, data, durable=True)

    def write_file_lazily(self, path: str, data: bytes) -> None:
        """Replace a small file atomically, without a sync."""
        self._replace(path, data, durable=False)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; handles of it, and below it, follow."""
        with self._names_lock:
            try:
                os.rename(old, new)
            except OSError as error:
                raise_full(error)
                raise
            self._move_handle(old, new)
            if os.path.isdir(new):
                for directory, _, names in os.walk(new):
                    below = directory[len(new) :]
                    for name in names:
                        self._move_handle(f"{old}{below}/{name}", f"{directory}/{name}")

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is absent."""
        with self._names_lock:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            self._drop_handle(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its content; no error when it is absent."""
        for directory, _, names in os.walk(path):
            with self._names_lock:
                for name in names:
                    self._drop_handle(f"{directory}/{name}")
        import shutil  # imported when it is needed: brokers start without it

        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        """Make the directory's entries durable."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file_system(self, path: str) -> None:
        """Make all changes on the file system of `path` durable (Linux: syncfs; macOS: sync_volume_np)."""
        if sys.platform == "darwin":
            failure = _libc().sync_volume_np(os.fsencode(path), _SYNC_VOLUME_FULL_AND_WAIT)
        else:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                failure = _libc().syncfs(fd)
            finally:
                os.close(fd)
        if failure:
            # sync_volume_np returns the error number
            number = failure if failure > 0 else ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)

    def free_bytes(self, path: str) -> int:
        """Bytes that an unprivileged process may still write there."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Size of the file system in bytes."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> Lock:
        """Lock the file for this process and write its process id to it.

        Raises BlockingIOError with the holder's process id when another process, or another call here, has the lock.
        """
        fd = private_files.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip()
            os.close(fd)
            raise BlockingIOError(errno.EAGAIN, f"held by process {holder or 'unknown'}", path) from None
        except OSError:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return FileLock(fd)

    def _replace(self, path: str, data: bytes, *, durable: bool) -> None:
        temporary = f"{path}.tmp"
        try:
            _write_whole(temporary, data, durable=durable)
            with self._names_lock:
                os.rename(temporary, path)
                self._drop_handle(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(temporary)
            raise_full(error)  # also after a failed sync: the target file is unchanged
            raise
        if durable:
            self.sync_directory(os.path.dirname(path) or ".")

    def _move_handle(self, old: str, new: str) -> None:
        self._drop_handle(new)
        file = self._files.pop(old, None)
        if file is not None:
            file.path = new
            self._files[new] = file

    def _drop_handle(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            self.pool.forget(file)


def _write_whole(path: str, data: bytes, *, durable: bool) -> None:
    fd = _create(path)
    try:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from error
        if durable:
            sync_data(fd)
    finally:
        os.close(fd)


class FileLock:
    """A held flock; the end of the process releases it in any case."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _is_data_directory(names: list[str]) -> bool:
    return META_PROPERTIES in names


def _create(path: str) -> int:
    """Create a file, in place of one that a crash or another user left there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, private_files.FILE_MODE)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, flags, private_files.FILE_MODE)
