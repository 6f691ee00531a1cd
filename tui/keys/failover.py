"""Keys of the failover, bench and Spark screens."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final[tuple[Key, ...]] = ()
