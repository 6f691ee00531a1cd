"""Screens that poll for data that no event carries: only while visible, one request at a time, never in a handler."""

from typing import ClassVar

from textual import work

from yak.errors import YakError
from yak.tui.screens.base import YakScreen
from yak.tui.source.base import ClusterSource


class AskingScreen(YakScreen):
    """Calls `ask()` every `EVERY_S` seconds while the screen is visible, and when it becomes visible.

    `forget()` is called when the cluster changes. `trouble` is the latest error, until an answer arrives.
    """

    EVERY_S: ClassVar[float] = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.trouble: YakError | None = None
        self._asked_source: ClusterSource | None = None
        self._is_asking = False

    async def ask(self) -> None:
        """Request the data and take the answer. May raise YakError."""

    def forget(self) -> None:
        """Drop everything: the cluster is another one."""

    @property
    def is_seen(self) -> bool:
        """Whether this screen is visible, even under a dialog."""
        return self.is_mounted and self.app.screen_below() is self

    def on_mount(self) -> None:
        """Start the timer."""
        self.set_interval(self.EVERY_S, self._ask_in_turn)

    def on_screen_resume(self) -> None:
        """Refresh: the data may be old."""
        self.ask_again()

    def _ask_in_turn(self) -> None:
        if not self.app.is_frozen:
            self.ask_again()

    def ask_again(self) -> None:
        """Ask now, unless a request is under way."""
        if self._asked_source is not self.app.source:
            if self._asked_source is not None:
                self.forget()
            self._asked_source = self.app.source
        if self.is_seen and not self._is_asking:
            self._is_asking = True
            self._ask()

    @work(group="asking")
    async def _ask(self) -> None:
        source = self.app.source
        try:
            await self.ask()
            self.trouble = None
        except YakError as error:
            if source is self.app.source:
                self.trouble = error
        finally:
            self._is_asking = False
        if self.is_seen:
            self.paint_all(self.app.now_ms())

    def trouble_words(self) -> str:
        """The latest error, for a panel's edge; empty if there is none."""
        if self.trouble is None:
            return ""
        why = f": {self.trouble.why}" if self.trouble.why else ""
        return f"{self.look.sign('bad')} {self.trouble.message}{why}"[:200]
