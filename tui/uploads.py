"""Files that came through the browser, for the screens that read files.

The server of `yak ui --web` keeps what was uploaded in one directory and names it to each child in YAK_UI_UPLOADS. In a
terminal the variable is not set and there are none.
"""

import os
from pathlib import Path
from typing import Final

from textual.message import Message

VARIABLE: Final = "YAK_UI_UPLOADS"


class FileUploaded(Message):
    """The browser tab of this app has uploaded a file. Posted to the app."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


def uploads_directory() -> Path | None:
    """Where uploads are, or None in a terminal."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def uploaded_files() -> list[Path]:
    """What was uploaded and is still there, newest first. Empty in a terminal."""
    directory = uploads_directory()
    if directory is None:
        return []
    try:
        found = [
            (-entry.stat().st_mtime_ns, entry.name, Path(entry.path))
            for entry in os.scandir(directory)
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")
        ]
    except OSError:
        return []  # the server ended and took them along
    return [path for _, _, path in sorted(found)]
