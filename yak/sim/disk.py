"""A file system in memory with power losses, failing calls and wrong bytes; seeded choices decide the outcomes.

A power loss keeps, loses or tears unsynced data (`Content`), and names as well (`Names`). After a failed sync no later
sync counts for that file. `kill` ends the process alone: everything written stays. Tests can also make any call fail, a
read return wrong bytes once, a write go to a wrong place, and a bit flip.
"""

from __future__ import annotations

import copy
import errno
import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from yak.ports.disk import Buffer, DiskFull
from yak.ports.random_source import RandomSource
from yak.protocol.record_batch import BATCH_LENGTH_MIN, HEADER_BYTES, read_header

SECTORS = (64, 512, 4096)
"""The unit of a device write: a cache line of persistent memory, a sector, a page."""


class Content:
    """A file's bytes in the page cache and on the device, and the outcome of a power loss.

    The device has the bytes of the last sync. Of later writes it may have all, none, a prefix, or single sectors. Missing
    sectors hold zeros, or the bytes from before a truncation. An unsynced truncation may be undone. Damage keeps the right
    bytes, for the checks and for repairs. `cut` holds truncated bytes that the device keeps until the next sync.
    """

    __slots__ = ("cut", "data", "is_broken", "modified_ms", "synced", "wounds")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = 0
        self.cut = b""
        self.is_broken = False
        """A sync failed: the page cache marks the bytes clean, and no later sync writes them to the device."""
        self.modified_ms = 0
        """When it was last written or truncated."""
        self.wounds: list[tuple[int, bytes]] = []
        """(position, right bytes), in the order of the damage."""

    def truncate(self, size: int) -> None:
        """Truncate the page cache; the next sync truncates the device."""
        if size < self.synced:
            self.cut = bytes(self.data[size : self.synced]) + self.cut
            self.synced = size
        del self.data[size:]
        self._forget_wounds(size)

    def damage(self, position: int, wrong: bytes) -> bool:
        """Replace bytes by wrong ones, as far as the file reaches. Returns whether they differ."""
        right = bytes(self.data[position : position + len(wrong)])
        wrong = wrong[: len(right)]
        if right == wrong:
            return False
        self.wounds.append((position, right))
        self.data[position : position + len(wrong)] = wrong
        return True

    def sound(self) -> bytearray:
        """The bytes without damage."""
        if not self.wounds:
            return self.data
        data = self.data[:]
        for position, right in reversed(self.wounds):
            data[position : position + len(right)] = right
        return data

    def _forget_wounds(self, size: int) -> None:
        self.wounds = [(position, right[: size - position]) for position, right in self.wounds if position < size]

    def sync(self) -> None:
        if not self.is_broken:
            self.synced = len(self.data)
            self.cut = b""

    def lose_power(self, rng: RandomSource) -> str:
        """Keep only the device's bytes. Returns the kind of tear, empty if there was nothing to lose."""
        self._forget_wounds(self.synced)
        tail = len(self.data) - self.synced
        if not tail and not self.cut:
            return ""
        kind = ("whole", "nothing", "prefix", "holes")[rng.below(4)]
        if kind == "nothing":
            self.data[self.synced :] = self.cut if rng.below(2) else b""
        elif kind == "prefix":
            del self.data[self.synced + rng.below(tail + 1) :]
        elif kind == "holes":
            self._tear(rng)
        self.cut = b""
        self.synced = len(self.data)
        return kind

    def _tear(self, rng: RandomSource) -> None:
        """Each sector of the unsynced tail reached the device or not; the file may also end anywhere in the tail."""
        sector, begin, end = SECTORS[rng.below(len(SECTORS))], self.synced, len(self.data)
        old = self.cut + bytes(max(0, end - begin - len(self.cut)))
        position = begin
        while position < end:
            following = min(end, (position // sector + 1) * sector)
            fate = rng.below(3)
            if fate == 1:
                self.data[position:following] = bytes(following - position)
            elif fate == 2:
                self.data[position:following] = old[position - begin : following - begin]
            position = following
        if rng.below(2):
            del self.data[begin + rng.below(end - begin + 1) :]


_T = TypeVar("_T")


class Change(Enum):
    """A change of a name."""

    MADE = "made"
    MADE_DIRECTORY = "made directory"
    REPLACED = "replaced"
    REMOVED = "removed"
    REMOVED_DIRECTORY = "removed directory"
    RENAMED = "renamed"


@dataclass(slots=True)
class _Entry:
    change: Change
    path: str
    content: Content | None
    """The content under that name before."""
    old: str
    """The name before a rename."""


class Names:
    """All names of a disk, and an undo journal of the changes of them that are not on the device yet, in order.

    Only `sync_directory` makes the changes in that directory durable. A sync of the file itself does not (POSIX promises
    no more). A power loss undoes some of the other changes, the newest first, as a journalling file system loses its end.
    """

    def __init__(self) -> None:
        self.files: dict[str, Content] = {}
        self.directories: dict[str, None] = {"/": None}
        self._journal: list[_Entry] = []

    def _note(self, change: Change, path: str, content: Content | None = None, old: str = "") -> None:
        self._journal.append(_Entry(change, path, content, old))

    def make(self, path: str) -> Content:
        """A new, empty file; it replaces a file of that name."""
        content, before = Content(), self.files.get(path)
        self.files[path] = content
        self._note(Change.MADE if before is None else Change.REPLACED, path, before)
        return content

    def make_directory(self, path: str) -> None:
        missing = []
        while path not in self.directories:
            missing.append(path)
            path = posixpath.dirname(path)
        for each in reversed(missing):
            self.directories[each] = None
            # a mount point, or a directory that existed before the broker
            if posixpath.dirname(each) != "/":
                self._note(Change.MADE_DIRECTORY, each)

    def remove(self, path: str) -> None:
        """Remove a file's name; no error if it is absent."""
        content = self.files.pop(path, None)
        if content is not None:
            self._note(Change.REMOVED, path, content)

    def remove_directory(self, path: str) -> None:
        del self.directories[path]
        self._note(Change.REMOVED_DIRECTORY, path)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; it replaces a file of the new name."""
        before = self.files.pop(new, None)
        self._move(old, new)
        self._note(Change.RENAMED, new, before, old)

    def may_vanish(self, path: str) -> bool:
        """Whether a power loss may take away this name, or that of a directory above it."""
        made = (Change.MADE, Change.MADE_DIRECTORY, Change.RENAMED)
        return any(
            entry.change in made and (path == entry.path or path.startswith(entry.path + "/"))
            for entry in self._journal
        )

    def settle(self, directory: str) -> None:
        """The changes in one directory are on the device."""
        left: list[_Entry] = []
        gone: list[str] = []
        for entry in reversed(self._journal):
            if posixpath.dirname(entry.path) == directory:
                if entry.change is Change.REMOVED_DIRECTORY:
                    gone.append(entry.path + "/")
            elif not entry.path.startswith(tuple(gone)):
                left.append(entry)
        self._journal = left[::-1]

    def settle_all(self) -> None:
        self._journal.clear()

    def lose_power(self, rng: RandomSource) -> int:
        """Undo some of the changes that are not on the device, newest first. Returns how many names changed back."""
        count = len(self._journal)
        if not count:
            return 0
        left = (count, 0, rng.below(count + 1))[rng.below(3)]
        lost = 0
        while len(self._journal) > left:
            lost += self._undo(self._journal.pop())
        self._journal.clear()
        return lost

    def _undo(self, entry: _Entry) -> bool:
        """Returns whether there was something to undo: the directory may be gone for good."""
        path = entry.path
        match entry.change:
            case Change.MADE:
                return self.files.pop(path, None) is not None
            case Change.MADE_DIRECTORY:
                known = len(self.directories) + len(self.files)
                for names in (self.files, self.directories):
                    for name in [name for name in names if name == path or name.startswith(path + "/")]:
                        del names[name]
                return len(self.directories) + len(self.files) < known
            case Change.REMOVED_DIRECTORY:
                self.directories[path] = None
                return True
            case Change.RENAMED:
                if path not in self.files and path not in self.directories:
                    return False
                self._move(path, entry.old)
        if entry.content is not None and posixpath.dirname(path) in self.directories:
            self.files[path] = entry.content
        return True

    def _move(self, old: str, new: str) -> None:
        if old in self.files:
            self.files[new] = self.files.pop(old)
        elif old in self.directories:
            self.files = _moved(self.files, old, new)
            self.directories = _moved(self.directories, old, new)
            for entry in self._journal:
                entry.path = _follow(entry.path, old, new)
                entry.old = _follow(entry.old, old, new)


def _follow(path: str, old: str, new: str) -> str:
    """The new name of a path below a renamed directory."""
    return new + path[len(old) :] if path.startswith(old + "/") else path


def _moved(names: dict[str, _T], old: str, new: str) -> dict[str, _T]:
    """The same names after the rename of a directory."""
    return {_follow(name, old, new) if name != old else new: value for name, value in names.items()}


Tear = Callable[[int], int]
"""Of so many bytes to write, how many were written."""
_BEFORE_PERCENT: Final = 50
"""How often the last write does not even begin; otherwise it completes in part or as a whole, unknown to anyone."""


class ProcessEnded(BaseException):
    """The process is gone, so no handler in the broker may catch this."""


class Death(AbstractContextManager["Tear | None"]):
    """The end of a process before, during or right after one of its writes.

    Entered for each write; the process ends in the write after `writes_left` others.
    """

    def __init__(self, rng: RandomSource, writes_left: int) -> None:
        self._rng = rng
        self._writes_left = writes_left

    def __enter__(self) -> Tear | None:
        """The size of the partial append, if this is the last write. Raises ProcessEnded."""
        self._writes_left -= 1
        if self._writes_left >= 0:
            return None
        # later writes do not happen: a process that is gone runs no cleanup
        if self._writes_left < -1 or self._rng.below(100) < _BEFORE_PERCENT:
            raise ProcessEnded
        return lambda size_bytes: self._rng.below(size_bytes + 1)

    def __exit__(self, *_: object) -> None:
        """Raises ProcessEnded, whatever the outcome of the write."""
        if self._writes_left < 0:
            raise ProcessEnded


class _EndedProcess(AbstractContextManager["Tear | None"]):
    def __enter__(self) -> Tear | None:
        raise ProcessEnded

    def __exit__(self, *_: object) -> None:
        """Never entered."""


GONE: Final = _EndedProcess()
"""Entered for each write of a process that has ended: a cleanup in a thread of it must not happen."""
_NO_DEATH: Final = nullcontext(None)
_TOTAL_BYTES: Final = 2**40


class SimFile:
    """A handle on one file of a SimDisk."""

    __slots__ = ("_content", "_disk", "is_removed", "path")

    def __init__(self, disk: SimDisk, path: str, content: Content) -> None:
        self._disk = disk
        self.path = path
        """The name under which the file was opened, or its last rename."""
        self._content = content
        self.is_removed = False
        """The file was removed or replaced, and the handle has none any more."""

    def _check(self) -> None:
        if self.is_removed:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.path)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._check()
        self._disk.called("write", self.path)
        self._disk.may_fail("append", self.path)
        data = self._content.data
        before = len(data)
        with self._disk.writing as tear:
            self._content.modified_ms = self._disk.clock()
            for buffer in buffers:
                data += buffer
            if tear is not None:
                del data[before + tear(len(data) - before) :]
        return len(data) - before

    def read(self, size: int, position: int) -> bytes:
        self._check()
        self._disk.called("read", self.path)
        self._disk.may_fail("read", self.path)
        self._disk.reads[self.path] += 1
        return self._disk.maybe_garbled(self.path, bytes(memoryview(self._content.data)[position : position + size]))

    def read_cached(self, size: int, position: int) -> bytes | None:
        """Like `read`; None while `cached_bytes` says that the bytes are not in the page cache."""
        self._check()
        self._disk.reads[self.path] += 1
        cached = self._disk.cached_bytes
        if cached is not None:
            size = min(size, cached)
            if size <= 0 and position < len(self._content.data):
                return None
        return self._disk.maybe_garbled(self.path, bytes(memoryview(self._content.data)[position : position + size]))

    def slice_cached(self, size: int, position: int) -> SimSlice | None:
        """The bytes as a slice; None while they are not all in the page cache."""
        self._check()
        if self._disk.cached_bytes is not None or position + size > len(self._content.data):
            return None
        return SimSlice(self, size, position)

    def size(self) -> int:
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        """Truncate the file. A power loss before the next sync may undo it."""
        self._check()
        self._disk.called("write", self.path)
        self._disk.may_fail("truncate", self.path)
        with self._disk.writing:
            self._content.truncate(size)
            self._content.modified_ms = self._disk.clock()

    def sync(self) -> None:
        self._check()
        self._disk.called("sync", self.path)
        try:
            self._disk.may_fail("sync", self.path)
        except OSError:
            self._content.is_broken = True
            raise
        self._disk.syncs += 1
        with self._disk.writing:
            self._content.sync()
        self._disk.called("synced", self.path)

    def check_synced(self) -> None:
        """Raise EIO if a sync of the file system failed for this file."""
        self._check()
        self._disk.called("read", self.path)
        if self._content.is_broken:
            raise OSError(errno.EIO, errno.errorcode[errno.EIO], self.path)

    def close(self) -> None:
        """Do nothing: a handle has no resources."""

    def moved(self, old: str, new: str) -> None:
        """Follow a rename of the file or of a directory above it."""
        self.path = new if self.path == old else _follow(self.path, old, new)


@dataclass(frozen=True, slots=True)
class SimSlice:
    """Bytes of a SimFile that are read only when they are sent: they must still be in the file then."""

    _file: SimFile
    _size: int
    _position: int

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        data = self._file.read(self._size, self._position)
        assert len(data) == self._size, "a slice was sent after its bytes were cut off"
        return data


@dataclass(frozen=True, slots=True)
class SimLock:
    """A held lock of a SimDisk."""

    _disk: SimDisk
    _path: str

    def release(self) -> None:
        self._disk.locks.pop(self._path, None)


class SimDisk:
    """Files and directories by absolute name.

    `cached_bytes` bounds the bytes that `read_cached` finds (None: all, 0: none). `fail_next` makes the next call of a
    kind raise. `reads` counts the reads of each file.
    """

    def __init__(self) -> None:
        self._names = Names()
        self._handles: dict[str, SimFile] = {}
        self._failures: dict[str, list[tuple[str, int]]] = {}
        self._garbles: list[tuple[str, RandomSource]] = []
        self.locks: dict[str, None] = {}
        self.cached_bytes: int | None = None
        self.reads: Counter[str] = Counter()
        self.syncs = 0
        self.clock: Callable[[], int] = lambda: 0
        """The machine's wall clock in ms, by which writes of files are dated."""
        self.on_call: Callable[[str, str], None] | None = None
        """Gets each call that waits for the device or changes files, before it begins, while it is set."""
        self.observe_failure: Callable[[str, str], None] | None = None
        self.on_rename: Callable[[str], None] | None = None
        """Gets the old name before a file or directory is renamed."""
        self.writing: AbstractContextManager[Tear | None] = _NO_DEATH
        """Every write runs inside it: the process may end in one of them (`end_inside`)."""

    # --------------------------------------------------------------------------------------------------- faults

    def crash(self, rng: RandomSource) -> dict[str, int]:
        """Lose power, and all locks. Returns how many files lost unsynced data, by kind of tear, and how many names."""
        lost: Counter[str] = Counter()
        if count := self._names.lose_power(rng):
            lost["names"] = count
        for path in sorted(self._names.files):
            if kind := self._names.files[path].lose_power(rng):
                lost[kind] += 1
        self.kill()
        return dict(lost)

    def kill(self) -> None:
        """End the process that uses the disk: its writes stay; its locks, planned faults and failed syncs are cleared."""
        for content in self._names.files.values():
            content.is_broken = False
        self.locks.clear()
        self._failures.clear()
        self._garbles.clear()
        self._handles.clear()
        self.writing = _NO_DEATH

    def saved(self) -> Names:
        """A copy of all files as they are now, for `bring_back`."""
        names = copy.deepcopy(self._names)
        names.settle_all()
        for content in names.files.values():
            content.sync()
        return names

    def bring_back(self, saved: Names) -> None:
        """Put a saved copy in the place of all files, as from a backup. The process that used the disk is gone."""
        self._names = saved
        self.kill()

    def end_inside(self, death: Death | None) -> None:
        """The process ends by ProcessEnded in a later write; None cancels that."""
        self.writing = death or _NO_DEATH

    def fail_next(self, operation: str, error_number: int = errno.EIO, *, path_contains: str = "") -> None:
        """The next `append`, `read`, `sync`, `truncate`, `write_file`, `open` or `rename` on such a path raises this errno."""
        self._failures.setdefault(operation, []).append((path_contains, error_number))

    def called(self, call: str, path: str) -> None:
        """A call begins: a `read`, `sync`, `remove` or `rename`, or a `write` of any other kind. Or a sync ends (`synced`)."""
        if self.on_call is not None:
            self.on_call(call, path)

    def may_fail(self, operation: str, path: str) -> None:
        """Raise the failure that is planned for this call, if any."""
        ordered = self._failures.get(operation)
        if not ordered:
            return
        for index, (part, error_number) in enumerate(ordered):
            if part in path:
                del ordered[index]
                if self.observe_failure is not None:
                    self.observe_failure(operation, path)
                is_clean = operation in ("append", "write_file", "open", "rename") and error_number == errno.ENOSPC
                raise (DiskFull if is_clean else OSError)(error_number, errno.errorcode[error_number], path)

    def garble_next(self, rng: RandomSource, *, path_contains: str) -> None:
        """The next read of such a path that starts with a whole batch returns it with a wrong bit."""
        self._garbles.append((path_contains, rng))

    def maybe_garbled(self, path: str, data: bytes) -> bytes:
        """The bytes that a read returns."""
        if not self._garbles or not path.endswith(".log") or len(data) <= HEADER_BYTES:
            return data
        part, rng = self._garbles[0]
        # compaction may leave a batch without records
        if part not in path or not BATCH_LENGTH_MIN < read_header(data).batch_length <= len(data):
            return data
        self._garbles.pop()
        if self.observe_failure is not None:
            self.observe_failure("wrong bytes", path)
        changed = bytearray(data)
        end = min(len(data), read_header(data).size_bytes)
        changed[HEADER_BYTES + rng.below(end - HEADER_BYTES)] ^= 1 << rng.below(8)
        return bytes(changed)

    def peek(self, path: str, position: int) -> bytes:
        """A file's undamaged bytes from a position on, for checks: no call fails, and no read is counted."""
        return bytes(memoryview(self._names.files[path].sound())[position:])

    def contents(self) -> dict[str, Content]:
        return self._names.files

    def unsynced_logs(self) -> list[str]:
        """Segment files that a power loss may shorten or take away."""
        return [
            path
            for path, content in self._names.files.items()
            if path.endswith(".log") and (content.synced < len(content.data) or self._names.may_vanish(path))
        ]

    def is_durable(self, path: str) -> bool:
        """Whether a power loss leaves the file as it is."""
        content = self._names.files[path]
        return content.synced == len(content.data) and not content.cut and not self._names.may_vanish(path)

    def corrupt(self, path: str, position: int, value: int) -> None:
        """Set one byte of a file to another value, as a bad sector would."""
        self._names.files[path].data[position] = value

    # ------------------------------------------------------------------------------------------------ Disk port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.may_fail("open", path)
        content = self._names.files.get(path)
        if content is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file", path)
            self.called("write", path)
            self._need_parent(path)
            with self.writing:
                content = self._names.make(path)
        handle = self._handles.get(path)
        if handle is None:
            handle = self._handles[path] = SimFile(self, path, content)
        return handle

    def exists(self, path: str) -> bool:
        return path in self._names.files or path in self._names.directories

    def is_directory(self, path: str) -> bool:
        return path in self._names.directories

    def names(self, path: str) -> list[str]:
        if path not in self._names.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        prefix = path.rstrip("/") + "/"
        found = {
            name[len(prefix) :] for name in (*self._names.files, *self._names.directories) if name.startswith(prefix)
        }
        return sorted(name for name in found if name and "/" not in name)

    def file_sizes(self, path: str) -> list[tuple[str, int]]:
        """(name, size in bytes) of the plain files of a directory, sorted."""
        prefix, files = path.rstrip("/") + "/", self._names.files
        return [(name, len(files[prefix + name].data)) for name in self.names(path) if prefix + name in files]

    def modified_ms(self, path: str) -> int:
        return self._content(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._names.files[path].modified_ms = modified_ms

    def make_directory(self, path: str) -> None:
        self.called("write", path)
        with self.writing:
            self._names.make_directory(path)

    def read_file(self, path: str) -> bytes:
        self.called("read", path)
        self.may_fail("read", path)
        content = self._content(path)
        self.reads[path] += 1
        return bytes(content.data)

    def write_file(self, path: str, data: bytes) -> None:
        self.called("sync", path)
        self.may_fail("write_file", path)
        with self.writing:
            self._replace(path, data).sync()
            self._names.settle(posixpath.dirname(path))
        self.syncs += 1
        self.called("synced", path)

    def write_file_lazily(self, path: str, data: bytes) -> None:
        self.called("write", path)
        self.may_fail("write_file", path)
        with self.writing:
            self._replace(path, data)

    def rename(self, old: str, new: str) -> None:
        self.called("rename", old)
        if self.on_rename is not None:
            self.on_rename(old)
        self.may_fail("rename", old)
        if not self.exists(old):
            raise FileNotFoundError(errno.ENOENT, "No such file", old)
        if old == new:
            return
        is_file = not self.is_directory(old)
        with self.writing:
            self._names.rename(old, new)
        if is_file:
            self._drop_handle(new)
            if (moving := self._handles.pop(old, None)) is not None:
                moving.moved(old, new)
                self._handles[new] = moving
            return
        moved: dict[str, SimFile] = {}
        for path, handle in self._handles.items():
            if path == old or path.startswith(old + "/"):
                handle.moved(old, new)
            elif path == new or path.startswith(new + "/"):
                continue
            moved[handle.path] = handle
        self._handles = moved

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is absent. Its handles have no file any more, as on the real disk."""
        self.called("remove", path)
        with self.writing:
            self._names.remove(path)
        self._drop_handle(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it; no error if it is absent."""
        self.called("remove", path)
        prefix = path + "/"
        for name in [name for name in self._names.files if name.startswith(prefix)]:
            self.remove(name)
        for name in sorted(self._names.directories, reverse=True):
            if name == path or name.startswith(prefix):
                with self.writing:
                    self._names.remove_directory(name)

    def sync_directory(self, path: str) -> None:
        self.called("sync", path)
        self.may_fail("sync", path)
        with self.writing:
            self._names.settle(path)
        self.called("synced", path)

    def sync_file_system(self, path: str) -> None:
        self.called("sync", path)
        self.may_fail("sync", path)
        with self.writing:
            self._names.settle_all()
            for name, content in self._names.files.items():
                if name.endswith(".log") and content.synced < len(content.data):
                    try:
                        self.may_fail("sync", name)
                    except OSError:
                        # as in older kernels, only `check_synced` reports it
                        content.is_broken = True
                content.sync()
        self.called("synced", path)

    def free_bytes(self, path: str) -> int:  # noqa: ARG002
        return _TOTAL_BYTES - sum(len(content.data) for content in self._names.files.values())

    def total_bytes(self, path: str) -> int:  # noqa: ARG002
        return _TOTAL_BYTES

    def lock(self, path: str) -> SimLock:
        """Take a lock file. Raises BlockingIOError if it is locked."""
        self._need_parent(path)
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        if path not in self._names.files:
            self._names.make(path)
        self.locks[path] = None
        return SimLock(self, path)

    # ------------------------------------------------------------------------------------------------ internals

    def _content(self, path: str) -> Content:
        if path not in self._names.files:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return self._names.files[path]

    def _need_parent(self, path: str) -> None:
        if posixpath.dirname(path) not in self._names.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)

    def _replace(self, path: str, data: bytes) -> Content:
        self._need_parent(path)
        content = self._names.make(path)
        content.data += data
        self._drop_handle(path)
        return content

    def _drop_handle(self, path: str) -> None:
        handle = self._handles.pop(path, None)
        if handle is not None:
            handle.is_removed = True
