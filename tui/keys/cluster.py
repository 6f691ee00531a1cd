"""Keys of the dashboard, topics and partitions."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final = (
    Key("dashboard.produce", "p", "produce", "Send messages."),
    Key("dashboard.consume", "c", "consume", "Read messages."),
    Key("dashboard.failover", "F", "failover", "Move leaderships, or break a broker.", action="go('failover')"),
    Key("activity.copy", "y", "copy", "Copy the line; of what you did, the command."),
    Key("topics.create", "a", "create", "Make a topic.", is_change=True),
    Key("topics.alter", "E", "edit", "Change configs, or add partitions.", is_change=True),
    Key("topics.delete", "X", "delete", "Delete the topic, and all that is in it.", is_change=True),
    Key("topics.browse", "m", "messages", "Its messages."),
    Key("topics.produce", "p", "produce", "Send a message to it."),
    Key("topics.describe", "d", "describe", "All about it."),
    Key("topics.copy", "y", "copy", "Copy its name, or the line.", is_shown=False),
    Key("topics.internal", "I", "internal", "Show the cluster's own topics too.", is_shown=False),
    Key("topics.failover", "F", "move", "Move a leadership.", is_change=True),
)
