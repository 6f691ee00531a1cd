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
    Key("partitions.move", "F", "move", "Give the leadership to another replica, in order.", is_change=True),
    Key("partitions.before", "left_square_bracket", "partition", "The partition before.", is_shown=False),
    Key("partitions.next", "right_square_bracket", "partition", "The next partition.", is_shown=False),
    Key("replication.move", "F", "move", "Give the leadership to another replica, in order.", is_change=True),
    Key("replication.kill", "K", "kill", "kill -9 the broker that leads this partition.", is_change=True),
    Key("replication.pause", "P", "hang", "SIGSTOP the broker that leads this partition: it hangs.", is_change=True),
    Key("replication.heal", "U", "heal", "Wake brokers that hang, start those that are dead.", is_change=True),
    Key(
        "replication.restart", "T", "restart", "Stop the leader in order, and start it.", is_change=True, is_shown=False
    ),
    Key("replication.problems", "o", "problems", "Only partitions that are not well, or all of them."),
    Key("replication.internal", "I", "internal", "Show the cluster's own topics too.", is_shown=False),
    Key("replication.copy", "y", "copy", "Copy the line.", is_shown=False),
)
