"""One entry of the table of keys."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """An action by its id, `scope.name`: its keys, a word for the key bar, a sentence for the help.

    `scope` is the part before the first dot. Actions of one scope and of `everywhere` never share a key.
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
        """The screen or widget of the action."""
        return self.id.partition(".")[0]
