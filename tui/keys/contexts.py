"""Keys of the contexts."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final = (
    Key("contexts.add", "a", "add", "Name a cluster; it is written to the config file."),
    Key("contexts.remove", "X", "forget", "Take it out of the config file; the cluster is not touched."),
    Key("contexts.again", "r", "try again", "Try now which clusters answer."),
    Key("contexts.copy", "y", "copy", "Copy the addresses.", is_shown=False),
)
