"""An input for a topic's name, completed from the existing topics."""

from typing import TYPE_CHECKING

from textual.suggester import Suggester
from textual.widgets import Input

if TYPE_CHECKING:
    from yak.tui.app import YakApp


class TopicField(Input):
    """Right arrow or end accepts the suggestion."""

    app: "YakApp"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(placeholder="topic", compact=True, id=id, select_on_focus=False)
        self.suggester = _Topics(self)

    @property
    def known(self) -> list[str]:
        """The names of all topics except Kafka's internal ones."""
        names = {topic for topic, _ in self.app.picture.partitions}
        return sorted(name for name in names if not name.startswith("__"))


class _Topics(Suggester):
    def __init__(self, field: TopicField) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._field = field

    async def get_suggestion(self, value: str) -> str | None:
        return next((name for name in self._field.known if value and name.startswith(value)), None)
