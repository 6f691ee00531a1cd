"""Keys of the failover screen."""

from typing import Final

from yak.tui.keys.key import Key

KEYS: Final = (
    Key("failover.move", "F", "failover", "Move leaderships away from the broker, in order.", is_change=True),
    Key("failover.kill", "K", "kill", "kill -9 the broker, or the metadata store.", is_change=True),
    Key("failover.pause", "P", "hang", "SIGSTOP: the broker hangs, and its connections stay.", is_change=True),
    Key("failover.heal", "U", "heal", "Undo: wake what hangs, start what is dead.", is_change=True),
    Key("failover.repeat", "R", "repeat", "The last one once more, with the same choice.", is_change=True),
    Key("failover.restart", "T", "restart", "Stop the broker in order, and start it.", is_change=True, is_shown=False),
    Key("failover.add", "A", "add", "Start one more broker.", is_change=True, is_shown=False),
    Key("failover.copy", "y", "copy", "Copy the command of the last one.", is_shown=False),
)
