"""Where a reader has its records from: partitions by assignment, or what a group gives it. All block: for the reader's thread only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from yak.client.admin import Admin
from yak.client.consume import PartitionReader, Window, check_ranges, resolve_windows, tail_starts
from yak.client.groups.reading import GroupReader
from yak.client.groups.starting import Started
from yak.client.metadata import Topic
from yak.client.offset_spec import Range
from yak.errors import UsageError
from yak.ids import Offset, TopicPartition
from yak.tui.messages.subscription import Choice, Subscription

TIMEOUT_MS: Final = 10_000
LOOK_TIMEOUT_S: Final = 1.0
AHEAD: Final = {
    # What librdkafka fetches before it is asked is memory too, and of the rows that are shown none needs 64 MiB of it.
    "queued.max.messages.kbytes": 16 << 10,
    "queued.min.messages": 20_000,
    # Retention that overtakes a slow reader: what is left of the log is read.
    "auto.offset.reset": "earliest",
}


class Feed(Protocol):
    """Records in batches."""

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """What is read now."""

    @property
    def is_joining(self) -> bool:
        """Whether a group has not said yet what is read."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to come."""

    @property
    def must_poll(self) -> bool:
        """Whether `fetch` must be called even while nothing is wanted."""

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """librdkafka's messages. Raises YakError."""

    def pause(self) -> None:
        """Ask for nothing until `resume`."""

    def resume(self) -> None:
        """Go on."""

    def behind(self) -> int | None:
        """Offsets that are there and not read; None when unknown."""

    def look_for_partitions(self) -> list[TopicPartition]:
        """Read partitions that were added, too; which those are."""

    def commit(self) -> str:
        """Commit what was given out; what kept it from being done and passes by itself. Raises YakError."""

    def close(self) -> None:
        """End it; nothing is committed by that."""


@dataclass(slots=True)
class Opened:
    """A feed, what is to be said of how it began, and where what is new begins: what was there before is shown without sampling."""

    feed: Feed
    notes: list[str]
    new_from: dict[TopicPartition, Offset] = field(default_factory=dict)


class AssignedFeed:
    """Partitions by assignment: nobody is disturbed, nothing is committed."""

    def __init__(self, reader: PartitionReader, choices: Sequence[Choice]) -> None:
        self._reader = reader
        self._choices = choices
        self.must_poll = False
        self.is_joining = False

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """All of them, also those that are read up to their end."""
        return tuple(self._reader.positions)

    @property
    def is_done(self) -> bool:
        """Whether every window is read."""
        return self._reader.is_done

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """A batch."""
        return self._reader.fetch(limit, wait_s)

    def pause(self) -> None:
        """Ask for nothing until `resume`."""
        self._reader.pause()

    def resume(self) -> None:
        """Go on."""
        self._reader.resume()

    def behind(self) -> int | None:
        """Offsets that are there and not read; None when unknown."""
        return self._reader.behind()

    def look_for_partitions(self) -> list[TopicPartition]:
        """Partitions added to a topic of which all are read, from their first record on."""
        added = []
        for choice in self._choices:
            if choice.partitions:
                continue
            for number in self._reader.partitions_of(choice.topic, LOOK_TIMEOUT_S):
                partition = TopicPartition(choice.topic, number)
                if partition not in self._reader.positions:
                    self._reader.add(partition, Window(0, None))
                    added.append(partition)
        return added

    def commit(self) -> str:
        """There is no group. Raises UsageError."""
        raise UsageError(
            "no-group",
            "there is nothing to commit to",
            why="this is read without a group",
            try_=("a, and name a group",),
        )

    def close(self) -> None:
        """Leave."""
        self._reader.close()


class GroupFeed:
    """What a group gives to one of its members. Nothing is committed but by `commit`."""

    def __init__(self, reader: GroupReader) -> None:
        self._reader = reader
        self.must_poll = True
        self.is_done = False

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """What is assigned."""
        return self._reader.assigned

    @property
    def is_joining(self) -> bool:
        """Whether the assignment is awaited."""
        return self._reader.is_joining

    def fetch(self, limit: int, wait_s: float) -> list[Any]:
        """A batch; librdkafka answers the coordinator by this, too."""
        return self._reader.fetch(limit, wait_s)

    def pause(self) -> None:
        """Stay in the group, and take nothing."""
        self._reader.pause()

    def resume(self) -> None:
        """Go on."""
        self._reader.resume()

    def behind(self) -> int | None:
        """Offsets that are there and not read; None when unknown."""
        return self._reader.behind()

    def look_for_partitions(self) -> list[TopicPartition]:
        """The group finds them, and assigns them."""
        return []

    def commit(self) -> str:
        """Commit what was given out."""
        return self._reader.commit_now()

    def close(self) -> None:
        """Leave the group."""
        self._reader.close()


def open_feed(
    servers: str, wanted: Subscription, *, now_ms: int, note: Callable[[str], None], timeout_ms: int = TIMEOUT_MS
) -> Opened:
    """Find topics, partitions and offsets, and begin. `note` is told what happens later. Raises YakError."""
    admin = Admin(servers, timeout_ms=timeout_ms)
    metadata = admin.metadata()
    topics = [metadata.require_topic(choice.topic) for choice in wanted.choices]
    partitions = [each for choice, topic in zip(wanted.choices, topics, strict=True) for each in _chosen(choice, topic)]
    windows = resolve_windows(admin, partitions, _range(wanted), read_committed=wanted.read_committed, now_ms=now_ms)
    marks = admin.watermarks(partitions, read_committed=wanted.read_committed)
    if wanted.seek.last and not wanted.group:
        for each, start in tail_starts(
            servers, marks, wanted.seek.last, read_committed=wanted.read_committed, timeout_s=timeout_ms / 1000
        ).items():
            windows[each].start = start
    notes = check_ranges(windows, marks)
    if wanted.group:
        return Opened(_group_feed(servers, wanted, admin, windows, note, timeout_ms), notes)
    reader = PartitionReader(servers, windows, read_committed=wanted.read_committed, extra=dict(AHEAD))
    new_from = {each: high for each, (_, high) in marks.items() if windows[each].start < high}
    return Opened(AssignedFeed(reader, wanted.choices), notes, new_from)


def _range(wanted: Subscription) -> Range:
    return Range(wanted.seek.start, wanted.seek.stop)


def _chosen(choice: Choice, topic: Topic) -> list[TopicPartition]:
    numbers = [each.number for each in topic.partitions]
    missing = [number for number in choice.partitions if number not in numbers]
    if missing:
        raise UsageError(
            "unknown-partition",
            f"{topic.name} has no partition {missing[0]}",
            why=f"its partitions are 0 to {max(numbers, default=-1)}",
            try_=(f":messages {topic.name}",),
        )
    return [TopicPartition(topic.name, number) for number in choice.partitions or numbers]


def _group_feed(
    servers: str,
    wanted: Subscription,
    admin: Admin,
    windows: Mapping[TopicPartition, Window],
    note: Callable[[str], None],
    timeout_ms: int,
) -> GroupFeed:
    def tell(started: Sequence[Started]) -> None:
        note(assignment_words(started))
        for each in started:
            if each.trouble:
                note(f"{each.partition}: {each.trouble}")

    reader = GroupReader(
        servers,
        wanted.group,
        [choice.topic for choice in wanted.choices],
        windows,
        marks=admin.watermarks,
        flush=lambda: None,
        every=None,
        tell=tell,
        warn=note,
        timeout_s=timeout_ms / 1000,
        until_ms=wanted.seek.stop.number if wanted.seek.stop is not None and wanted.seek.stop.kind == "time" else None,
        read_committed=wanted.read_committed,
        extra=AHEAD,
    )
    return GroupFeed(reader)


def assignment_words(started: Sequence[Started]) -> str:
    """What a member was given, in one line."""
    if not started:
        return "no partition for this member: the others have them all"
    names = ", ".join(str(each.partition) for each in started[:4]) + (", …" if len(started) > 4 else "")
    fresh = sum(each.committed is None for each in started)
    where = "from the committed offset" if not fresh else f"{fresh} of {len(started)} with nothing committed"
    return f"reads {names}: {where}"
