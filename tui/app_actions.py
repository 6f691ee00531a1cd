"""Actions of keys and typed commands that work on every screen."""

from contextlib import suppress
from functools import partial
from typing import Any

from textual import work
from textual.app import SystemCommand
from textual.screen import Screen
from textual.widgets import Input, TextArea

from yak.errors import UsageError, YakError
from yak.tui import command_line, help_text
from yak.tui.app_base import AppBase
from yak.tui.keys import KEYS
from yak.tui.look import ZONE_WORDS, ZONES, Look
from yak.tui.screens.base import YakScreen
from yak.tui.themes import NAMES, textual_name
from yak.tui.widgets.dialogs import Prompt, TextDialog


class Actions(AppBase):
    """The actions of `tui/keys.py`, and the commands after `:`."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave `:` and `/` to text fields and dialogs, although their bindings have priority.

        The bindings have priority so that the prompt is on top before the next key of a pasted text is read.
        """
        if action in ("command", "find"):
            return isinstance(self.screen, YakScreen) and not isinstance(self.screen.focused, Input | TextArea)
        return super().check_action(action, parameters)

    def action_command(self) -> None:
        """Open the command line (`:`)."""

        def typed(text: str | None) -> None:
            if text:  # later: the prompt must leave its own stack of screens before another screen is shown
                self.call_later(self._run_typed, text)

        self.push_screen(Prompt(":", completion=command_line.completion), typed)

    def action_find(self) -> None:
        """Open the filter line (`/`); the filter applies as it is typed."""
        screen = self.screen
        if not isinstance(screen, YakScreen):
            return
        before = screen.filter_words()

        def typed(text: str | None) -> None:
            self._filter(screen, before if text is None else text)

        self.push_screen(Prompt("/", value=before, changed=partial(self._filter, screen)), typed)

    def _filter(self, screen: YakScreen, text: str) -> str:
        """Set the filter; return its error, or an empty text."""
        try:
            screen.set_filter(text)
        except YakError as error:
            return f"{error.message}: {error.why}" if error.why else error.message
        return ""

    async def run_command(self, name: str, argument: str) -> None:
        """Run a command after `:` that is not a screen. Raises YakError."""
        if name == "quit":
            self.exit(0)
        elif name == "theme":
            self._set_theme(argument)
        elif name == "zone":
            self._set_zone(argument)
        elif name == "help":
            self.action_help()
        elif name == "keys":
            self.push_screen(TextDialog("All keys", help_text.all_keys()))
        elif name == "notices":
            self.action_notices()
        elif name == "explain":
            self.action_explain()
        elif name == "doctor":
            self.run_doctor()
        elif name == "sample":
            self.make_sample()
        elif name == "k9s-keys":
            self.set_keymap({**self.settings.keymap, **help_text.K9S_KEYS})
            self.notice("keys are as k9s has them: ctrl+d deletes, d describes, ctrl+b and ctrl+f page")

    def _set_zone(self, name: str) -> None:
        zones: dict[str, Any] = {zone: zone for zone in ZONES}
        if name and name not in zones:
            raise UsageError("unknown-zone", f'there is no zone "{name}"', why=f"there are {', '.join(ZONES)}")
        zone = zones[name] if name else ZONES[(ZONES.index(self.look.zone) + 1) % len(ZONES)]
        self.look = Look(zone, self.look.is_ascii, self.look.is_wide)
        self.repaint()

    def _set_theme(self, name: str) -> None:
        if not name:
            name = NAMES[(NAMES.index(self._theme_name()) + 1) % len(NAMES)]
        if name not in NAMES:
            raise UsageError("unknown-theme", f'there is no theme "{name}"', why=f"there are {', '.join(NAMES)}")
        self.theme = textual_name(name)
        self.notice(f"theme {name}")

    # actions of every screen

    def action_zone(self) -> None:
        """Cycle the time zone: UTC, local, relative."""
        self._set_zone("")
        self.notice(f"times are {ZONE_WORDS[self.look.zone]}")

    def action_wide(self) -> None:
        """Show all columns, or only those that fit."""
        self.look = Look(self.look.zone, self.look.is_ascii, not self.look.is_wide)
        self.repaint()
        self.paint_now()

    def action_freeze(self) -> None:
        """Pause or resume: the screen's reading, or else its drawing."""
        screen = self.screen_below()
        if screen is None or not screen.hold():
            self.is_frozen = not self.is_frozen
        self.paint_now()

    def action_zoom(self) -> None:
        """Show the focused panel over the whole window, or restore it."""
        screen = self.screen
        if screen.maximized is not None:
            screen.minimize()
        elif screen.focused is not None:
            screen.maximize(screen.focused)

    def action_help(self) -> None:
        """Show the help: what the keys do."""
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog(f"Keys of {screen.TITLE_WORDS or 'this screen'}", help_text.of_screen(screen)))

    def action_palette(self) -> None:
        """Open the palette of all commands."""
        self.action_command_palette()

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """The palette's entries: the commands of `:` and the actions of this screen."""
        for command in command_line.commands():
            words = f"{command.name} {command.argument}".strip()
            yield SystemCommand(f":{words}", command.help, partial(self._run_typed, command.name))
        if isinstance(screen, YakScreen):
            for active in screen.active_bindings.values():
                key = KEYS.get(active.binding.id or "")
                if key is not None and key.scope not in ("go", "grid") and active.enabled:
                    yield SystemCommand(
                        f"{key.label} ({key.id})",
                        key.help,
                        partial(self.run_action, active.binding.action, active.node),
                    )

    async def _run_typed(self, typed: str) -> None:
        try:
            await command_line.run(self, typed)
        except YakError as error:
            self.show_error(error)

    def action_explain(self) -> None:
        """Explain the numbers of the screen."""
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog("What these numbers mean", help_text.explained(screen)))

    def action_notices(self) -> None:
        """Show all notices."""
        self.push_screen(TextDialog("Notices", help_text.notices(self.notices, self.look, self.now_ms())))

    def action_jump(self) -> None:
        """Show a letter on each panel; typing it moves the focus there."""
        from yak.tui.widgets.dialogs import JumpDialog

        screen = self.screen_below()
        if screen is not None:
            self.push_screen(JumpDialog(list(screen.panels())), self._jumped)

    def _jumped(self, widget: Any) -> None:
        if widget is not None:
            widget.focus()

    def action_panel_next(self) -> None:
        """Focus the next panel."""
        self.screen.focus_next()

    def action_panel_before(self) -> None:
        """Focus the previous panel."""
        self.screen.focus_previous()

    def action_tab_next(self) -> None:
        """Show the next tab."""
        self._turn_tab(1)

    def action_tab_before(self) -> None:
        """Show the previous tab."""
        self._turn_tab(-1)

    def _turn_tab(self, by: int) -> None:
        screen = self.screen
        tabs = screen.tabs() if isinstance(screen, YakScreen) else None
        if tabs is None:
            return
        names = [pane.id for pane in tabs.query("TabPane") if pane.id]
        if names:
            tabs.active = names[(names.index(tabs.active) + by) % len(names)]

    @work(exclusive=True, group="doctor")
    async def run_doctor(self) -> None:
        """Run `yak doctor` and show its output."""
        import asyncio
        import sys

        command = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "yak.commands"]
        child = await asyncio.create_subprocess_exec(
            *command, "doctor", "-b", self.source.bootstrap, "--no-color",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await child.communicate()
        self.note_command(f"yak doctor -b {self.source.bootstrap}")
        self.push_screen(TextDialog("yak doctor", said.decode(errors="replace")))

    @work(exclusive=True, group="sample")
    async def make_sample(self) -> None:
        """Create a topic with sample records."""
        records = [
            {"key": f"k{n % 7}", "payload": {"order": n, "total": n * 7 % 100, "currency": "EUR"}} for n in range(100)
        ]
        try:
            if self.is_readonly:
                raise UsageError("readonly", "nothing is changed here", why="yak ui was started with --readonly")
            with suppress(YakError):
                await self.source.ask("POST", "/topics", body={"name": "sample", "partitions": 3})
            await self.source.ask("POST", "/produce", body={"topic": "sample", "records": records})
        except YakError as error:
            self.show_error(error)
            return
        self.note_command("yak topics create sample --partitions 3", "and 100 messages")
        self.notice("topic sample has 100 messages")
