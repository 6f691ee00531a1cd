"""The child's side of a tab: Textual's web driver with some fixes.

- The app ends at the end of its input, even if the server was killed, so that no child is left over.
- Each packet is written whole. Textual writes frames from one thread and downloads from another, and long writes to a
  pipe are split: without a lock they could interleave.
- Textual starts with a blur event, which often arrives after the page's focus event. The app would go on drawing
  seldom, so the page's focus event is repeated.
- The app is notified of an upload of the same tab by `FileUploaded`.
- The terminal gets the theme's background, for the part of the page that no cell covers.
"""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

from textual import events, messages
from textual.app import App
from textual.drivers.web_driver import WebDriver
from textual.theme import Theme

from yak.tui.screens.base import FileUploaded


class TabDriver(WebDriver):
    """The driver that `yak.tui.web.session` names to children in TEXTUAL_DRIVER."""

    def __init__(self, app: App[Any], **how: Any) -> None:
        super().__init__(app, **how)
        self._write = partial(write_whole, self.fileno, lock=threading.Lock())
        self._is_seen = False

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._app.call_later(self._repeat_focus)
        self._app.call_later(self._follow_theme)

    def run_input_thread(self) -> None:
        """Read until the end of the input, then end the app."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        if packet_type == "uploaded":
            self._app.post_message(FileUploaded(Path(str(payload["path"]))))
            return
        if packet_type in ("focus", "blur"):
            self._is_seen = packet_type == "focus"
        super().on_meta(packet_type, payload)

    def _repeat_focus(self) -> None:
        if self._is_seen:
            self._app.post_message(events.AppFocus())

    def _follow_theme(self) -> None:
        self._app.theme_changed_signal.subscribe(self._app, self._send_background)
        self._send_background(self._app.current_theme)

    def _send_background(self, theme: Theme) -> None:
        """Set the terminal's background with OSC 11; a theme of the terminal's own colours resets it with OSC 111."""
        self.write("\x1b]111\x1b\\" if theme.ansi else f"\x1b]11;{self._app.theme_variables['background']}\x1b\\")


def write_whole(descriptor: int, data: bytes, *, lock: threading.Lock) -> int:
    """Write everything without another writer in between; returns the size. Without a reader the data is dropped."""
    with lock:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BrokenPipeError:
                break  # the input ends next, and with it the app
    return len(data)
