"""Help texts, generated from the bound keys, so that they list only keys that exist."""

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from textual.content import Content

from yak.errors import YakError
from yak.tui.keys import KEYS

if TYPE_CHECKING:
    from yak.tui.look import Look
    from yak.tui.screens.base import YakScreen

_PLACES = {"app": "Everywhere", "go": "Screens", "grid": "In tables"}
_WIDTH = 14
K9S_KEYS = {"grid.page-down": "ctrl+f,pagedown", "grid.page-up": "ctrl+b,pageup", "topics.delete": "X,ctrl+d"}


def of_screen(screen: "YakScreen") -> Content:
    """The keys of one screen, its own first, and the command that shows the same."""
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        key = KEYS.get(binding.id or "")
        if key is None or not active.enabled:
            continue
        scope = _PLACES.get(key.scope, screen.TITLE_WORDS or key.scope)
        shown, words = groups.setdefault(scope, {}).get(key.id, ("", key.help))
        display = screen.app.get_key_display(binding)
        groups[scope][key.id] = (f"{shown} {display}".strip(), words)
    order = [name for name in groups if name not in _PLACES.values()] + [n for n in _PLACES.values() if n in groups]
    width = max(30, min(screen.app.size.width * 96 // 100, 100) - _WIDTH - 8)
    parts = []
    if screen.CLI_TWIN:
        parts.append(Content.assemble("The same as a command: ", (screen.CLI_TWIN, "bold"), "\n\n"))
    for name in order:
        parts.append(Content.styled(f"{name}\n", "bold $accent"))
        parts += [_line(shown, words, width) for shown, words in groups[name].values()]
        parts.append(Content("\n"))
    parts.append(
        Content.styled("ctrl+d is half a page down here, not delete as in k9s; :k9s-keys changes that.", "$dim")
    )
    return Content("").join(parts)


def all_keys() -> Content:
    """Every action by its id, the name that `[keys]` in the config uses."""
    parts = [
        Content.styled(
            '[keys] of the config gives an action other keys, for example:  "topics.create" = "A"\n\n', "$dim"
        )
    ]
    scope = ""
    for key in KEYS.values():
        if key.scope != scope:
            scope = key.scope
            parts.append(Content.styled(f"{scope}\n", "bold $accent"))
        parts.append(_line(key.keys.replace(",", " "), f"{key.id}: {key.help}"))
    return Content("").join(parts)


def _line(shown: str, words: str, width: int = 60) -> Content:
    padded = f"  {shown}".ljust(_WIDTH) if len(shown) < _WIDTH - 3 else f"  {shown}  "
    first, *rest = textwrap.wrap(words, width) or [""]
    more = "".join(f"{'':{_WIDTH}}{line}\n" for line in rest)
    return Content.assemble((padded, "bold"), f"{first}\n{more}")


def explained(screen: "YakScreen") -> Content:
    """The terms of a screen, explained in a sentence each."""
    if not screen.EXPLAINED:
        return Content("Nothing on this screen needs explaining.")
    parts = [Content.assemble((term, "bold $accent"), f"\n  {words}\n\n") for term, words in screen.EXPLAINED]
    return Content("").join(parts)


def notices(kept: Iterable[tuple[int, YakError | str, str]], look: "Look", now_ms: int) -> Content:
    """Notices and errors with their why and try, newest first."""
    parts: list[Any] = []
    for time_ms, said, tone in reversed(list(kept)):
        when = look.time(time_ms, now_ms)
        if isinstance(said, YakError):
            parts.append(Content.assemble(f"{when}  ", (f"{look.sign('bad')} {said.message}", "bold $error"), "\n"))
            parts += [Content(f"            why: {said.why}\n")] if said.why else []
            parts += [Content(f"            try: {each}\n") for each in said.try_]
        else:
            parts.append(Content.assemble(f"{when}  ", (said, "$warning" if tone in ("warn", "bad") else ""), "\n"))
    return Content("").join(parts) if parts else Content("No notices so far.")
