"""What `yak ui --web` tells an app about files that its browser tab has sent. They lie in `yak.tui.produce.files.UPLOADS`."""

from pathlib import Path

from textual.message import Message


class FileUploaded(Message, bubble=False):
    """The tab has uploaded a file. Posted to the app, which passes it on to the screen that is seen."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
