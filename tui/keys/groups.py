"""Keys of groups."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final = (
    Key(
        "groups.reset",
        "r",
        "move offsets",
        "Move what it committed: to earliest, latest, a time, ... Shows a plan first.",
    ),
    Key("groups.delete", "X", "delete", "Delete the group, and all that it committed.", is_change=True),
    Key("groups.consume", "c", "consume", "Read with a group."),
    Key("groups.copy", "y", "copy", "Copy its name.", is_shown=False),
    Key(
        "group.reset",
        "r",
        "move offsets",
        "Move what it committed: to earliest, latest, a time, ... Shows a plan first.",
    ),
    Key("group.forget", "D", "forget", "Forget what it committed of the topic under the cursor.", is_change=True),
    Key("group.delete", "X", "delete", "Delete the group, and all that it committed.", is_change=True),
    Key("group.age", "t", "ages", "Read the first unread records now: how old they are."),
    Key("group.messages", "m", "messages", "Messages of the topic under the cursor."),
    Key("group.copy", "y", "copy", "Copy the line.", is_shown=False),
    Key("reset.apply", "R,ctrl+s", "move", "Move the offsets as the plan says.", is_change=True),
    Key("reset.again", "r", "again", "Ask for the plan again."),
)
