"""The first start: no cluster is configured, and none answers at the default address."""

from typing import Final, Literal

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from yak.tui.themes import THEMES, VARIABLES_OF_OTHERS, textual_name

Choice = Literal["up", "demo", "add", "quit"]
CHOICES: Final[tuple[tuple[Choice, str, str, str], ...]] = (
    ("demo", "d", "Run the demo", "brokers with a load; they stop with the screen  (yak ui --demo)"),
    ("up", "u", "Start a local cluster", "three brokers, which keep running  (yak up -d --brokers 3)"),
    ("add", "a", "Add a context", "a cluster that is already running  (yak context add)"),
    ("quit", "q", "Quit", "nothing was changed"),
)


class FirstRunApp(App[Choice]):
    """A list of four choices. `run()` returns the chosen one, or None if the terminal is gone. Escape quits."""

    BINDINGS = [
        *(Binding(key, f"choose('{choice}')", label) for choice, key, label, _ in CHOICES),
        Binding("escape,Q", "choose('quit')", "quit", show=False),
        Binding("j", "cursor(1)", "down", show=False),
        Binding("k", "cursor(-1)", "up", show=False),
    ]
    AUTO_FOCUS = "OptionList"
    CSS_PATH = "../yak.tcss"
    TITLE = "yak"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, servers: str = "127.0.0.1:9092", *, theme: str = "yak-dark") -> None:
        super().__init__()
        self._servers, self._theme_name = servers, theme
        for each in THEMES:
            self.register_theme(each)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Defaults for variables that Textual's own themes do not define."""
        return VARIABLES_OF_OTHERS

    def compose(self) -> ComposeResult:
        with Vertical(id="first-run") as box:
            box.border_title = "yak"
            yield Static(f"No cluster is named yet, and nothing answers at {self._servers}.", markup=False)
            yield Static("What do you want to do?", classes="first-run-ask")
            yield OptionList(
                *(Option(f"{key}  {label}\n   {text}", id=choice) for choice, key, label, text in CHOICES), markup=False
            )
            yield Static("j/k move   enter choose   or the letter", classes="first-run-hint")

    def on_mount(self) -> None:
        self.theme = textual_name(self._theme_name)

    @on(OptionList.OptionSelected)
    def take(self, event: OptionList.OptionSelected) -> None:
        self.action_choose(event.option.id or "quit")

    def action_choose(self, choice: str) -> None:
        self.exit(next((each for each, *_ in CHOICES if each == choice), "quit"))

    def action_cursor(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()
