"""The frame of each screen: header, banner, rail, notice, keys."""

from typing import TYPE_CHECKING

from textual import events
from textual.widgets import Static

from yak.tui.rows.cells import Cell
from yak.tui.widgets.columns import cut
from yak.tui.widgets.line import Line

if TYPE_CHECKING:
    from yak.tui.app import YakApp

BAR_KEYS_MAX = 8


class KeyBar(Line):
    """Up to eight keys with a word each, for the focused widget and the screen."""

    def refresh_keys(self) -> None:
        """Read the keys that are bound now."""
        from yak.tui.keys import EVERYWHERE, KEYS

        screen = self.screen
        own: list[Cell] = []
        general: list[Cell] = []
        seen: set[str] = set()
        room = max(20, self.size.width - 2)
        for active in screen.active_bindings.values():
            binding = active.binding
            if not binding.show or not active.enabled or binding.id is None or binding.id in seen:
                continue
            seen.add(binding.id)
            cells = general if binding.id in EVERYWHERE or binding.id not in KEYS else own
            cells.append(Cell(f"{self.app.get_key_display(binding)} {binding.description}"))
        last = [each for each in general if each.text.endswith(" help")]  # the key that explains those left out
        room -= sum(len(each.text) + 2 for each in last)
        chosen: list[Cell] = []
        for cell in (*own, *(each for each in general if each not in last)):
            needed = len(cell.text) + 2
            if len(chosen) + len(last) == BAR_KEYS_MAX or needed > room:
                continue
            chosen.append(cell)
            room -= needed
        self.show([*chosen, *last])

    def on_resize(self) -> None:
        """Fit the keys to the new width."""
        self.refresh_keys()


class Place(Line):
    """The crumbs, and the keys that work on every screen."""


class Rail(Static):
    """The list of screens and contexts, on wide windows."""

    app: "YakApp"

    def paint(self) -> None:
        """Draw the screens and the contexts."""
        from textual.content import Content

        lines = []
        for digit, name, label in self.app.screens_by_digit():
            is_here = name == self.app.current_mode
            text = f" {digit} {label}"
            here = f" {self.app.look.sign('here')}" if is_here else ""
            lines.append(Content.styled(f"{text:<17}{here}", "bold $accent" if is_here else ""))
        lines += [Content(""), Content.styled(" Context", "bold")]
        for name, is_used in self.app.context_names():
            sign = self.app.look.sign("up" if is_used else "down")
            lines.append(Content.styled(f" {cut(name, 16):<16} {sign}", "" if is_used else "$dim"))
        self.update(Content("\n").join(lines))

    def on_click(self, event: events.Click) -> None:
        """Go to the screen that was clicked."""
        screens = self.app.screens_by_digit()
        row = event.get_content_offset(self)
        if row is not None and row.y < len(screens):
            self.app.action_go(screens[row.y][1])
