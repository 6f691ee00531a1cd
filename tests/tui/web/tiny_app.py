"""A small Textual app that stands for `yak ui` in the tests of its server: `python tiny_app.py [--deaf]`.

Three places that are reached by clicks, what was uploaded, a file to download; with --deaf it does not end when asked.
"""

import os
import sys
import time
from io import StringIO
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.events import AppBlur, AppFocus, Paste, Resize
from textual.widgets import Button, Label

from yak.errors import UsageError
from yak.tui.produce.files import list_directory
from yak.tui.screens.base import FileUploaded
from yak.tui.settings import UPLOADS

SCENES = {"meadow": "green grass grows", "river": "cold water runs", "stable": "warm hay lies"}


class TinyApp(App[None]):
    CSS = "Button { width: 20; height: 3; } Label { width: 60; }"
    BINDINGS: ClassVar = [
        ("q", "quit", ""),
        ("x", "export", ""),
        ("f", "fail", ""),
        ("u", "uploads", ""),
        ("l", "theme('textual-light')", ""),
        ("a", "theme('ansi-dark')", ""),
        ("escape", "leave", ""),
    ]

    def compose(self) -> ComposeResult:
        yield Label(f"pid {os.getpid()} tiny app is here", id="what")
        yield Label("no focus", id="focus")
        yield Label("", id="size")
        for name in SCENES:
            yield Button(name, id=name)

    def say(self, text: str, where: str = "what") -> None:
        self.query_one(f"#{where}", Label).update(text)

    @on(Button.Pressed)
    def go(self, event: Button.Pressed) -> None:
        self.say(SCENES[str(event.button.id)])

    @on(FileUploaded)
    def uploaded(self, event: FileUploaded) -> None:
        self.say(f"came {event.path.name}")

    def on_paste(self, event: Paste) -> None:
        self.say(f"pasted {len(event.text)}")

    def on_resize(self, event: Resize) -> None:
        self.say(f"size {event.size.width}x{event.size.height}", "size")

    def on_app_focus(self, _event: AppFocus) -> None:
        self.say("the page is looked at", "focus")

    def on_app_blur(self, _event: AppBlur) -> None:
        self.say("no focus", "focus")

    def action_export(self) -> None:
        self.deliver_text(StringIO("line\n" * 50_000), save_filename='the "big" äxport.csv', mime_type="text/html")
        self.say("exported")

    def action_uploads(self) -> None:
        self.say("files: " + " ".join(f"{file.name}={file.size_bytes}" for file in list_directory(os.environ[UPLOADS])))

    def action_theme(self, name: str) -> None:
        self.theme = name

    def action_leave(self) -> None:
        self.say("left a field", "focus")

    def action_fail(self) -> None:
        self.exit(return_code=3)


if __name__ == "__main__":
    app = TinyApp()
    app.run()
    if "--deaf" in sys.argv:
        time.sleep(3600)
    if app.return_code:
        error = UsageError("tiny", "the tiny app failed")
        print(f"error[{error.code}]: {error.message}\n  why:  it was told to", file=sys.stderr)
    sys.exit(app.return_code or 0)
