"""The app: it connects to a cluster, shows a screen, and decides when to draw."""

import gc
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from textual import work
from textual.binding import BindingType
from textual.screen import Screen

from yak.errors import UsageError, YakError
from yak.tui.app_actions import Actions
from yak.tui.keys import KEYS, keys
from yak.tui.rows.contexts import is_production
from yak.tui.screens.base import FileUploaded
from yak.tui.screens.table import BY_NAME, SCREENS
from yak.tui.source.base import ClusterSource
from yak.tui.state.picture import Picture
from yak.tui.themes import textual_name

STALE_FPS = 0.2
"""Frames per second while the terminal has no focus."""
COMPLETED_MAX = 20
"""The most incomplete topics requested in one round."""
COMPLETE_TRIES = 8
_KEY_IDS = (
    *(key.id for key in KEYS.values() if key.scope == "go" and key.id.partition(".")[2] in BY_NAME),
    *(key.id for key in KEYS.values() if key.scope == "app"),
)


class YakApp(Actions):
    """The app of `yak ui`. Its parts: `AppBase`, `Actions`."""

    CSS_PATH = "yak.tcss"
    TITLE = "yak"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {entry.name: entry.make for entry in SCREENS}
    BINDINGS: ClassVar[list[BindingType]] = [*keys(*_KEY_IDS)]

    def on_mount(self) -> None:
        """Show the first screen and start listening for events."""
        self.theme = textual_name(self.settings.theme)
        self.set_class(self.settings.is_ascii, "-ascii")
        self.set_class(self.is_production, "-production")
        if self.settings.keymap:
            self.set_keymap(dict(self.settings.keymap))
        if self.settings.start_with:
            self.call_after_refresh(self.go, self.settings.start, self.settings.start_with)
        self.set_interval(1 / self.settings.fps, self._tick)
        self.listen()

    @work(exclusive=True, group="listen")
    async def listen(self) -> None:
        """Apply the cluster's events for as long as the app lives."""
        is_settled = False
        events: AsyncIterator[dict[str, Any]] = self.source.follow()
        async for event in events:
            self.picture.take(event)
            if event["kind"] == "snapshot" and not is_settled:
                # These objects live as long as the app. A full collection over them would delay a key noticeably.
                gc.collect()
                gc.freeze()
                is_settled = True
            if event["kind"] in ("snapshot", "lost") and self._painted_version <= 1:
                self.paint_now()

    def _tick(self) -> None:
        now_ms = self.now_ms()
        if self.picture.incomplete:
            self.complete_topics()
        if self.is_frozen or (self._is_away and now_ms - self._painted_ms < 1_000 / STALE_FPS):
            return
        if self.picture.version != self._painted_version or now_ms - self._painted_ms >= 1_000:
            self.paint_now()

    @work(group="complete")
    async def complete_topics(self) -> None:
        """Request the partitions of topics that events only name. Retries while the broker does not know them yet."""
        picture, wanted = self.picture, dict(self.picture.incomplete)
        picture.incomplete.clear()
        for topic, tries in list(wanted.items())[:COMPLETED_MAX]:
            del wanted[topic]
            try:
                rows = await self.source.ask("GET", "/api/isr", params={"topic": topic})
            except YakError:
                if tries < COMPLETE_TRIES:
                    wanted[topic] = tries + 1
            else:
                picture.take({"kind": "partitions", "time_ms": self.now_ms(), "partitions": rows})
        picture.incomplete.update({**wanted, **picture.incomplete})

    def on_app_blur(self) -> None:
        """Draw seldom while the terminal has no focus."""
        self._is_away = True

    def on_app_focus(self) -> None:
        """Draw at full rate again."""
        self._is_away = False
        self.repaint()

    def on_file_uploaded(self, event: FileUploaded) -> None:
        """Report a file from the browser with a notice, and pass it to the screen, which may be choosing one."""
        self.notice(f"{event.path.name} is uploaded: choose it in the Producer (key f)")
        self.screen.post_message(FileUploaded(event.path))

    async def on_unmount(self) -> None:
        """Close connections."""
        await self.source.close()

    def use_context(self, name: str) -> None:
        """Switch to another cluster. Raises UsageError (`unknown-context`)."""
        if name not in self.settings.contexts or self._other_source is None:
            raise UsageError(
                "unknown-context",
                f'there is no context "{name}"',
                why=f"there are {', '.join(self.settings.contexts) or 'none'}",
                try_=(f"yak context add {name} -b host:9092",),
            )
        self._switch_source(name, self._other_source(name))

    @work(exclusive=True, group="switch")
    async def _switch_source(self, name: str, source: ClusterSource) -> None:
        old, self.source = self.source, source
        self._context_name = name
        values = self.settings.contexts[name]
        self._mark_cluster(is_production=is_production(values), accent=str(values.get("accent") or ""))
        self.picture = Picture()
        self.listen()
        self.go("dashboard")
        self.repaint()
        await old.close()
