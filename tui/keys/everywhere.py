"""Keys of every screen, and of every table."""

from typing import Final

from yak.tui.keys.key import Key

_SCREENS: Final = (
    ("1", "dashboard", "cluster health, brokers, rates, activity"),
    ("2", "topics", "topics and their partitions"),
    ("3", "messages", "browse and tail messages"),
    ("4", "producer", "send messages, one or a file"),
    ("5", "consumer", "several subscriptions side by side"),
    ("6", "groups", "consumer groups, members, lag"),
    ("7", "metadata", "the metadata log, and the cluster as it was"),
    ("8", "failover", "move leaderships, break brokers, see what happens"),
    ("9", "replication", "every partition: replicas, lag, elections"),
    ("0", "activity", "all events, and all that you did"),
)

KEYS: Final = (
    *(
        Key(f"go.{name}", key, name, f"Go to {what}.", is_shown=False, action=f"go('{name}')")
        for key, name, what in _SCREENS
    ),
    Key("app.command", "colon", "command", "Type a command: a screen, or what is to be done.", is_priority=True),
    Key(
        "app.find",
        "slash",
        "filter",
        "Show only lines with a text; !text: without it; ~text: a regular expression.",
        is_priority=True,
    ),
    Key("app.help", "question_mark", "help", "What all keys of this screen do."),
    Key("app.palette", "ctrl+p", "palette", "All commands, found by any part of their name.", is_shown=False),
    Key("app.back", "escape,q", "back", "Back to where you came from; clears a filter first.", is_shown=False),
    Key("app.leave", "Q", "quit", "End yak ui.", is_shown=False),
    Key("app.last", "minus", "last", "The screen that you were on before.", is_shown=False),
    Key("app.zone", "Z", "zone", "Times in UTC, in local time, or as how long ago.", is_shown=False),
    Key("app.wide", "w", "wide", "All columns, also those that have no room.", is_shown=False),
    Key("app.zoom", "z", "zoom", "Let this panel have the whole window, and back.", is_shown=False),
    Key("app.notices", "exclamation_mark", "notices", "All notices and errors so far.", is_shown=False),
    Key("app.explain", "i", "explain", "What the numbers on this screen mean.", is_shown=False),
    Key("app.jump", "apostrophe", "jump", "Letters on all panels; type one to go there.", is_shown=False),
    Key("app.freeze", "space", "pause", "Stop drawing, and go on; nothing is lost meanwhile.", is_shown=False),
    Key("app.panel-next", "tab,l", "panel", "The next panel.", is_shown=False),
    Key("app.panel-before", "shift+tab,h", "panel", "The panel before.", is_shown=False),
    Key("app.tab-before", "H", "tab", "The tab before.", is_shown=False),
    Key("app.tab-next", "L", "tab", "The next tab.", is_shown=False),
    Key("grid.down", "j,down", "down", "Down.", is_shown=False, action="cursor(1)"),
    Key("grid.up", "k,up", "up", "Up.", is_shown=False, action="cursor(-1)"),
    Key("grid.top", "g,home", "top", "The first line.", is_shown=False),
    Key("grid.bottom", "G,end", "bottom", "The last line.", is_shown=False),
    Key("grid.page-down", "ctrl+d,pagedown", "half a page", "Half a page down.", is_shown=False, action="page(1)"),
    Key("grid.page-up", "ctrl+u,pageup", "half a page", "Half a page up.", is_shown=False, action="page(-1)"),
    Key("grid.open", "enter", "open", "Open what the cursor is on."),
    Key("grid.sort", "s", "sort", "Sort by the next column; click on a heading for that one.", is_shown=False),
    Key("grid.left", "left", "left", "Columns to the left.", is_shown=False, action="across(-8)"),
    Key("grid.right", "right", "right", "Columns to the right.", is_shown=False, action="across(8)"),
)
