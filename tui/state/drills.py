"""All failovers of a session: those caused from here, and those only observed. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from yak.local.demo.delivery_statistics import Pause
from yak.tui.state.drill import WATCHED_MS, Drill, Timeline, timeline
from yak.tui.state.picture import Picture

KEPT: Final = 50
_SAME_MS: Final = 15_000
SETTLED_MS: Final = 5_000
"""How long after the first write its figures may still grow: the clients report their waits once a second."""


class Drills:
    """The drills of a session. Timelines of finished ones are computed once and kept."""

    def __init__(self) -> None:
        self._done: list[Drill] = []
        self._over: dict[Drill, Timeline] = {}

    @property
    def last(self) -> Drill | None:
        """The last drill that was run here."""
        return self._done[-1] if self._done else None

    def add(self, drill: Drill) -> None:
        """Add a drill that began."""
        self._done = [*self._done[-KEPT + 1 :], drill]

    def forget(self, drill: Drill) -> None:
        """Remove a drill that was refused."""
        self._done = [each for each in self._done if each is not drill]

    def timelines(self, picture: Picture, pauses: Sequence[Pause], now_ms: float) -> list[Timeline]:
        """The timelines of all drills, oldest first."""
        drills = sorted([*self._done, *self._seen(picture)], key=lambda drill: drill.began_ms)[-KEPT:]
        found: list[Timeline] = []
        for at, drill in enumerate(drills):
            known = self._over.get(drill)
            if known is None:
                until = drills[at + 1].began_ms if at + 1 < len(drills) else None
                known = timeline(drill, picture.activity.lines, pauses, picture.partitions, until_ms=until)
                if is_settled(known, now_ms):
                    self._over[drill] = known
            found.append(known)
        return found

    def _seen(self, picture: Picture) -> Iterable[Drill]:
        """Brokers that failed without a drill from here."""
        for each in picture.elections.failovers:
            if each.node_id is None or any(_is_of(drill, each.node_id, each.began_ms) for drill in self._done):
                continue
            words = f"broker {each.node_id} was lost"
            yield Drill("seen", each.node_id, each.began_ms, words, was_controller=True)


def is_settled(found: Timeline, now_ms: float) -> bool:
    """Whether its figures are final: the first write is some seconds ago, or the drill is no longer watched.

    Later events belong to the return of the broker, or to the next drill.
    """
    after_ms = now_ms - found.drill.began_ms
    is_written = found.first_write_ms is not None and not found.leaderless
    return after_ms > WATCHED_MS or (is_written and after_ms > (found.first_write_ms or 0.0) + SETTLED_MS)


def _is_of(drill: Drill, node_id: int, began_ms: float) -> bool:
    """Whether an observed failover belongs to this drill.

    A pause is detected late, when the broker's session expires.
    """
    return drill.node_id == node_id and -_SAME_MS < began_ms - drill.began_ms < WATCHED_MS
