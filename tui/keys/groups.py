"""Keys of groups."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = ()
