"""Colour themes. Meaning never rests on colour alone, so a theme without colours works too."""

from typing import Final

from textual.theme import Theme

_PARTS: Final = (
    "primary", "secondary", "accent", "warning", "error", "success", "foreground", "background", "surface", "panel",
    "dim", "frame",
)  # fmt: skip
_COLORS: Final = {
    "yak-dark": "#7aa2f7 #bb9af7 #7dcfff #e0af68 #f7768e #9ece6a #c8d0e0 #16181f #1b1e27 #262a36 #8790a5 #3a4052",
    "yak-light": "#1d4fa8 #6b3fa0 #00607a #8a5200 #b3162d #2c6e1f #1f2430 #f7f7f4 #ffffff #e6e6e0 #5c6370 #a9adb8",
    "yak-contrast": "#8cc8ff #ffb3ff #7fffff #ffd75f #ff9a9a #8cff8c #ffffff #000000 #000000 #1c1c1c #c4c4c4 #8a8a8a",
    "yak-deutan": "#79a8ff #b6a0ff #6ae4ff #ffb95c #ff8f3f #6f9dff #d8dce6 #14171f #1a1e28 #252b38 #8f98ab #3d465a",
    "mono": "#d0d0d0 #d0d0d0 #ffffff #ffffff #ffffff #d0d0d0 #d0d0d0 #000000 #000000 #222222 #9a9a9a #5a5a5a",
}
"""The colours of each theme, in the order of the parts."""


def _theme(name: str) -> Theme:
    colors = dict(zip(_PARTS, _COLORS[name].split(), strict=True))
    variables = {part: colors.pop(part) for part in ("dim", "frame")}
    return Theme(name=name, **colors, dark=name != "yak-light", variables=variables)  # type: ignore[arg-type]


THEMES: Final = tuple(map(_theme, _COLORS))
NAMES = (*(theme.name for theme in THEMES), "ansi")
"""`ansi` uses the terminal's own sixteen colours."""


def textual_name(name: str) -> str:
    """Textual's name of a theme."""
    return "ansi-dark" if name == "ansi" else name


VARIABLES_OF_OTHERS = {"dim": "#808080", "frame": "#606060"}
"""Defaults for variables that Textual's own themes do not define."""
