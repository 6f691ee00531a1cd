"""What all screens have in common."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static, TabbedContent

from yak.tui.keys import change_actions
from yak.tui.rows.cells import Cell
from yak.tui.rows.header import header
from yak.tui.widgets.chrome import KeyBar, Place, Rail
from yak.tui.widgets.grid import Grid
from yak.tui.widgets.line import Line

if TYPE_CHECKING:
    from yak.tui.app import YakApp
    from yak.tui.look import Look
    from yak.tui.state.picture import Picture

NARROWEST, LOWEST = 60, 16
_SAME_EVERYWHERE = "space pause  q back  Q quit"


class YakScreen(Screen[None]):
    """A screen of the app: `body()` says what is in it, `paint(now_ms)` draws it from `self.app.picture`.

    `paint` is called at most as often as `--fps` allows, only while the screen is seen, and only when something changed or a second passed.
    """

    TITLE_WORDS: ClassVar[str] = ""
    """Its name in the crumbs."""
    EXPLAINED: ClassVar[tuple[tuple[str, str], ...]] = ()
    """What `i` explains: a term, and a sentence."""
    CLI_TWIN: ClassVar[str] = ""
    """The command that shows the same, told by the help."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-roomy"), (120, "-wide")]
    AUTO_FOCUS = "Grid"
    app: "YakApp"

    def body(self) -> ComposeResult:
        """What is in it."""
        yield from ()

    def paint(self, now_ms: int) -> None:
        """Draw it."""

    @property
    def picture(self) -> "Picture":
        """The cluster as it is now."""
        return self.app.picture

    @property
    def look(self) -> "Look":
        """How things are written."""
        return self.app.look

    def crumbs(self) -> list[str]:
        """Where we are, from the outside in."""
        return [self.TITLE_WORDS]

    def compose(self) -> ComposeResult:
        """The frame, with the body in it."""
        yield Line(id="header")
        yield Static(id="banner", markup=False)
        with Horizontal(id="middle"):
            yield Rail(id="rail")
            with Vertical(id="body"):
                yield from self.body()
        yield Line(id="notice")
        yield KeyBar(id="keys")
        yield Place(id="place")
        yield Static(f"Make the window larger: {NARROWEST}x{LOWEST} is needed.", id="too-small")

    def on_mount(self) -> None:
        """Draw at once what is known."""
        self.app.forget_key_bar()
        self.paint_all(self.app.now_ms())
        self._fit(self.app.size.width, self.app.size.height)

    def on_resize(self) -> None:
        """Too small a window says so."""
        self._fit(self.app.size.width, self.app.size.height)

    def _fit(self, width: int, height: int) -> None:
        self.set_class(width < NARROWEST or height < LOWEST, "-too-small")
        self.set_class(height < 30, "-low")

    def on_screen_resume(self) -> None:
        """Seen again: what is on it may be old."""
        self.paint_all(self.app.now_ms())

    def paint_all(self, now_ms: int) -> None:
        """The frame and the body."""
        if not self.is_mounted or not self.query("#header"):
            return
        picture, app = self.picture, self.app
        left, right = header(
            app.source.title, picture, self.look, now_ms,
            is_readonly=app.is_readonly, is_production=app.is_production, is_frozen=app.is_frozen,
        )  # fmt: skip
        self.query_one("#header", Line).show(left, right)
        self._paint_banner(now_ms)
        notice = app.last_notice(now_ms)
        self.query_one("#notice", Line).show([notice] if notice else [])
        self.query_one("#notice", Line).set_class(notice is not None, "-shown")
        words = f" {self.look.sign('crumb')} ".join(self.crumbs())
        self.query_one("#place", Place).show([Cell(words, "dim")], [Cell(_SAME_EVERYWHERE, "dim")])
        if self.app.size.width >= 120:
            self.query_one("#rail", Rail).paint()
        is_lost = picture.lost_since_ms is not None
        for grid in self.query(Grid):
            grid.is_stale = is_lost
        self.paint(now_ms)

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
            banner.update(f"{self.look.sign('bad')} {what}; {again}. {picture.lost_why}", layout=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where only looking is allowed, what changes something is not there."""
        if self.app.is_readonly and action in change_actions():
            return False
        return super().check_action(action, parameters)

    # what every screen can do

    def find_grid(self) -> Grid | None:
        """The table that `/` filters: the one with the focus, else the first."""
        focused = self.focused
        if isinstance(focused, Grid):
            return focused
        return next((grid for grid in self.query(Grid) if grid.display), None)

    def set_filter(self, text: str) -> None:
        """What was typed after `/`. Raises UsageError."""
        grid = self.find_grid()
        if grid is not None:
            grid.set_filter(text)

    def filter_words(self) -> str:
        """The filter in force."""
        grid = self.find_grid()
        return grid.filter_text if grid is not None else ""

    def go_back(self) -> bool:
        """Undo the innermost thing: a filter, a zoom. False when there is nothing, and the screen itself is left."""
        if self.maximized is not None:
            self.minimize()
            return True
        grid = self.find_grid()
        if grid is not None and grid.filter_text:
            grid.set_filter("")
            return True
        return False

    def hold(self) -> bool:
        """Space, where a screen has something of its own to pause. False when it has not, and drawing is stopped."""
        return False

    def panels(self) -> Iterator[Widget]:
        """What Tab and the jump letters go to."""
        for widget in self.focus_chain:
            if widget.display:
                yield widget

    def tabs(self) -> TabbedContent | None:
        """Its tabs, if it has any."""
        return next(iter(self.query(TabbedContent)), None)

    def copied(self) -> str:
        """What `y` copies: the line under the cursor."""
        grid = self.find_grid()
        row = grid.cursor_row if grid is not None else None
        return "\t".join(cell.text for cell in row.cells) if row is not None else ""

    def cli(self, words: str, outcome: str = "") -> None:
        """Note what was done, as a command line."""
        self.app.note_command(words, outcome)

    def ask_again(self) -> None:
        """Ask for what is not in the picture; called when something was changed. Screens that ask override it."""

    def opened(self, _what: Any) -> None:
        """Nothing to open by default."""
