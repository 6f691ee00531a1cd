"""The app: it connects to a cluster, shows screens, decides when to draw, and runs the actions and commands of every screen."""

import asyncio
import gc
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

from rich.segment import Segment
from textual import events, work
from textual.app import App, ScreenStackError, SystemCommand
from textual.binding import BindingType
from textual.color import Color, ColorParseError
from textual.css.query import NoMatches
from textual.dom import DOMNode, NoScreen
from textual.filter import LineFilter
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widgets import Input, Tabs, TextArea
from textual.worker import NoActiveWorker, Worker, WorkerFailed, get_current_worker

from yak.errors import UsageError, YakError, closest
from yak.local.spawn import yak_argv
from yak.plain_text import one_line
from yak.tui.formatter import ZONE_LABELS, ZONES, Formatter
from yak.tui.keys import K9S_KEYS, KEYS, SCREENS, Entry, all_keys, explained, keys, keys_of_screen, notices
from yak.tui.launch import contexts_of
from yak.tui.rows.cells import Cell
from yak.tui.rows.contexts import is_set
from yak.tui.screens.base import FileUploaded, YakScreen
from yak.tui.settings import UiSettings
from yak.tui.source.base import UNREADABLE, ClusterSource, complete_topics, unreadable
from yak.tui.state.picture import Picture
from yak.tui.themes import NAMES, THEMES, VARIABLES_OF_OTHERS, textual_name
from yak.tui.widgets.dialogs import FieldsDialog, JumpDialog, Prompt, TextDialog
from yak.tui.widgets.frame import KeyBar


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its word, its effect, with the word as typed and its argument, and its argument's name."""

    name: str
    help: str
    run: Callable[["YakApp", str, str], object]
    argument: str = ""
    aliases: tuple[str, ...] = ()


def _go(entry: Entry) -> Callable[["YakApp", str, str], object]:
    return lambda app, word, argument: app.go(entry.name, entry.opens(word, argument))


COMMANDS = (
    *(Command(each.name, f"go to {each.label.lower()}", _go(each), "[WHAT]", each.aliases) for each in SCREENS),
    Command("help", "the keys of this screen", lambda app, *_: app.action_help(), aliases=("h",)),
    Command("keys", "all keys of all screens, by action", lambda app, *_: app.action_keys()),
    Command("theme", f"one of {', '.join(NAMES)}", lambda app, _, name: app.set_theme(name), "[NAME]"),
    Command("zone", "times in utc, local or relative", lambda app, _, name: app.set_zone(name), "[ZONE]"),
    Command("doctor", "check that clients can reach and use the cluster", lambda app, *_: app.run_doctor()),
    Command("notices", "errors and notices so far", lambda app, *_: app.action_notices()),
    Command("explain", "what the numbers on this screen mean", lambda app, *_: app.action_explain()),
    Command("sample", "make a topic named sample, with records in it", lambda app, *_: app.make_sample()),
    Command("k9s-keys", "keys as k9s has them", lambda app, *_: app.action_k9s_keys()),
    Command("quit", "end yak ui", lambda app, *_: app.action_leave(), aliases=("q", "q!", "wq", "exit")),
)
_BY_WORD: Final = {word: command for command in COMMANDS for word in (command.name, *command.aliases)}


def completion(typed: str) -> str:
    """The first command that starts with the typed text; empty if none does."""
    word = typed.strip()
    if not word or " " in typed:
        return ""
    return next((name for name in _BY_WORD if name.startswith(word)), "")


PAINT_SHARE: Final = 4
"""The pause between two paints is at least this many times a paint's processor time: a large cluster's take long."""
STALE_FPS = 0.2
"""Frames per second while the terminal has no focus."""
_KEY_IDS = tuple(key.id for key in KEYS.values() if key.scope in ("go", "app"))
NOTICE_MS = 8_000
NOTICES_MAX = 500
KEY_WAITS_S = 1.0
"""A key waits at most so long for what the one before does, in case that ends with its widget, or opens nothing."""
_SCREENS_OF_ALL_CLUSTERS: Final = ("dashboard", "producer")
"""Screens that stay in another context: the others begin again. A producer goes on sending where it began."""
_OPENING: Final = ("change", "ask")
"""Groups of workers that open a form, some after they have read what it shows."""


class _ControlCharacterFilter(LineFilter):
    """The last filter before the terminal, for every widget: text from a cluster cannot send control sequences."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's
        if all(each.text.isprintable() for each in segments):
            return segments
        return [each if each.control else Segment(one_line(each.text), each.style) for each in segments]


_HARMLESS: Final = _ControlCharacterFilter()


class YakApp(App[int]):
    """The app of `yak ui`. `source` is the cluster; `now_ms` the clock, which tests replace."""

    CSS_PATH = "yak.tcss"
    TITLE = "yak"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    unreadable: ClassVar[tuple[type[Exception], ...]] = UNREADABLE
    """Exceptions that count as an answer's fault. Tests have none, so that bugs are not hidden."""
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
        self.fmt = Formatter(self.settings.zone, self.settings.is_ascii)  # type: ignore[arg-type]
        self.is_readonly = self.settings.is_readonly
        self.is_production = self.settings.is_production
        self.is_frozen = False
        self.now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self.notices: deque[tuple[int, YakError | str, str]] = deque(maxlen=NOTICES_MAX)
        self._other_source = other_source
        self.context_name = self.settings.context
        """The context in use; empty if the cluster has no name."""
        self._last_mode = ""
        self._ended_prompt: Prompt | None = None
        self._key_under_way: events.Key | None = None
        """The last key, until the screen has dealt with it."""
        self._workers_before: set[Worker[Any]] = set()
        """The workers when that key was pressed: a new one may open a form for the keys behind it."""
        self._held_keys: list[events.Key] = []
        """The keys behind that one, or behind the one that closes that prompt, until its answer was taken."""
        self._painted_version = -1
        self._painted_ms = 0
        self._paint_again_at = 0.0
        """When a paint may follow the last one, on the monotonic clock."""
        self._is_away = False
        for theme in THEMES:
            self.register_theme(theme)
        if self.settings.theme == NAMES[0]:
            # Set on mount, as the other themes are, it would parse and apply all styles again before the first screen.
            self.set_reactive(YakApp.theme, textual_name(self.settings.theme))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, then the one that escapes control characters in clients' texts."""
        return [*super().get_line_filters(), _HARMLESS]

    def paint_now(self) -> None:
        self._painted_version = self.picture.version
        self._painted_ms = self.now_ms()
        began = time.thread_time()
        screen = self.screen_below()
        if screen is not None:
            screen.paint_all(self._painted_ms)
        # Not the paint's duration: on a machine that others load, a short paint may wait long for its turn.
        self._paint_again_at = time.monotonic() + PAINT_SHARE * (time.thread_time() - began)

    def screen_below(self) -> YakScreen | None:
        """The visible screen, even under a dialog."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, YakScreen):
                return screen
        return None

    def repaint(self) -> None:
        self._painted_version = -1

    # navigation

    def screens_by_digit(self) -> list[tuple[str, str, str]]:
        """Digit, name and label of each screen, in the order of the digits."""
        return [(entry.digit, entry.name, entry.label) for entry in SCREENS if entry.digit]

    def _handle_exception(self, error: Exception) -> None:
        """Textual's handler, but it ignores missing widgets while the app ends, and in a worker whose node is removed.

        Textual removes widgets before it cancels their workers, and before their screen has taken its last messages.
        """
        cause = error.error if isinstance(error, WorkerFailed) else error
        of_widgets = isinstance(cause, NoMatches | NoScreen | ScreenStackError)
        if not (of_widgets and (self._exit or self._is_worker_left())):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """End without Textual's traceback: `yak.commands.main` writes that of `fault` to a file."""
        self._close_messages_no_wait()

    @property
    def fault(self) -> Exception | None:
        """The exception that ended the app: a bug."""
        error = self._exception
        return error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error

    def _is_worker_left(self) -> bool:
        try:
            node = get_current_worker().node
        except NoActiveWorker:
            return False
        if not node.is_attached:
            return True
        return any(isinstance(each, DOMNode) and each._pruning for each in node.ancestors_with_self)  # noqa: SLF001

    def go(self, name: str, what: object = None) -> None:
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
        self.go(name)

    def action_last(self) -> None:
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
        self.exit(0)

    # notices

    def show_error(self, error: YakError) -> None:
        """Show an error as a toast with its why and try, and record it in the notices."""
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

    def show_unreadable(self, what: str, error: Exception) -> None:
        """Show that something of the cluster's cannot be read; once for each fault."""
        found = unreadable(what, error)
        if all(getattr(said, "why", "") != found.why for _, said, _ in self.notices):
            self.show_error(found)

    def notice(self, text: str, tone: str = "") -> None:
        """Show a line at the bottom for a while, and record it in the notices."""
        self.notices.append((self.now_ms(), text, tone))
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
        for screen in self.screen_stack[-1:]:  # none while the app ends
            for bar in screen.query(KeyBar):
                bar.refresh_keys()

    def on_descendant_focus(self) -> None:
        """Update the key bar: the focused widget binds other keys."""
        self._refresh_key_bar()

    def on_descendant_blur(self) -> None:
        """Update the key bar: escape leaves a field, and then nothing has the focus."""
        self.forget_key_bar()

    # contexts

    def context_names(self) -> list[tuple[str, bool]]:
        """All contexts, and whether each is in use. If none is in use, the cluster's address comes first."""
        found = [(name, name == self.context_name) for name in self.settings.contexts]
        return found if any(used for _, used in found) else [(self.source.title, True), *found]

    def take_contexts(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Use the changed contexts of the config file. Contexts without brokers are left out."""
        self.settings = replace(self.settings, contexts=contexts_of(found))
        self.repaint()

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

    # listening and drawing

    def on_mount(self) -> None:
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
        following: AsyncIterator[dict[str, Any]] = self.source.follow()
        async for event in following:
            try:
                self.picture.take(event)
            except self.unreadable as error:
                self.show_unreadable("an event of a broker", error)
                continue
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
        is_due = self.picture.version != self._painted_version or now_ms - self._painted_ms >= 1_000
        if is_due and time.monotonic() >= self._paint_again_at:
            self.paint_now()

    @work(group="complete")
    async def complete_topics(self) -> None:
        try:
            await complete_topics(self.source, self.picture, self.now_ms)
        except self.unreadable as error:
            self.show_unreadable("an answer of a broker", error)

    def on_app_blur(self) -> None:
        """Draw seldom while the terminal has no focus."""
        self._is_away = True

    def on_app_focus(self) -> None:
        self._is_away = False
        self.repaint()

    def on_file_uploaded(self, event: FileUploaded) -> None:
        """Report a file from the browser with a notice, and pass it to the screen, which may be choosing one."""
        self.notice(f"{event.path.name} is uploaded: choose it in the Producer (key f)")
        self.screen.post_message(FileUploaded(event.path))

    async def on_unmount(self) -> None:
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
        self.context_name = name
        values = self.settings.contexts[name]
        self.is_readonly = self.settings.is_readonly or is_set(values, "readonly")
        self.is_production, self.accent = is_set(values, "production"), str(values.get("accent") or "")
        self.set_class(self.is_production, "-production")
        self.refresh_css(animate=False)
        self.picture = Picture()
        self.listen()
        self.go("dashboard")
        self.repaint()
        ended = []
        for entry in SCREENS:
            if entry.name not in _SCREENS_OF_ALL_CLUSTERS:
                ended.append(self.remove_mode(entry.name))
                self.add_mode(entry.name, entry.make)  # at once: the next key may go there
        for each in ended:
            await each
        await old.close()

    # the commands after `:`

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave `:` and `/` to text fields."""
        if action in ("command", "find"):
            return not isinstance(self.screen.focused, Input | TextArea)
        return super().check_action(action, parameters)

    def action_command(self) -> None:
        def typed(text: str | None) -> None:
            if text:
                self._run_typed(text)

        self.ask(Prompt(":", completion=completion), typed)

    def ask(self, prompt: Prompt, then: Callable[[str | None], object]) -> None:
        """Open a prompt. `then` gets the text, or None; the keys that were typed behind it follow."""

        async def answered(text: str | None) -> None:
            then(text)
            await self.take_keys_behind(prompt)

        def closed(text: str | None) -> None:
            # later: the prompt must leave its own stack of screens before another screen is shown
            self.call_later(answered, text)

        self.push_screen(prompt, closed)

    async def on_event(self, event: events.Event) -> None:
        """Take the keys one by one: the next one is for what the one before leads to, such as a field or a screen."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
        elif (
            self._ended_prompt is not None
            or self._key_under_way is not None
            or (isinstance(self.screen, FieldsDialog) and not self.screen.is_open)
        ):
            if not self._held_keys and self._key_under_way is not None:
                self.set_timer(KEY_WAITS_S, partial(self._take_keys_behind_key, self._key_under_way, is_late=True))
            self._held_keys.append(event)
        else:
            prompt = self.screen
            way = (self.focused or prompt).ancestors_with_self
            await super().on_event(event)
            if isinstance(prompt, Prompt) and event.key in ("enter", "escape"):
                self._ended_prompt = prompt
            elif event.is_forwarded:
                self._key_under_way, self._workers_before = event, set(self.workers)
                self._follow(event, way)

    def _follow(self, key: events.Key, way: Sequence[MessagePump]) -> None:
        """Go behind a key from the widget that had it up to the app, through the queue of each on this way."""
        for index, pump in enumerate(way):
            if pump.call_later(self._follow, key, way[index + 1 :]):
                return
        self.call_later(self._take_keys_behind_key, key)  # what its binding did may be in the queue: `focus` is

    async def _take_keys_behind_key(self, key: events.Key, *, is_late: bool = False) -> None:
        new = (each for each in self.workers if each not in self._workers_before and each.group in _OPENING)
        if self._key_under_way is key and (is_late or all(each.is_finished for each in new)):
            self._key_under_way = None
            await self._take_held_keys()

    async def take_keys_behind_opening(self, dialog: FieldsDialog[Any]) -> None:
        """Take the keys that were held while this dialog opened; a key typed before a question is no answer to it."""
        if not dialog.takes_text:
            self._held_keys.clear()
        dialog.is_open, self._key_under_way = True, None
        await self._take_held_keys()

    async def take_keys_behind(self, prompt: Prompt) -> None:
        """Take the keys that were held while this prompt closed."""
        if self._ended_prompt is prompt:
            self._ended_prompt = None
            await self._take_held_keys()

    async def _take_held_keys(self) -> None:
        held, self._held_keys = self._held_keys, []
        for event in held:
            await self.on_event(event)

    def action_find(self) -> None:
        """Open the filter line (`/`); the filter applies as it is typed. Enter refuses an invalid one, escape undoes it."""
        screen = self.screen
        if not isinstance(screen, YakScreen):
            return
        before = screen.current_filter()

        def typed(text: str | None) -> None:
            self._filter(screen, before if text is None else text)

        self.ask(Prompt("/", value=before, changed=partial(self._filter, screen)), typed)

    def _filter(self, screen: YakScreen, text: str) -> str:
        """Set the filter; return its error, or an empty text."""
        try:
            screen.set_filter(text)
        except YakError as error:
            return f"{error.message}: {error.why}" if error.why else error.message
        return ""

    def action_k9s_keys(self) -> None:
        self.set_keymap({**self.settings.keymap, **K9S_KEYS})
        self.notice("keys are as k9s has them: ctrl+d deletes, d describes, ctrl+b and ctrl+f page")

    def set_zone(self, name: str) -> None:
        zones: dict[str, Any] = {zone: zone for zone in ZONES}
        if name and name not in zones:
            raise UsageError("unknown-zone", f'there is no zone "{name}"', why=f"there are {', '.join(ZONES)}")
        zone = zones[name] if name else ZONES[(ZONES.index(self.fmt.zone) + 1) % len(ZONES)]
        self.fmt = replace(self.fmt, zone=zone)
        self.repaint()

    def set_theme(self, name: str) -> None:
        if not name:
            name = NAMES[(NAMES.index(self._theme_name()) + 1) % len(NAMES)]
        if name not in NAMES:
            raise UsageError("unknown-theme", f'there is no theme "{name}"', why=f"there are {', '.join(NAMES)}")
        self.theme = textual_name(name)
        self.notice(f"theme {name}")

    # actions of every screen

    def action_zone(self) -> None:
        self.set_zone("")
        self.notice(f"times are {ZONE_LABELS[self.fmt.zone]}")

    def action_wide(self) -> None:
        self.fmt = replace(self.fmt, is_wide=not self.fmt.is_wide)
        self.repaint()
        self.paint_now()

    def action_freeze(self) -> None:
        """Resume drawing if it is paused. Otherwise pause or resume the screen's reading, or else pause drawing."""
        screen = self.screen_below()
        self.is_frozen = not self.is_frozen and (screen is None or not screen.hold())
        self.paint_now()

    def action_zoom(self) -> None:
        screen = self.screen
        if screen.maximized is not None:
            screen.minimize()
        elif screen.focused is not None:
            screen.maximize(screen.focused)

    def action_help(self) -> None:
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog(f"Keys of {screen.CRUMB or 'this screen'}", keys_of_screen(screen)))

    def action_keys(self) -> None:
        self.push_screen(TextDialog("All keys", all_keys()))

    def action_palette(self) -> None:
        self.action_command_palette()

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """The palette's entries: the commands of `:` and the actions of this screen."""
        for command in COMMANDS:
            text = f"{command.name} {command.argument}".strip()
            yield SystemCommand(f":{text}", command.help, partial(self._run_typed, command.name))
        if isinstance(screen, YakScreen):
            for active in screen.active_bindings.values():
                key = KEYS.get(active.binding.id or "")
                if key is not None and key.scope not in ("go", "grid") and active.enabled:
                    yield SystemCommand(
                        f"{key.label} ({key.id})",
                        key.help,
                        partial(self.run_action, active.binding.action, active.node),
                    )

    def _run_typed(self, typed: str) -> None:
        word, _, argument = typed.strip().partition(" ")
        try:
            self._command(word).run(self, word, argument.strip())
        except YakError as error:
            self.show_error(error)

    def _command(self, word: str) -> Command:
        """Raises UsageError (`unknown-command`)."""
        if word in _BY_WORD:
            return _BY_WORD[word]
        near = closest(word, _BY_WORD)
        raise UsageError(
            "unknown-command",
            f'there is no command "{word}"',
            why=f'closest: "{near}"' if near else "",
            try_=("ctrl+p shows all of them",),
        )

    def action_explain(self) -> None:
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(TextDialog("What these numbers mean", explained(screen)))

    def action_notices(self) -> None:
        self.push_screen(TextDialog("Notices", notices(self.notices, self.fmt, self.now_ms())))

    def action_jump(self) -> None:
        screen = self.screen_below()
        if screen is not None:
            self.push_screen(JumpDialog(screen.focus_chain), lambda panel: None if panel is None else panel.focus())

    def action_tab(self, by: int) -> None:
        for tabs in self.screen.query(Tabs):
            (tabs.action_next_tab if by > 0 else tabs.action_previous_tab)()

    @work(exclusive=True, group="doctor")
    async def run_doctor(self) -> None:
        where = ["-b", self.source.bootstrap]
        if self.context_name in self.settings.contexts:  # else the current context's login would be sent
            where += ["--config", self.settings.config_file, "--context", self.context_name]
        command = yak_argv("doctor", *where, "--no-color")
        child = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
        said, _ = await child.communicate()
        self.note_command(f"yak doctor -b {self.source.bootstrap}")
        self.push_screen(TextDialog("yak doctor", said.decode(errors="replace")))

    @work(exclusive=True, group="sample")
    async def make_sample(self) -> None:
        from yak.client.record_template import RecordTemplate, parse_template
        from yak.tui.produce.run import Plan, Run, TemplateFeed, send

        value = '{"order": {{i}}, "total": {{int 0 99}}, "currency": "EUR"}'
        plan = Plan("sample", count=100)
        feed = TemplateFeed(plan, RecordTemplate(parse_template("k{{int 0 6}}"), parse_template(value), ()))
        try:
            if self.is_readonly:
                raise UsageError("readonly", "nothing is changed here", why="yak ui was started with --readonly")
            with suppress(YakError):
                await self.source.ask("POST", "/topics", body={"name": "sample", "partitions": 3})
            sent = await self.source.kafka(send, Run(plan, feed))
        except YakError as error:
            self.show_error(error)
            return
        if sent.first_failure is not None:
            self.show_error(sent.first_failure.error)
            return
        self.note_command("yak topics create sample --partitions 3", "and 100 records")
        self.notice("topic sample has 100 records")
