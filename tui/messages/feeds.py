"""A reader's source of records: assigned partitions, or a group membership. All block: for the reader's thread only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from yak.client.admin import Admin
from yak.client.consume import PartitionReader, Window, check_ranges, resolve_windows, tail_starts
from yak.client.groups.group_reader import GroupReader, Started
from yak.client.metadata import Topic, unknown_partition
from yak.client.offset_spec import Range
from yak.ids import Offset, TopicPartition
from yak.tui.messages.subscription import Choice, Subscription

TIMEOUT_MS: Final = 10_000
QUERY_TIMEOUT_S: Final = 1.0
AHEAD: Final = {
    # librdkafka's prefetch takes memory too, and the screen does not need 64 MiB of it.
    "queued.max.messages.kbytes": 16 << 10,
    "queued.min.messages": 20_000,
    # If retention overtakes a slow reader, it goes on with the rest of the log.
    "auto.offset.reset": "earliest",
}


class AssignedFeed(PartitionReader):
    """Partitions by assignment: no group is affected, nothing is committed."""

    must_poll = False
    is_joining = False
    choices: Sequence[Choice] = ()

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """All partitions, including those read to their end."""
        return tuple(self.positions)

    def find_partitions(self) -> list[TopicPartition]:
        """Partitions added to topics read completely; they are read from their first record."""
        added = []
        for choice in self.choices:
            if choice.partitions:
                continue
            for number in self.partitions_of(choice.topic, QUERY_TIMEOUT_S):
                partition = TopicPartition(choice.topic, number)
                if partition not in self.positions:
                    self.add(partition, Window(0, None))
                    added.append(partition)
        return added


class GroupFeed(GroupReader):
    """A member of a group. Offsets are committed only by `commit_now`."""

    must_poll = True
    """`fetch` must be called even while paused: it lets librdkafka answer the coordinator."""
    is_done = False

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        return self.assigned

    def find_partitions(self) -> list[TopicPartition]:
        """Nothing: the group assigns new partitions itself."""
        return []


Feed: TypeAlias = AssignedFeed | GroupFeed


@dataclass(slots=True)
class OpenedFeed:
    """A feed, notes about its start, and where new records begin: earlier ones are shown without sampling."""

    feed: Feed
    notes: list[str]
    new_from: dict[TopicPartition, Offset] = field(default_factory=dict)


def open_feed(servers: str, wanted: Subscription, *, now_ms: int, note: Callable[[str], None]) -> OpenedFeed:
    """Find topics, partitions and offsets, and start. `note` receives later notes. Raises YakError."""
    admin = Admin(servers, timeout_ms=TIMEOUT_MS)
    metadata = admin.metadata()
    topics = [metadata.require_topic(choice.topic) for choice in wanted.choices]
    partitions = [each for choice, topic in zip(wanted.choices, topics, strict=True) for each in _chosen(choice, topic)]
    span = Range(wanted.seek.start, wanted.seek.stop)
    windows = resolve_windows(admin, partitions, span, read_committed=wanted.read_committed, now_ms=now_ms)
    marks = admin.watermarks(partitions, read_committed=wanted.read_committed)
    if wanted.seek.last and not wanted.group:
        for each, start in tail_starts(
            servers, marks, wanted.seek.last, read_committed=wanted.read_committed, timeout_s=TIMEOUT_MS / 1000
        ).items():
            windows[each].start = start
    notes = check_ranges(windows, marks)
    if wanted.group:
        return OpenedFeed(_group_feed(servers, wanted, admin, windows, note), notes)
    feed = AssignedFeed(servers, windows, read_committed=wanted.read_committed, extra=dict(AHEAD))
    feed.choices = wanted.choices
    new_from = {each: high for each, (_, high) in marks.items() if windows[each].start < high}
    return OpenedFeed(feed, notes, new_from)


def _chosen(choice: Choice, topic: Topic) -> list[TopicPartition]:
    numbers = [each.number for each in topic.partitions]
    missing = [number for number in choice.partitions if number not in numbers]
    if missing:
        raise unknown_partition(topic.name, missing[0], len(numbers), f":messages {topic.name}")
    return [TopicPartition(topic.name, number) for number in choice.partitions or numbers]


def _group_feed(
    servers: str,
    wanted: Subscription,
    admin: Admin,
    windows: Mapping[TopicPartition, Window],
    note: Callable[[str], None],
) -> GroupFeed:
    def note_assignment(started: Sequence[Started]) -> None:
        note(assignment_text(started))
        for each in started:
            if each.trouble:
                note(f"{each.partition}: {each.trouble}")

    return GroupFeed(
        servers,
        wanted.group,
        [choice.topic for choice in wanted.choices],
        windows,
        marks=admin.watermarks,
        flush=lambda: None,
        every=None,
        on_start=note_assignment,
        warn=note,
        timeout_s=TIMEOUT_MS / 1000,
        until_ms=wanted.seek.stop.number if wanted.seek.stop is not None and wanted.seek.stop.kind == "time" else None,
        read_committed=wanted.read_committed,
        extra=AHEAD,
    )


def assignment_text(started: Sequence[Started]) -> str:
    """A member's assignment, in one line."""
    if not started:
        return "no partition for this member: the other members have them all"
    names = ", ".join(str(each.partition) for each in started[:4]) + (", …" if len(started) > 4 else "")
    fresh = sum(each.committed is None for each in started)
    where = "from the committed offset" if not fresh else f"{fresh} of {len(started)} with nothing committed"
    return f"reads {names}: {where}"
