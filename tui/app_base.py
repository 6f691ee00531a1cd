"""The part of the app that screens use: the cluster, formats, navigation, notices and contexts."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from rich.segment import Segment
from textual.app import App, ScreenStackError
from textual.color import Color, ColorParseError
from textual.css.query import NoMatches
from textual.dom import DOMNode, NoScreen
from textual.filter import LineFilter
from textual.worker import NoActiveWorker, WorkerFailed, get_current_worker

from yak.errors import YakError
from yak.plain_text import one_line
from yak.tui.look import Look
from yak.tui.rows.cells import Cell
from yak.tui.screens.base import YakScreen
from yak.tui.screens.table import SCREENS
from yak.tui.settings import UiSettings
from yak.tui.source.base import ClusterSource
from yak.tui.state.picture import Picture
from yak.tui.themes import NAMES, THEMES, VARIABLES_OF_OTHERS, textual_name
from yak.tui.widgets.frame import KeyBar

NOTICE_MS = 8_000
NOTICES_MAX = 500


class _Harmless(LineFilter):
    """The last filter before the terminal, for every widget: text from a cluster cannot send control sequences."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's
        """The segments, with control characters escaped."""
        if all(each.text.isprintable() for each in segments):
            return segments
        return [each if each.control else Segment(one_line(each.text), each.style) for each in segments]


_HARMLESS: Final = _Harmless()


class AppBase(App[int]):
    """The app as screens know it. `source` is the cluster; `now_ms` the clock, which tests replace."""

    def __init__(
        self,
        source: ClusterSource,
        settings: UiSettings | None = None,
        *,
        now_ms: Callable[[], int] | None = None,
        other_source: Callable[[str], ClusterSource] | None = None,
    ) -> None:
        self.settings = settings or UiSettings()
        self.accent = self.settings.accent
        self.DEFAULT_MODE = self.settings.start  # type: ignore[misc]  # so that no other screen is made first
        super().__init__()
        self.source = source
        self.picture = Picture()
        self.look = Look(self.settings.zone, self.settings.is_ascii)  # type: ignore[arg-type]
        self.is_readonly = self.settings.is_readonly
        self.is_production = self.settings.is_production
        self.is_frozen = False
        self.now_ms = now_ms or _clock
        self.notices: deque[tuple[int, YakError | str, str]] = deque(maxlen=NOTICES_MAX)
        self._other_source = other_source
        self._context_name = self.settings.context
        self._last_mode = ""
        self._painted_version = -1
        self._painted_ms = 0
        self._is_away = False
        for theme in THEMES:
            self.register_theme(theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then the one that escapes control characters in clients' texts."""
        return [*super().get_line_filters(), _HARMLESS]

    def paint_now(self) -> None:
        """Draw the visible screen from the present state."""
        self._painted_version = self.picture.version
        self._painted_ms = self.now_ms()
        screen = self.screen_below()
        if screen is not None:
            screen.paint_all(self._painted_ms)

    def screen_below(self) -> YakScreen | None:
        """The visible screen, even under a dialog."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, YakScreen):
                return screen
        return None

    def repaint(self) -> None:
        """Draw soon, whether or not the state changes."""
        self._painted_version = -1

    # navigation

    def screens_by_digit(self) -> list[tuple[str, str, str]]:
        """Digit, name and label of each screen, in the order of the digits."""
        order = "1234567890"
        with_digit = (entry for entry in SCREENS if entry.digit)
        return [
            (entry.digit, entry.name, entry.label)
            for entry in sorted(with_digit, key=lambda each: order.index(each.digit))
        ]

    def _handle_exception(self, error: Exception) -> None:
        """Textual's handler, but it ignores missing widgets in a worker whose node is being removed.

        Textual removes widgets before it cancels their workers.
        """
        of_widgets = isinstance(error, WorkerFailed) and isinstance(
            error.error, (NoMatches, NoScreen, ScreenStackError)
        )
        if not (of_widgets and self._is_worker_left()):
            super()._handle_exception(error)

    def _is_worker_left(self) -> bool:
        """Whether the node that started the current worker is being removed."""
        try:
            node = get_current_worker().node
        except NoActiveWorker:
            return False
        if not node.is_attached:
            return True
        return any(isinstance(each, DOMNode) and each._pruning for each in node.ancestors_with_self)  # noqa: SLF001

    def go(self, name: str, what: object = None) -> None:
        """Go to a screen, and open something in it."""
        if self.current_mode != name:
            with suppress(IndexError):
                if self.current_mode not in ("_default", name):
                    self._last_mode = self.current_mode
            self.switch_mode(name)
        if what is not None:
            self.call_later(self._open, name, what)

    def _open(self, name: str, what: object) -> None:
        if self.current_mode != name:
            return
        while len(self.screen_stack) > 1 and not isinstance(self.screen, YakScreen):
            self.pop_screen()
        root = self.screen_stack[0]
        if not root.is_mounted:
            # This is the first visit: the screen is still being mounted.
            self.set_timer(0.01, partial(self._open, name, what))
        elif isinstance(root, YakScreen):
            root.opened(what)

    def action_go(self, name: str) -> None:
        """Go to the screen of a digit."""
        self.go(name)

    def action_last(self) -> None:
        """Go to the previous screen."""
        if self._last_mode:
            self.go(self._last_mode)

    async def action_back(self) -> None:
        """Leave the innermost state (filter, zoom, dialog); on a top-level screen go to the dashboard."""
        screen = self.screen
        if not isinstance(screen, YakScreen):
            self.pop_screen()
        elif screen.go_back():
            self.repaint()
        elif len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.current_mode != "dashboard":
            self.go("dashboard")

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)

    # notices

    def show_error(self, error: BaseException) -> None:
        """Show an error as a toast with its why and try, and record it in the notices.

        Any other exception is shown as a bug of yak ui.
        """
        if not isinstance(error, YakError):
            self.log.error(repr(error))
            error = YakError(
                "internal", f"a fault in yak ui: {type(error).__name__}: {error}", try_=("please report it",)
            )
        self.notices.append((self.now_ms(), error, "bad"))
        lines = [f"why: {error.why}"] if error.why else []
        lines += [f"try: {each}" for each in error.try_[:2]]
        self.notify(
            "\n".join(lines) or error.code,
            title=error.message,
            severity="error",
            timeout=NOTICE_MS / 1000,
            markup=False,
        )

    def notice(self, words: str, tone: str = "") -> None:
        """Show a line at the bottom for a while, and record it in the notices."""
        self.notices.append((self.now_ms(), words, tone))
        self.repaint()

    def last_notice(self, now_ms: int) -> Cell | None:
        """The notice to show at the bottom now."""
        if not self.notices:
            return None
        time_ms, said, tone = self.notices[-1]
        if now_ms - time_ms > NOTICE_MS or isinstance(said, YakError):
            return None
        return Cell(said, tone or "accent")  # type: ignore[arg-type]

    def note_command(self, command: str, outcome: str = "") -> None:
        """Record a user's action in the activity, as a command line."""
        self.picture.activity.note_command(self.now_ms(), command, outcome)
        self.repaint()

    def copy(self, text: str, what: str) -> None:
        """Copy to the clipboard of the terminal or the browser (OSC 52)."""
        self.copy_to_clipboard(text)
        self.notice(f"copied {what}")

    def forget_key_bar(self) -> None:
        """Update the key bar after the next refresh: the bound keys may have changed."""
        self.call_after_refresh(self._refresh_key_bar)

    def _refresh_key_bar(self) -> None:
        for bar in self.screen.query(KeyBar):
            bar.refresh_keys()

    def on_descendant_focus(self) -> None:
        """Update the key bar: the focused widget binds other keys."""
        self._refresh_key_bar()

    # contexts

    def context_names(self) -> list[tuple[str, bool]]:
        """All contexts, and whether each is in use. If none is in use, the cluster's address comes first."""
        found = [(name, name == self._context_name) for name in self.settings.contexts]
        return found if any(used for _, used in found) else [(self.source.title, True), *found]

    @property
    def context_name(self) -> str:
        """The context in use; empty if the cluster has no name."""
        return self._context_name

    def take_contexts(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Use the changed contexts of the config file. Contexts without brokers are left out."""
        named = {name: values for name, values in found.items() if values.get("bootstrap_servers")}
        self.settings = replace(self.settings, contexts=named)
        self.repaint()

    def _mark_cluster(self, *, is_production: bool, accent: str) -> None:
        """Mark the cluster: a red header for production, an accent colour."""
        self.is_production, self.accent = is_production, accent
        self.set_class(is_production, "-production")
        self.refresh_css(animate=False)

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables with the context's accent; themes without colours stay unchanged."""
        variables = super().get_css_variables()
        if self.accent and self._theme_name() not in ("mono", "ansi"):
            with suppress(ColorParseError):  # an invalid colour in the config is ignored
                color = Color.parse(self.accent)
                variables["accent"] = (color if self.current_theme.dark else color.darken(0.2)).hex
        return variables

    def _theme_name(self) -> str:
        return next((name for name in NAMES if textual_name(name) == self.theme), NAMES[0])

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Defaults for variables that Textual's own themes do not define."""
        return VARIABLES_OF_OTHERS


def _clock() -> int:
    return int(time.time() * 1000)
