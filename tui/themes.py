"""Colour themes. Meaning never rests on colour alone, so a theme without colours works too."""

from textual.theme import Theme

YAK_DARK = Theme(
    name="yak-dark",
    primary="#7aa2f7",
    secondary="#bb9af7",
    accent="#7dcfff",
    warning="#e0af68",
    error="#f7768e",
    success="#9ece6a",
    foreground="#c8d0e0",
    background="#16181f",
    surface="#1b1e27",
    panel="#262a36",
    dark=True,
    variables={"dim": "#8790a5", "frame": "#3a4052"},
)
YAK_LIGHT = Theme(
    name="yak-light",
    primary="#1d4fa8",
    secondary="#6b3fa0",
    accent="#00607a",
    warning="#8a5200",
    error="#b3162d",
    success="#2c6e1f",
    foreground="#1f2430",
    background="#f7f7f4",
    surface="#ffffff",
    panel="#e6e6e0",
    dark=False,
    variables={"dim": "#5c6370", "frame": "#a9adb8"},
)
YAK_CONTRAST = Theme(
    name="yak-contrast",
    primary="#8cc8ff",
    secondary="#ffb3ff",
    accent="#7fffff",
    warning="#ffd75f",
    error="#ff9a9a",
    success="#8cff8c",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    dark=True,
    variables={"dim": "#c4c4c4", "frame": "#8a8a8a"},
)
YAK_DEUTAN = Theme(
    name="yak-deutan",
    primary="#79a8ff",
    secondary="#b6a0ff",
    accent="#6ae4ff",
    warning="#ffb95c",
    error="#ff8f3f",
    success="#6f9dff",
    foreground="#d8dce6",
    background="#14171f",
    surface="#1a1e28",
    panel="#252b38",
    dark=True,
    variables={"dim": "#8f98ab", "frame": "#3d465a"},
)
MONO = Theme(
    name="mono",
    primary="#d0d0d0",
    secondary="#d0d0d0",
    accent="#ffffff",
    warning="#ffffff",
    error="#ffffff",
    success="#d0d0d0",
    foreground="#d0d0d0",
    background="#000000",
    surface="#000000",
    panel="#222222",
    dark=True,
    variables={"dim": "#9a9a9a", "frame": "#5a5a5a"},
)
THEMES = (YAK_DARK, YAK_LIGHT, YAK_CONTRAST, YAK_DEUTAN, MONO)
NAMES = (*(theme.name for theme in THEMES), "ansi")
"""`ansi` uses the terminal's own sixteen colours."""


def textual_name(name: str) -> str:
    """Textual's name of a theme."""
    return "ansi-dark" if name == "ansi" else name


VARIABLES_OF_OTHERS = {"dim": "#808080", "frame": "#606060"}
"""Defaults for variables that Textual's own themes do not define."""
