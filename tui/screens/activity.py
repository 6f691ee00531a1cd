"""All events and all actions of the user, as command lines."""

import json

from rich.json import JSON
from textual import on
from textual.app import ComposeResult

from yak.tui.keys import keys
from yak.tui.rows.activity import COLUMNS, activity_rows
from yak.tui.screens.base import YakScreen
from yak.tui.state.activity import Line
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.frame import Panel
from yak.tui.widgets.grid import Grid


class ActivityScreen(YakScreen):
    """The table of events."""

    CRUMB = "activity"
    CLI_TWIN = "curl -sN http://BROKER:8080/api/events, yak metadata log"
    BINDINGS = keys("activity")
    EXPLAINED = (
        ("leader", "The partition has another leader in a new leader epoch. Writes of the old leader are refused."),
        ("isr", "The in-sync replicas changed. Fewer: a replica fell behind or its broker died. More: a replica caught up."),
        ("you", "Your changes on these screens, as the command line that does the same. y copies it."),
    )  # fmt: skip
    _drawn: tuple[object, ...] = ()

    def body(self) -> ComposeResult:
        yield Panel("Activity", Grid(id="events"), subtitle="enter all of it   / filter   y copy")

    def paint(self, now_ms: int) -> None:
        picture, fmt = self.picture, self.fmt
        drawn = (picture.activity.count, fmt, now_ms // 1000 if fmt.zone == "relative" else 0)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        nothing = "No events since yak ui started. Kill a broker or create a topic to see some."
        self.show_table("#events", COLUMNS, activity_rows(picture.activity.lines, fmt, now_ms), nothing)
        self.query_one(Panel).entitle(
            f"Activity: {picture.activity.count} since yak ui started", "enter all of it   / filter   y copy"
        )

    def opened(self, what: object) -> None:
        self.paint_body()
        self.query_one("#events", Grid).move_to(str(what))

    def _line(self) -> Line | None:
        key = self.query_one("#events", Grid).cursor_key
        return next((line for line in self.picture.activity.lines if str(line.number) == key), None)

    @on(Grid.Opened)
    def show_event(self) -> None:
        line = self._line()
        if line is not None:
            self.app.push_screen(TextDialog(line.kind, JSON(json.dumps(line.event))))

    def action_copy(self) -> None:
        line = self._line()
        if line is not None:
            self.app.copy(
                str(line.event.get("command", line.message)), "the command" if line.kind == "you" else "the line"
            )
