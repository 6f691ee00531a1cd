"""File and directory names that are not on the device yet: an undo journal of changes, in order.

Only `sync_directory` makes the changes in that directory durable. A sync of the file itself does not (POSIX promises no
more). A power loss undoes some of the other changes, the newest first, as a journalling file system loses its end.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from yak.ports.random_source import RandomSource
from yak.sim.disk_content import Content

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
    """All names of a disk, and the changes of them that may still be lost."""

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
        """A directory with its parents."""
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
        """Remove an empty directory's name."""
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
        kept: list[_Entry] = []
        gone: list[str] = []
        for entry in reversed(self._journal):
            if posixpath.dirname(entry.path) == directory:
                if entry.change is Change.REMOVED_DIRECTORY:
                    gone.append(entry.path + "/")
            elif not entry.path.startswith(tuple(gone)):
                kept.append(entry)
        self._journal = kept[::-1]

    def settle_all(self) -> None:
        """All changes are on the device."""
        self._journal.clear()

    def lose_power(self, rng: RandomSource) -> int:
        """Undo some of the changes that are not on the device, newest first. Returns how many names changed back."""
        count = len(self._journal)
        if not count:
            return 0
        kept = (count, 0, rng.below(count + 1))[rng.below(3)]
        lost = 0
        while len(self._journal) > kept:
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
