"""One entry of the table of keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """An action by its id, `scope.name`: which keys, one word for the key bar, a sentence for the help.

    `scope` is what stands before the first dot: actions of one scope, and those of everywhere, never share a key.
    """

    id: str
    keys: str
    label: str
    help: str
    is_change: bool = False
    is_shown: bool = True
    is_priority: bool = False
    action: str = ""

    @property
    def scope(self) -> str:
        """Of what screen or widget it is."""
        return self.id.partition(".")[0]
