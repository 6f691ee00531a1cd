"""Screens that ask for what no event tells: again and again while they are seen, never twice at a time, and never in a handler."""

from typing import ClassVar

from textual import work

from yak.errors import YakError
from yak.tui.screens.base import YakScreen
from yak.tui.source.base import ClusterSource


class AskingScreen(YakScreen):
    """`ask()` asks the source and takes what it says; it is called every `EVERY_S` seconds while the screen is seen, and when it is gone to.

    `forget()` is called when the cluster is another one. What went wrong last is in `trouble`, until an answer comes.
    """

    EVERY_S: ClassVar[float] = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.trouble: YakError | None = None
        self._asked_source: ClusterSource | None = None
        self._is_asking = False

    async def ask(self) -> None:
        """Ask, and take the answer. May raise YakError."""

    def forget(self) -> None:
        """Another cluster: nothing that is known is true of it."""

    @property
    def is_seen(self) -> bool:
        """Whether it is this screen that is looked at, a dialog over it or not."""
        return self.is_mounted and self.app.screen_below() is self

    def on_mount(self) -> None:
        """From now on."""
        self.set_interval(self.EVERY_S, self._ask_in_turn)

    def on_screen_resume(self) -> None:
        """Seen again: what is on it may be old."""
        self.ask_again()

    def _ask_in_turn(self) -> None:
        if not self.app.is_frozen:
            self.ask_again()

    def ask_again(self) -> None:
        """Ask now, unless it is being asked."""
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
        """What went wrong last, for the edge of a panel; empty where nothing did."""
        if self.trouble is None:
            return ""
        why = f": {self.trouble.why}" if self.trouble.why else ""
        return f"{self.look.sign('bad')} {self.trouble.message}{why}"[:200]
