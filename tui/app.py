"""The app: which cluster, which screen, when to draw."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import work
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.color import Color, ColorParseError
from textual.screen import Screen

from yak.errors import UsageError, YakError
from yak.tui import command_line, help_text
from yak.tui.keys import KEYS, keys
from yak.tui.look import ZONES, Look
from yak.tui.rows.cells import Cell
from yak.tui.rows.contexts import is_production
from yak.tui.screens.base import YakScreen
from yak.tui.screens.table import BY_NAME, SCREENS
from yak.tui.settings import UiSettings
from yak.tui.source.base import ClusterSource
from yak.tui.state.picture import Picture
from yak.tui.themes import NAMES, THEMES, VARIABLES_OF_OTHERS, textual_name
from yak.tui.uploads import FileUploaded
from yak.tui.widgets.chrome import KeyBar
from yak.tui.widgets.dialogs import TextDialog
from yak.tui.widgets.prompt import Prompt

NOTICE_MS = 8_000
NOTICES_MAX = 500
STALE_FPS = 0.2
"""While the terminal has not the focus."""
COMPLETED_MAX = 20
"""New topics asked about in one go."""
COMPLETE_TRIES = 8
_KEY_IDS = (
    *(key.id for key in KEYS.values() if key.scope == "go" and key.id.partition(".")[2] in BY_NAME),
    *(key.id for key in KEYS.values() if key.scope == "app"),
)


class YakApp(App[int]):
    """`yak ui`. `source` is the cluster; `now_ms` the clock, which tests replace."""

    CSS_PATH = "yak.tcss"
    TITLE = "yak"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {entry.name: entry.make for entry in SCREENS}
    BINDINGS: ClassVar[list[BindingType]] = [*keys(*_KEY_IDS)]

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

    # life

    def on_mount(self) -> None:
        """The first screen, and listening."""
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
        """Fold in what the cluster tells, for as long as the app lives."""
        events: AsyncIterator[dict[str, Any]] = self.source.follow()
        async for event in events:
            self.picture.take(event)
            if event["kind"] in ("snapshot", "lost") and self._painted_version <= 1:
                self._paint()

    def _tick(self) -> None:
        now_ms = self.now_ms()
        if self.picture.incomplete:
            self.complete_topics()
        if self.is_frozen or (self._is_away and now_ms - self._painted_ms < 1_000 / STALE_FPS):
            return
        if self.picture.version != self._painted_version or now_ms - self._painted_ms >= 1_000:
            self._paint()

    @work(group="complete")
    async def complete_topics(self) -> None:
        """Ask for the partitions of topics that events only name; again while the broker asked does not know them yet."""
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

    def _paint(self) -> None:
        self._painted_version = self.picture.version
        self._painted_ms = self.now_ms()
        screen = self.screen_below()
        if screen is not None:
            screen.paint_all(self._painted_ms)

    def screen_below(self) -> YakScreen | None:
        """The screen that is seen, under dialogs too."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, YakScreen):
                return screen
        return None

    def repaint(self) -> None:
        """Draw soon, whatever changed."""
        self._painted_version = -1

    def on_app_blur(self) -> None:
        """Nobody looks: draw seldom."""
        self._is_away = True

    def on_app_focus(self) -> None:
        """Somebody looks."""
        self._is_away = False
        self.repaint()

    def on_file_uploaded(self, event: FileUploaded) -> None:
        """The browser has sent a file: who chooses one now sees it, others are told."""
        self.notice(f"{event.path.name} is uploaded: choose it in the Producer (key f)")
        self.screen.post_message(FileUploaded(event.path))

    async def on_unmount(self) -> None:
        """Close connections."""
        await self.source.close()

    # going

    def screens_by_digit(self) -> list[tuple[str, str, str]]:
        """Digit, name and label, in the order of the digits."""
        order = "1234567890"
        with_digit = (entry for entry in SCREENS if entry.digit)
        return [
            (entry.digit, entry.name, entry.label)
            for entry in sorted(with_digit, key=lambda each: order.index(each.digit))
        ]

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
        if isinstance(root, YakScreen):
            root.opened(what)

    def action_go(self, name: str) -> None:
        """A digit."""
        self.go(name)

    def action_last(self) -> None:
        """The screen before this one."""
        if self._last_mode:
            self.go(self._last_mode)

    async def action_back(self) -> None:
        """Out of the innermost thing; from a first screen to the dashboard."""
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
        """The end."""
        self.exit(0)

    # typing

    @work(exclusive=True, group="prompt")
    async def action_command(self) -> None:
        """`:`."""
        typed = await self.push_screen_wait(Prompt(":", completion=command_line.completion))
        if typed:
            try:
                await command_line.run(self, typed)
            except YakError as error:
                self.show_error(error)

    @work(exclusive=True, group="prompt")
    async def action_find(self) -> None:
        """`/`: filters as it is typed."""
        screen = self.screen
        if not isinstance(screen, YakScreen):
            return
        before = screen.filter_words()
        typed = await self.push_screen_wait(Prompt("/", value=before, changed=partial(self._filter, screen)))
        self._filter(screen, before if typed is None else typed)

    def _filter(self, screen: YakScreen, text: str) -> str:
        """Filter; what is wrong with the filter comes back in words."""
        try:
            screen.set_filter(text)
        except YakError as error:
            return f"{error.message}: {error.why}" if error.why else error.message
        return ""

    async def run_command(self, name: str, argument: str) -> None:
        """A word after `:` that is no screen. Raises YakError."""
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

    def _set_theme(self, name: str) -> None:
        if not name:
            name = NAMES[(NAMES.index(self._theme_name()) + 1) % len(NAMES)]
        if name not in NAMES:
            raise UsageError("unknown-theme", f'there is no theme "{name}"', why=f"there are {', '.join(NAMES)}")
        self.theme = textual_name(name)
        self.notice(f"theme {name}")

    def _theme_name(self) -> str:
        return next((name for name in NAMES if textual_name(name) == self.theme), NAMES[0])

    def _set_zone(self, name: str) -> None:
        zones: dict[str, Any] = {zone: zone for zone in ZONES}
        if name and name not in zones:
            raise UsageError("unknown-zone", f'there is no zone "{name}"', why=f"there are {', '.join(ZONES)}")
        zone = zones[name] if name else ZONES[(ZONES.index(self.look.zone) + 1) % len(ZONES)]
        self.look = Look(zone, self.look.is_ascii, self.look.is_wide)
        self.repaint()

    # what is done everywhere

    def action_zone(self) -> None:
        """UTC, local, relative."""
        self._set_zone("")
        self.notice(
            f"times are {'how long ago' if self.look.zone == 'relative' else 'in ' + self.look.zone.replace('utc', 'UTC') + (' time' if self.look.zone == 'local' else '')}"
        )

    def action_wide(self) -> None:
        """All columns, or those that have room."""
        self.look = Look(self.look.zone, self.look.is_ascii, not self.look.is_wide)
        self.repaint()
        self._paint()

    def action_freeze(self) -> None:
        """Stop what the screen reads, or else drawing; and go on."""
        screen = self.screen_below()
        if screen is None or not screen.hold():
            self.is_frozen = not self.is_frozen
        self._paint()

    def action_zoom(self) -> None:
        """The panel with the focus over the whole window."""
        screen = self.screen
        if screen.maximized is not None:
            screen.minimize()
        elif screen.focused is not None:
            screen.maximize(screen.focused)

    def action_help(self) -> None:
        """What the keys do."""
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog(f"Keys of {screen.TITLE_WORDS or 'this screen'}", help_text.of_screen(screen)))

    def action_palette(self) -> None:
        """All commands."""
        self.action_command_palette()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """What themes of others do not name."""
        return VARIABLES_OF_OTHERS

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """What the palette lists: what `:` knows, and the actions of this screen."""
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
        """What the numbers mean."""
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog("What these numbers mean", help_text.explained(screen)))

    def action_notices(self) -> None:
        """All that was noticed."""
        self.push_screen(TextDialog("Notices", help_text.notices(self.notices, self.look, self.now_ms())))

    def action_jump(self) -> None:
        """Letters on panels."""
        from yak.tui.widgets.jump import JumpDialog

        screen = self.screen_below()
        if screen is not None:
            self.push_screen(JumpDialog(list(screen.panels())), self._jumped)

    def _jumped(self, widget: Any) -> None:
        if widget is not None:
            widget.focus()

    def action_panel_next(self) -> None:
        """Focus on."""
        self.screen.focus_next()

    def action_panel_before(self) -> None:
        """Focus back."""
        self.screen.focus_previous()

    def action_tab_next(self) -> None:
        """The next tab."""
        self._turn_tab(1)

    def action_tab_before(self) -> None:
        """The tab before."""
        self._turn_tab(-1)

    def _turn_tab(self, by: int) -> None:
        screen = self.screen
        tabs = screen.tabs() if isinstance(screen, YakScreen) else None
        if tabs is None:
            return
        names = [pane.id for pane in tabs.query("TabPane") if pane.id]
        if names:
            tabs.active = names[(names.index(tabs.active) + by) % len(names)]

    # telling

    def show_error(self, error: BaseException) -> None:
        """What happened, why, what to try: a toast, kept in the notices. Not a YakError: a fault of ours, told as one."""
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
        """A line at the bottom for a while, kept in the notices."""
        self.notices.append((self.now_ms(), words, tone))
        self.repaint()

    def last_notice(self, now_ms: int) -> Cell | None:
        """What to say at the bottom now."""
        if not self.notices:
            return None
        time_ms, said, tone = self.notices[-1]
        if now_ms - time_ms > NOTICE_MS or isinstance(said, YakError):
            return None
        return Cell(said, tone or "accent")  # type: ignore[arg-type]

    def note_command(self, command: str, outcome: str = "") -> None:
        """What the user did, as a command line: it is shown in the activity."""
        self.picture.activity.note_command(self.now_ms(), command, outcome)
        self.repaint()

    def copy(self, text: str, what: str) -> None:
        """To the clipboard of the terminal or the browser (OSC 52)."""
        self.copy_to_clipboard(text)
        self.notice(f"copied {what}")

    def forget_key_bar(self) -> None:
        """The keys may be others."""
        self.call_after_refresh(self._refresh_key_bar)

    def _refresh_key_bar(self) -> None:
        for bar in self.screen.query(KeyBar):
            bar.refresh_keys()

    def on_descendant_focus(self) -> None:
        """Other keys are bound now."""
        self._refresh_key_bar()

    # contexts, doctor, sample

    def context_names(self) -> list[tuple[str, bool]]:
        """All contexts, and whether each is in use; the address where there is none."""
        found = [(name, name == self._context_name) for name in self.settings.contexts]
        return found if any(used for _, used in found) else [(self.source.title, True), *found]

    @property
    def context_name(self) -> str:
        """The context in use; empty where the cluster has no name."""
        return self._context_name

    def use_context(self, name: str) -> None:
        """Show another cluster. Raises UsageError (`unknown-context`)."""
        if name not in self.settings.contexts or self._other_source is None:
            raise UsageError(
                "unknown-context",
                f'there is no context "{name}"',
                why=f"there are {', '.join(self.settings.contexts) or 'none'}",
                try_=(f"yak context add {name} -b host:9092",),
            )
        self._switch_source(name, self._other_source(name))

    def take_contexts(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """The contexts of the config file are others now."""
        named = {name: values for name, values in found.items() if values.get("bootstrap_servers")}
        self.settings = replace(self.settings, contexts=named)
        self.repaint()

    def _mark_cluster(self, *, is_production: bool, accent: str) -> None:
        """What tells one cluster from another: a red header, a colour."""
        self.is_production, self.accent = is_production, accent
        self.set_class(is_production, "-production")
        self.refresh_css(animate=False)

    def get_css_variables(self) -> dict[str, str]:
        """The theme's, with the accent of the context; themes without colours stay so."""
        variables = super().get_css_variables()
        if self.accent and self._theme_name() not in ("mono", "ansi"):
            with suppress(ColorParseError):  # a word in the config that is no colour marks nothing
                color = Color.parse(self.accent)
                variables["accent"] = (color if self.current_theme.dark else color.darken(0.2)).hex
        return variables

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

    @work(exclusive=True, group="doctor")
    async def run_doctor(self) -> None:
        """`yak doctor`, and what it says."""
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
        """A topic with messages, for who has none."""
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


def _clock() -> int:
    return int(time.time() * 1000)
