"""Directories for the file picker. Blocks: call it in a thread."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yak.errors import YakError

UPLOADS: Final = "YAK_UI_UPLOADS"
"""The directory of uploads in browser mode."""
ENTRIES_MAX: Final = 2_000
CSV_ENDINGS: Final = (".csv", ".tsv", ".txt")


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory or a file."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int = 0
    changed_ms: int = 0

    @property
    def is_likely(self) -> bool:
        """Whether its name is that of a CSV file."""
        return not self.is_directory and self.name.lower().endswith(CSV_ENDINGS) and ".rejected." not in self.name


def places(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Starting points as (label, directory): uploads if there are any, then the current directory, then home."""
    found = [("uploads", environ.get(UPLOADS, "")), ("here", os.getcwd()), ("home", os.path.expanduser("~"))]
    return [(label, path) for label, path in found if path and os.path.isdir(path)]


def directory_of(path: str) -> str:
    """The absolute path of a typed directory; `~` is home."""
    return os.path.abspath(os.path.expanduser(path))


def list_directory(path: str) -> list[Entry]:
    """The parent, directories, then files, CSV files first, each by name. Raises YakError (`file`)."""
    directory = directory_of(path)
    try:
        with os.scandir(directory) as found:
            entries = [_entry(each) for each in found if not each.name.startswith(".")]
    except OSError as error:
        raise YakError(
            "file", f"{directory} cannot be listed", why=str(error.strerror), try_=("type another path",)
        ) from None
    entries.sort(key=lambda each: (not each.is_directory, not each.is_likely, each.name.lower(), each.name))
    parent = os.path.dirname(directory)
    up = [] if parent == directory else [Entry("..", parent, is_directory=True)]
    return up + entries[:ENTRIES_MAX]


def complete_path(typed: str) -> str | None:
    """The first path that starts with the typed text; a directory's ends with a slash. None if there is none."""
    if not typed:
        return None
    directory, begun = os.path.split(os.path.expanduser(typed))
    try:
        entries = list_directory(directory or ".")
    except YakError:
        return None
    for entry in entries:
        if entry.name.startswith(begun) and entry.name != ".." and begun:
            return os.path.join(directory, entry.name) + (os.sep if entry.is_directory else "")
    return None


def _entry(found: "os.DirEntry[str]") -> Entry:
    try:
        known = found.stat()
        return Entry(found.name, found.path, found.is_dir(), known.st_size, int(known.st_mtime * 1000))
    except OSError:  # a broken link
        return Entry(found.name, found.path, is_directory=False)
