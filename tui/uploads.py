"""Message of `yak ui --web` about files uploaded by the browser tab.

The files are in `yak.tui.produce.files.UPLOADS`.
"""

from pathlib import Path

from textual.message import Message


class FileUploaded(Message, bubble=False):
    """The tab has uploaded a file. The message goes to the app, which forwards it to the visible screen."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
