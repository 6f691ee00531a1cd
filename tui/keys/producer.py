"""Keys of the producer."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = ()
