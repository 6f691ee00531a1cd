"""Keys of the producer. In text fields letters are text: `ctrl+s` sends from there too, and escape leaves the field."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = (
    Key("producer.send", "S,ctrl+s", "send", "Send the message, or the file.", is_change=True),
    Key("producer.repeat", "R", "repeat", "Send it many times: so many, at a rate, or until stopped.", is_change=True),
    Key("producer.stop", "X", "stop", "Send no more and wait for what is on its way; again: do not wait."),
    Key("producer.value", "e", "edit", "Go to the value."),
    Key("producer.file", "f", "file", "Choose a CSV file."),
)
