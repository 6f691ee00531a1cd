"""One subscription on the consumer screen: its records, and its state on the edges."""

import asyncio
from collections.abc import Callable, Iterator

from yak.tui.look import Look
from yak.tui.messages.reader import Reader
from yak.tui.messages.subscription import Subscription
from yak.tui.messages.views import View
from yak.tui.rows.reading import empty_words, tile_title, tile_words
from yak.tui.rows.records import record_columns
from yak.tui.widgets.message_grid import MessageGrid
from yak.tui.widgets.panel import Panel

LEAVE_SECONDS = 2.0


class Tile(Panel):
    """`letter` names it. It reads from its creation to its removal."""

    def __init__(
        self,
        letter: str,
        wanted: Subscription,
        filter_text: str,
        *,
        servers: Callable[[], str],
        numbering: Iterator[int],
    ) -> None:
        self.grid = MessageGrid(id=f"tile-{letter}")
        super().__init__(f"{letter} {wanted.title}", self.grid)
        self.letter = letter
        self.is_paused = False
        self._servers, self._numbering = servers, numbering
        self._drawn: tuple[object, ...] = ()
        self.reader = self._started(wanted, filter_text)

    def _started(self, wanted: Subscription, filter_text: str) -> Reader:
        reader = Reader(self._servers, wanted, numbering=self._numbering)
        if filter_text:
            reader.set_filter(filter_text)
        reader.start()
        self.grid.follows = self.grid.is_following = wanted.is_tail
        return reader

    def read(self, wanted: Subscription, filter_text: str) -> None:
        """Read another subscription."""
        self.reader.close()
        self.is_paused = False
        self.reader = self._started(wanted, filter_text)

    async def on_unmount(self) -> None:
        """Stop reading.

        A group member leaves in order, which takes a moment; else its partitions wait for the session timeout.
        """
        self.reader.close()
        if self.reader.wanted.group:
            await asyncio.to_thread(self.reader.join, LEAVE_SECONDS)

    def pause(self, is_paused: bool) -> None:
        """Pause or resume reading."""
        self.is_paused = is_paused
        self.reader.pause(is_paused)

    def rest(self, is_seen: bool) -> None:
        """Pause while the screen is hidden, unless it is a group member: its partitions and its lag would be stuck."""
        if not self.reader.wanted.group and not self.is_paused:
            self.reader.pause(not is_seen)

    def paint(self, look: Look, now_ms: int, view: View) -> None:
        """Draw new records."""
        reader = self.reader
        status, counts, wanted = reader.status, reader.store.counts(), reader.wanted
        second = now_ms // 1000 if look.zone == "relative" else 0
        drawn = (id(reader), counts.version, look, view, second, status.phase, status.error)
        if drawn != self._drawn:
            self._drawn = drawn
            with_topic = len(wanted.choices) > 1
            self.grid.records.freeze(reader.store, look, now_ms, view=view, with_topic=with_topic)
            self.grid.show(
                record_columns(look, with_topic=with_topic, is_narrow=True),
                self.grid.records,
                empty=empty_words(status, counts, wanted, reader.filter_text, look),
                is_wide=look.is_wide,
            )
        width = self.size.width - 6
        self.entitle(
            tile_title(self.letter, wanted, width),
            tile_words(status, counts, wanted, reader.filter_text, look, width),
        )
