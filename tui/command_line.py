"""The commands after `:`, which the palette lists too."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yak.errors import UsageError
from yak.tui.screens.table import SCREENS
from yak.tui.themes import NAMES as THEMES

if TYPE_CHECKING:
    from yak.tui.app_actions import Actions


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its word, its argument, its effect."""

    name: str
    help: str
    argument: str = ""
    aliases: tuple[str, ...] = ()


OTHERS = (
    Command("help", "the keys of this screen", aliases=("h",)),
    Command("keys", "all keys of all screens, by action"),
    Command("theme", f"one of {', '.join(THEMES)}", "[NAME]"),
    Command("zone", "times in utc, local or relative", "[ZONE]"),
    Command("doctor", "check that clients can reach and use the cluster"),
    Command("notices", "errors and notices so far"),
    Command("explain", "what the numbers on this screen mean"),
    Command("sample", "make a topic named sample, with messages in it"),
    Command("k9s-keys", "keys as k9s has them"),
    Command("quit", "end yak ui", aliases=("q", "q!", "wq", "exit")),
)


def commands() -> Iterator[Command]:
    """All commands; screens first."""
    for entry in SCREENS:
        yield Command(entry.name, f"go to {entry.label.lower()}", "[WHAT]", entry.aliases)
    yield from OTHERS


def completion(typed: str) -> str:
    """The first command that starts with the typed text; empty if none does."""
    word = typed.strip()
    if not word or " " in typed:
        return ""
    names = [name for command in commands() for name in (command.name, *command.aliases)]
    return next((name for name in names if name.startswith(word)), "")


async def run(app: "Actions", typed: str) -> None:
    """Run a typed command. Raises UsageError (`unknown-command`)."""
    word, _, argument = typed.strip().partition(" ")
    argument = argument.strip()
    for entry in SCREENS:
        if word == entry.name or word in entry.aliases:
            app.go(entry.name, argument or None)
            return
    for command in OTHERS:
        if word == command.name or word in command.aliases:
            await app.run_command(command.name, argument)
            return
    names = [name for command in commands() for name in (command.name, *command.aliases)]
    closest = difflib.get_close_matches(word, names, 1)
    raise UsageError(
        "unknown-command",
        f'there is no command "{word}"',
        why=f'closest: "{closest[0]}"' if closest else "",
        try_=("ctrl+p shows all of them",),
    )
