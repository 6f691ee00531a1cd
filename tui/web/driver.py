"""The child's side of a tab: Textual's web driver, with a few things mended.

- The app ends when the server does: at the end of its input, also when the server was killed, so no child is left over.
- Each packet is written whole and alone. Textual writes frames from one thread and pieces of downloads from another, and
  a pipe takes long writes in parts: without a lock one could land within the other.
- Textual begins with the word that nobody looks, which often comes after the page's word that somebody does. An app that
  draws less while nobody looks would stay so, thus the page's word is said again.
- An upload of the same tab is told to the app, as `FileUploaded`.
"""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

from textual import events, messages
from textual.app import App
from textual.drivers.web_driver import WebDriver

from yak.tui.uploads import FileUploaded


class TabDriver(WebDriver):
    """Named to children in TEXTUAL_DRIVER by `yak.tui.web.session`."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._write = partial(write_whole, self.fileno, lock=threading.Lock())
        self._is_seen = False

    def start_application_mode(self) -> None:
        """Begin to draw."""
        super().start_application_mode()
        self._app.call_later(self._repeat_focus)

    def run_input_thread(self) -> None:
        """Read until the end of the input, then end the app."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """What the server says beside keys."""
        if packet_type == "uploaded":
            self._app.post_message(FileUploaded(Path(str(payload["path"]))))
            return
        if packet_type in ("focus", "blur"):
            self._is_seen = packet_type == "focus"
        super().on_meta(packet_type, payload)

    def _repeat_focus(self) -> None:
        if self._is_seen:
            self._app.post_message(events.AppFocus())


def write_whole(descriptor: int, data: bytes, *, lock: threading.Lock) -> int:
    """Write all of it with no other writer in between; its size. When nobody reads any more it is dropped."""
    with lock:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BrokenPipeError:
                break  # the end of the input follows, and with it ours
    return len(data)
