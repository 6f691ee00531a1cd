"""The port for the disk: real in `yak.server.disk`, simulated in `yak.sim.disk`.

`read`, `sync`, `write_file`, `sync_directory` and `remove_tree` may wait for the device. A serving broker runs them
only in a `RunJob` effect. `append` goes to the page cache and runs in the step.

Every method raises plain `OSError`; the caller knows the log directory.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class FileSlice(Protocol):
    """A range of bytes in a file that the kernel can send without a copy in this process.

    It holds whole batches below the high watermark. Reading it fails once the file was truncated below its end.
    """

    def __len__(self) -> int:
        """Bytes in the slice."""

    def __bytes__(self) -> bytes:
        """The bytes; reads the file, and may wait for the device."""


Part: TypeAlias = Buffer | FileSlice
"""A piece of an answer."""


class DiskFull(OSError):
    """The disk has no room for the write, and everything is as it was before the call: the caller may retry.

    A sync that fails for lack of room is no DiskFull: the data may be gone.
    """


class File(Protocol):
    """One file, opened by name. Cheap to keep: an implementation has few open descriptors and reopens at need."""

    @property
    def path(self) -> str:
        """The name it was opened by, or was last renamed to with `Disk.rename`."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers to the file with one call; returns the bytes written, always all of them.

        Raises DiskFull when nothing was written or a partial write was truncated; else OSError (EIO, or ENOSPC without
        that).
        """

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; shorter at the end of the file. May wait for the device."""

    def read_cached(self, size: int, position: int) -> bytes | None:
        """Like `read` but never waits: None when nothing is in the page cache, shorter when only the beginning is."""

    def slice_cached(self, size: int, position: int) -> FileSlice | None:
        """Exactly `size` bytes from `position` as a slice; None when not all are known to be in the page cache."""

    def size(self) -> int:
        """Bytes in the file now."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def sync(self) -> None:
        """Make everything appended before this call durable (fdatasync). Called from a job's thread."""

    def check_synced(self) -> None:
        """Raise the error of an append that `Disk.sync_file_system` could not make durable, since not every kernel reports
        it there. Much faster than `sync`.
        """

    def close(self) -> None:
        """Close the descriptor. The object may be used again: it reopens."""


class Lock(Protocol):
    """A lock on a directory, until `release` or the end of the process."""

    def release(self) -> None:
        """Release the lock."""


class Disk(Protocol):
    """A file system. Names are plain strings with `/`; listings are sorted, so that runs are deterministic."""

    def open(self, path: str, *, create: bool = False) -> File:
        """A file by name; FileNotFoundError when it is absent and `create` is false."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""

    def is_directory(self, path: str) -> bool:
        """Whether the name is a directory."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def file_sizes(self, path: str) -> list[tuple[str, int]]:
        """(name, size in bytes) of the plain files of a directory, sorted; one system call a file at most."""

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in ms of the machine's wall clock."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set that time, for a file that replaces another one."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error when it exists."""

    def read_file(self, path: str) -> bytes:
        """A whole small file."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably: write `<path>.tmp`, sync, rename, sync the directory.

        Every file can be read by this process's user alone (mode 0600).
        """

    def write_file_lazily(self, path: str, data: bytes) -> None:
        """Replace a small file atomically, without any sync: for data that recovery can rebuild."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; open `File`s below it keep working under the new name.

        Raises DiskFull when the directory has no room for the name.
        """

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is absent. Its handles raise FileNotFoundError from then on."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all in it; no error when it is absent."""

    def sync_directory(self, path: str) -> None:
        """Make the directory's entries durable."""

    def sync_file_system(self, path: str) -> None:
        """Make all writes and names on the file system of `path` durable: for many small files at once."""

    def free_bytes(self, path: str) -> int:
        """Bytes an ordinary process may still write on that file system."""

    def total_bytes(self, path: str) -> int:
        """Size of that file system in bytes."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path` for this process; raises BlockingIOError when another one holds it."""
