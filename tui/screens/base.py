"""The base classes of all screens."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from yak.errors import YakError
from yak.tui.keys import CHANGE_ACTIONS, LOCAL_ACTIONS
from yak.tui.rows.cells import Cell, Column, Row, Rows
from yak.tui.rows.cluster import broker_lines, header
from yak.tui.source.base import unreadable
from yak.tui.widgets.dialogs import ConfirmDialog, Field, FormCommand, FormDialog, TextDialog
from yak.tui.widgets.frame import KeyBar, Line, Panel, Rail
from yak.tui.widgets.grid import Grid

if TYPE_CHECKING:
    from yak.tui.app import YakApp
    from yak.tui.formatter import Formatter
    from yak.tui.state.picture import Picture

NARROWEST, LOWEST = 60, 16
ROOMY, WIDE = 100, 120
BROAD = 160
"""The width from which the dashboard has topics beside the activity."""
_SAME_EVERYWHERE = "space pause  q back  Q quit"


class YakScreen(Screen[None]):
    """A screen of the app: `body()` builds its widgets, `paint(now_ms)` draws them from `self.app.picture`.

    `paint` is called at most as often as `--fps` allows, only while the screen is visible, and only after a change or a
    second.
    """

    CRUMB: ClassVar[str] = ""
    """Its name in the crumbs."""
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The terms that `i` explains, with a sentence each."""
    CLI_TWIN: ClassVar[str] = ""
    """The equivalent command, shown in the help."""
    OPENS: ClassVar[Mapping[str, str]] = {}
    """By the id of a table: the screen that enter opens at the row's key."""
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def body(self) -> ComposeResult:
        yield from ()

    def paint(self, now_ms: int) -> None:
        """Draw them."""

    @property
    def picture(self) -> "Picture":
        return self.app.picture

    @property
    def fmt(self) -> "Formatter":
        return self.app.fmt

    def crumbs(self) -> list[str]:
        """Its place in the hierarchy, outermost first."""
        return [self.CRUMB]

    def compose(self) -> ComposeResult:
        self._fit()  # later it would style all widgets again
        yield Line(id="header")
        yield Static(id="banner", markup=False)
        with Horizontal(id="middle"):
            yield Rail(id="rail")
            with Vertical(id="body"):
                yield from self.body()
        yield Line(id="notice")
        yield KeyBar(id="keys")
        yield Line(id="place")
        yield Static(f"Make the window larger: {NARROWEST}x{LOWEST} is needed.", id="too-small")

    def on_mount(self) -> None:
        self.app.forget_key_bar()
        self.paint_all(self.app.now_ms())

    def on_resize(self) -> None:
        """Draw again when the widgets have their new sizes; a hint if the window is too small."""
        self._fit()
        self.call_after_refresh(self._paint_resized)

    def _paint_resized(self) -> None:
        if self.is_current:
            self.paint_all(self.app.now_ms())

    def _fit(self) -> None:
        self.update_classes(self.size_classes(*self.app.size), animate=False)

    def size_classes(self, width: int, height: int) -> dict[str, bool]:
        """The style classes that depend on the window, and whether this one has each."""
        return {
            "-too-small": width < NARROWEST or height < LOWEST,
            "-low": height < 30,
            "-roomy": ROOMY <= width < WIDE,
            "-wide": width >= WIDE,
            "-broad": width >= BROAD,
        }

    def on_screen_resume(self) -> None:
        self.paint_all(self.app.now_ms())

    def paint_all(self, now_ms: int) -> None:
        if self.is_mounted and self.query("#header"):
            self._painted(self._paint_all, now_ms)

    def _paint_all(self, now_ms: int) -> None:
        picture, app = self.picture, self.app
        left, right = header(
            app.source.title, picture, self.fmt, now_ms,
            is_readonly=app.is_readonly, is_production=app.is_production, is_frozen=app.is_frozen,
        )  # fmt: skip
        self.query_one("#header", Line).show(left, right)
        self._paint_banner(now_ms)
        notice = app.last_notice(now_ms)
        self.query_one("#notice", Line).show([notice] if notice else [])
        self.query_one("#notice", Line).set_class(notice is not None, "-shown")
        text = f" {self.fmt.sign('crumb')} ".join(self.crumbs())
        self.query_one("#place", Line).show([Cell(text, "dim")], [Cell(_SAME_EVERYWHERE, "dim")])
        if self.app.size.width >= WIDE:
            self.query_one("#rail", Rail).paint()
        is_lost = picture.lost_since_ms is not None
        for grid in self.query(Grid):
            grid.is_stale = is_lost
        self.paint(now_ms)

    def paint_body(self) -> None:
        """Draw the screen's own part now: an answer has arrived, or the cursor has moved."""
        self._painted(self.paint, self.app.now_ms())

    def _painted(self, paint: Callable[[int], None], now_ms: int) -> None:
        try:
            paint(now_ms)
        except self.app.unreadable as error:
            self.app.show_unreadable("an answer of a broker", error)

    def _paint_banner(self, now_ms: int) -> None:
        picture, banner = self.picture, self.query_one("#banner", Static)
        progress = self.app.source.progress
        banner.set_class(bool(progress), "-progress")
        if progress:
            banner.add_class("-shown")
            banner.update(progress, layout=False)
            return
        banner.set_class(picture.lost_since_ms is not None, "-shown")
        if picture.lost_since_ms is not None:
            seconds = max(0, ((picture.retry_at_ms or now_ms) - now_ms + 999) // 1000)
            again = f"again in {seconds} s" if seconds else "trying now"
            what = "lost the cluster" if picture.is_loaded else "no broker answers"
            banner.update(f"{self.fmt.sign('bad')} {what}; {again}. {picture.lost_why}", layout=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide changing actions in read-only mode, and those with files of this machine from the public."""
        if (self.app.is_readonly and action in CHANGE_ACTIONS) or (
            self.app.settings.is_public and action in LOCAL_ACTIONS
        ):
            return False
        return super().check_action(action, parameters)

    def show_table(self, id_: str, columns: Sequence[Column], rows: Sequence[Row] | Rows, empty: str = "") -> None:
        """Show rows in a table, or the text `empty`, with the columns that the user wants to see."""
        self.query_one(id_, Grid).show(columns, rows, empty=empty, is_wide=self.fmt.is_wide)

    def known(self, text: str) -> str:
        """A text for a table without rows, which holds once the first metadata have come."""
        return text if self.picture.is_loaded else "waiting for the first metadata ..."

    def entitle(self, id_: str, title: str, subtitle: str = "") -> None:
        self.query_one(id_, Panel).entitle(title, subtitle)

    @on(Grid.Opened, "#brokers")
    def show_broker(self, event: Grid.Opened) -> None:
        """Show all details of a broker, unless the line is of none."""
        node = event.row.key
        broker = self.picture.brokers.get(int(node)) if node.isdigit() else None
        if broker is not None:
            lines = broker_lines(broker, self.picture, self.fmt, self.app.now_ms())
            self.app.push_screen(TextDialog(f"Broker {node}", "\n".join(lines)))

    @on(Grid.Opened)
    def open_screen(self, event: Grid.Opened) -> None:
        screen = self.OPENS.get(event.grid.id or "")
        if screen is not None:
            self.app.go(screen, event.row.key)

    # actions of every screen

    def find_grid(self) -> Grid | None:
        """The table that `/` filters: the focused one, else the first."""
        focused = self.focused
        if isinstance(focused, Grid):
            return focused
        return next((grid for grid in self.query(Grid) if grid.display), None)

    def set_filter(self, text: str) -> None:
        """Apply the filter typed after `/`. Raises UsageError."""
        grid = self.find_grid()
        if grid is not None:
            grid.set_filter(text)

    def current_filter(self) -> str:
        grid = self.find_grid()
        return grid.filter_text if grid is not None else ""

    def go_back(self) -> bool:
        """Undo the innermost state: a filter, a zoom. False if there is none; then the caller leaves the screen."""
        if self.maximized is not None:
            self.minimize()
            return True
        grid = self.find_grid()
        if grid is not None and grid.filter_text:
            grid.set_filter("")
            return True
        return False

    def hold(self) -> bool:
        """Pause something of the screen's own (space). False if it has nothing to pause; then drawing is paused."""
        return False

    def action_copy(self) -> None:
        """Copy the line under the cursor, as `y` does where a screen has nothing better."""
        grid = self.find_grid()
        row = grid.cursor_row if grid is not None else None
        self.app.copy("\t".join(cell.text for cell in row.cells) if row is not None else "", "the line")

    async def fill_form(
        self, title: str, fields: Sequence[Field], command: FormCommand, *, text: str = "", yes: str
    ) -> dict[str, str] | None:
        """The values of a form; None if it was cancelled. Call it from a worker."""
        return await self.app.push_screen_wait(FormDialog(title, fields, command=command, text=text, yes=yes))

    async def confirmed(self, title: str, text: str, *, command: str = "", typed: str = "", yes: str = "Yes") -> bool:
        """Ask a question, and return whether the user agreed. Call it from a worker."""
        return await self.app.push_screen_wait(ConfirmDialog(title, text, command=command, typed=typed, yes=yes))

    async def carry_out(self, command: str, change: Awaitable[object], said: str = "", tone: str = "") -> bool:
        """Await a change and record its command; returns whether it succeeded. An error is recorded and shown.

        The change goes on, and is recorded, though its screen is left meanwhile.
        """
        return await asyncio.shield(asyncio.create_task(self._carry_out(command, change, said, tone)))

    async def _carry_out(self, command: str, change: Awaitable[object], said: str, tone: str) -> bool:
        try:
            await change
        except (YakError, OSError) as error:  # OSError: of a process or a file of `yak up`
            if not isinstance(error, YakError):
                error = YakError("file", "the change failed", why=error.strerror or str(error))
            self.failed(command, error)
            return False
        self.app.note_command(command)
        if said:
            self.app.notice(said, tone)
        return True

    def failed(self, command: str, error: YakError) -> None:
        self.app.note_command(command, f"failed: {error.message}")
        self.app.show_error(error)

    def opened(self, _what: Any) -> None:
        """Open something in the screen. Does nothing by default."""


class AskingScreen(YakScreen):
    """Calls `ask()` every `EVERY_S` seconds while the screen is visible, and when it becomes visible.

    `trouble` is the latest error, until an answer arrives.
    """

    EVERY_S: ClassVar[float] = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.trouble: YakError | None = None
        self._is_asking = False

    async def ask(self) -> bool | None:
        """Request the data and take the answer; False if nothing is new. May raise YakError."""

    @property
    def is_seen(self) -> bool:
        """Whether this screen is visible, even under a dialog."""
        return self.is_mounted and self.app.screen_below() is self

    def on_mount(self) -> None:
        self.set_interval(self.EVERY_S, self._ask_in_turn)

    def on_screen_resume(self) -> None:
        self.ask_again()

    def _ask_in_turn(self) -> None:
        if not self.app.is_frozen:
            self.ask_again()

    def ask_again(self) -> None:
        """Ask now, unless a request is under way."""
        if self.is_seen and not self._is_asking:
            self._is_asking = True
            self._ask()

    def action_again(self) -> None:
        self.ask_again()

    @work(group="asking")
    async def _ask(self) -> None:
        must_paint = True
        try:
            must_paint = await self.ask() is not False or self.trouble is not None
            self.trouble = None
        except YakError as error:
            self.trouble = error
        except self.app.unreadable as error:
            self.trouble = unreadable("an answer of a broker", error)
        finally:
            self._is_asking = False
        if must_paint and self.is_seen:
            self.paint_all(self.app.now_ms())

    def error_text(self) -> str:
        """The latest error, for a panel's edge; empty if there is none."""
        if self.trouble is None:
            return ""
        why = f": {self.trouble.why}" if self.trouble.why else ""
        return f"{self.fmt.sign('bad')} {self.trouble.message}{why}"[:200]


class FileUploaded(Message, bubble=False):
    """The tab has uploaded a file. The message goes to the app, which forwards it to the visible screen."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
