"""Keys of the metadata log."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final = (
    Key("metadata.older", "left_square_bracket", "back", "One record back.", action="step(-1)"),
    Key("metadata.newer", "right_square_bracket", "on", "One record on.", action="step(1)"),
    Key("metadata.time", "T", "time", "Go to a time, or to a record by its number."),
    Key(
        "metadata.mark",
        "equals_sign",
        "mark",
        "Mark this record: what changed between it and the cursor is shown; again: no more.",
    ),
    Key("metadata.copy", "y", "copy", "Copy the record as JSON.", is_shown=False),
)
