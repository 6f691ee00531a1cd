"""Keys of the metadata log."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = ()
