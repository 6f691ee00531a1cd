"""Queues new images and notices while the core runs, and later turns them into events in slices.

Without listeners no events are made; a few entries stay queued, so that a listener that reconnects soon misses nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import trio

from yak.broker.broker import Broker
from yak.cluster.image import Delta, Image
from yak.core.events import Notice
from yak.errors import PeerError
from yak.server.http.events.ring import EventRing
from yak.views.happenings import Happening, of_image
from yak.views.notices import GROUP_MOVED, of_notice

NOTES_MAX: Final = 4096
"""Of images and notices not yet turned into events."""
NOTES_UNHEARD_MAX: Final = 64
"""The same without listeners: each entry keeps an image in memory."""
_AT_ONCE: Final = 50
"""Events made before the loop continues: about a millisecond."""
_GROUPS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Images:
    before: Image
    after: Image
    delta: Delta


class Gathering:
    """The pending images and notices of one broker. A turn of the core calls `on_note`, which must only wake a task."""

    def __init__(self, broker: Broker, ring: EventRing, on_note: Callable[[], None]) -> None:
        self._broker = broker
        self._ring = ring
        self._on_note = on_note
        self._notes: deque[tuple[int, _Images | Notice]] = deque()
        self._has_lost = False
        self._group_states: dict[str, tuple[str, int]] = {}
        self._lock = trio.Lock()
        self.is_heard = False

    def note_image(self, before: Image, after: Image, delta: Delta) -> None:
        """Queue a new image."""
        self._note(_Images(before, after, delta))

    def note_notice(self, notice: Notice) -> None:
        """Queue a line of the core's log, if it is an event."""
        if notice.event == GROUP_MOVED or of_notice(notice) is not None:
            self._note(notice)

    def _note(self, note: _Images | Notice) -> None:
        notes = self._notes
        if len(notes) >= (NOTES_MAX if self.is_heard else NOTES_UNHEARD_MAX):
            notes.popleft()
            self._has_lost = True
        notes.append((self._broker.wall_ms, note))
        if self.is_heard:
            self._on_note()

    @property
    def has_notes(self) -> bool:
        """Whether there is anything to turn into events."""
        return bool(self._notes)

    async def digest(self) -> None:
        """Turn all pending entries into events."""
        async with self._lock:
            if self._has_lost:
                self._has_lost = False
                self._ring.lose()
            made = 0
            while self._notes:
                time_ms, note = self._notes.popleft()
                for happening in self._told(note):
                    self._add(time_ms, happening)
                    made += 1
                    if made % _AT_ONCE == 0:
                        await trio.lowlevel.checkpoint()

    def _add(self, time_ms: int, happening: Happening) -> None:
        fields = {"time_ms": time_ms, "node_id": self._broker.node_id, "message": happening.message}
        if happening.topic is not None:
            fields["topic"] = happening.topic
        self._ring.add(happening.kind, happening.topic, {**fields, **happening.fields})

    def _told(self, note: _Images | Notice) -> Iterator[Happening]:
        if isinstance(note, _Images):
            yield from of_image(note.before, note.after, note.delta)
        elif note.event == GROUP_MOVED:
            yield from self._group(str(note.fields["group"]))
        elif (happening := of_notice(note)) is not None:
            yield happening

    def _group(self, group_id: str) -> Iterator[Happening]:
        """The state of a group of the consumer protocol, if it changed since it was last reported."""
        try:
            group = self._broker.group_coordinator.runtime.find(group_id).shard.groups.get(group_id)
        except PeerError:
            return
        if group is None or group.consumer is None:
            return
        state = (group.consumer.state_name, group.consumer.epoch)
        if self._group_states.get(group_id) == state:
            return
        if len(self._group_states) >= _GROUPS_MAX:
            self._group_states.clear()
        self._group_states[group_id] = state
        name, epoch = state
        kind = {"Stable": "group-stable", "Empty": "group-empty"}.get(name, "group-rebalancing")
        members = len(group.consumer.state.members)
        yield Happening(
            kind,
            f"group {group_id} is {name} in epoch {epoch} with {members} members",
            None,
            {"group": group_id, "state": name, "epoch": epoch, "members": members},
        )
