"""Keys of the messages and consumer screens."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = (
    Key("records.view", "J", "view", "Show JSON, plain text or hex."),
    Key("records.copy", "y", "copy", "Copy the key, the value, the headers, the record, or the command that sends it."),
    Key("records.export", "x", "export", "Write what is shown, or marked, to a file: NDJSON or CSV."),
    Key("records.resend", "p", "resend", "Open the producer with this message in it, to edit and send it."),
    Key("records.mark", "v", "mark", "Mark the message, or take the mark away, and go on to the next.", is_shown=False),
    Key("records.unmark", "V", "unmark", "Take all marks away.", is_shown=False),
    Key(
        "records.next",
        "n",
        "next",
        "The next message that the last filter holds for, or the next mark.",
        is_shown=False,
    ),
    Key("records.before", "N", "before", "The one before, of the same.", is_shown=False),
    Key("records.detail", "d", "detail", "Open or close the pane with all about the message."),
    Key("messages.seek", "o", "seek", "Read other topics, or from elsewhere: a time, an offset, the last so many."),
    Key("messages.more", "m", "more", "Read on where there was no room: the older half goes.", is_shown=False),
    Key("messages.consume", "c", "consume", "Read the same beside others, on the consumer screen.", is_shown=False),
    Key("consumer.add", "a", "add", "Read one more subscription, with a group or without.", action="add_tile"),
    Key(
        "consumer.merge", "m", "merge", "All subscriptions in one list, in the order in which messages come; and back."
    ),
    Key(
        "consumer.commit",
        "C",
        "commit",
        "Commit for the group what this tile has read.",
        is_change=True,
    ),
    Key("consumer.close", "X", "close", "End this subscription; a group is left.", action="close_tile"),
    Key("consumer.seek", "o", "seek", "Change this subscription."),
)
