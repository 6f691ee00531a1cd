"""The one task that sends events to all listeners.

It runs in rounds. New events are put together once for each subscription and written to its listeners, a few at a time
with pauses for other tasks. The first event after a quiet time is sent at once. Then there are at most ten rounds a
second, and fewer with many listeners (`SENDS_PER_SECOND_MAX`, `TIME_SHARE_MAX`). Without listeners nothing runs.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psutil
import trio

from yak.broker.broker import Broker
from yak.cluster.image import Delta, Image
from yak.core.events import Notice
from yak.errors import PeerError
from yak.replication.partition import Partition
from yak.replication.traffic import Traffic
from yak.server import log
from yak.server.http.events.listeners import EventRing, Listener, Subscribers, Subscription, chunk_of, gap, render
from yak.server.http.fair_share import FairShare
from yak.server.http.metrics.process import disk_spaces
from yak.server.jobs import run_in_thread
from yak.views.broker_events import BrokerEvent, of_image
from yak.views.notices import GROUP_MOVED, of_notice
from yak.views.quorum import own_quorum_json

if TYPE_CHECKING:
    from yak.server.shell import Shell

DISKS_EVERY_SECONDS: Final = 5.0
CHECKED_MAX: Final = 1000
"""Partitions checked in one tick: about a millisecond."""
MOVED_MAX: Final = 200
"""Partitions reported in one event."""
TOPICS_MAX: Final = 50
"""Topics listed by name in the rates; the others are summed up."""
_NUMBERS: Final = ("bytes_in", "messages_in", "bytes_out", "messages_out")
_Numbers = tuple[int, ...]


class Progress:
    """Finds the partitions whose offsets moved since the last check."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[Partition, tuple[int, ...]] = {}
        self._round: list[Partition] = []

    def forget(self) -> None:
        """Discard all state when no listener wants progress; later changes are not reported to future ones."""
        self._seen.clear()
        self._round.clear()

    def moved(self) -> list[dict[str, Any]]:
        """A row for each partition that moved; a partition checked for the first time has not."""
        if not self._round:
            led = [each for each in self._broker.partitions.values() if each.is_leader and each.log is not None]
            self._seen = {each: self._seen[each] for each in led if each in self._seen}
            led.reverse()
            self._round = led
        moved: list[dict[str, Any]] = []
        for _ in range(min(CHECKED_MAX, len(self._round))):
            partition = self._round.pop()
            if not partition.is_leader:
                continue
            ends = partition.log_end_offsets()
            state = (partition.leader_epoch, partition.high_watermark, *ends.values())
            seen = self._seen.get(partition)
            if seen == state:
                continue
            self._seen[partition] = state
            if seen is not None:
                moved.append(_row(partition, ends))
                if len(moved) >= MOVED_MAX:
                    break
        return moved


def _row(partition: Partition, ends: Mapping[int, int]) -> dict[str, Any]:
    return {
        **partition.topic_partition._asdict(),
        "leader_epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
        "log_end_offsets": {str(node): end for node, end in ends.items()},
    }


@dataclass(slots=True)
class _Sample:
    time_ms: int
    topics: dict[str, _Numbers]
    total: _Numbers


class Rates:
    """Bytes and records per second over one interval."""

    def __init__(self, broker: Broker, interval_ms: int, now_ms: int) -> None:
        self._broker = broker
        self.interval_ms = interval_ms
        self.due_ms = now_ms + interval_ms
        self._last = self._sample(now_ms)

    def since_last(self, now_ms: int) -> dict[str, Any]:
        """The rates since the last call, in total and for the topics with the most bytes."""
        last, self._last = self._last, self._sample(now_ms)
        self.due_ms = max(self.due_ms + self.interval_ms, now_ms + 1)
        elapsed_ms = max(1, now_ms - last.time_ms)
        by_topic = {
            name: _difference(numbers, last.topics.get(name, (0, 0, 0, 0)))
            for name, numbers in self._last.topics.items()
        }
        busy = [(name, numbers) for name, numbers in by_topic.items() if any(numbers)]
        busy.sort(key=lambda item: (-item[1][0] - item[1][2], item[0]))
        rest = [numbers for _name, numbers in busy[TOPICS_MAX:]]
        return {
            "elapsed_ms": elapsed_ms,
            **_a_second(_difference(self._last.total, last.total), elapsed_ms),
            "topics": [{"topic": name, **_a_second(numbers, elapsed_ms)} for name, numbers in busy[:TOPICS_MAX]],
            "other_topics": {"count": len(rest), **_a_second(_sum(rest), elapsed_ms)},
        }

    def _sample(self, now_ms: int) -> _Sample:
        counters = self._broker.counters
        topics = {name: _numbers(traffic) for name, traffic in counters.topics.items()}
        return _Sample(now_ms, topics, _sum([_numbers(counters.retired), *topics.values()]))


def _numbers(traffic: Traffic) -> _Numbers:
    return traffic.bytes_in, traffic.messages_in, traffic.bytes_out, traffic.messages_out


def _difference(now: _Numbers, before: _Numbers) -> _Numbers:
    # a re-created topic counts from 0 again
    return tuple(max(0, new - old) for new, old in zip(now, before, strict=True))


def _sum(many: list[_Numbers]) -> _Numbers:
    return tuple(map(sum, zip(*many, strict=True))) or (0, 0, 0, 0)


def _a_second(numbers: _Numbers, elapsed_ms: int) -> dict[str, float]:
    return {
        f"{name}_per_second": round(number * 1000 / elapsed_ms, 1)
        for name, number in zip(_NUMBERS, numbers, strict=True)
    }


class ProcessFigures:
    """Resource use of the broker's process. Disk figures are None until first read; a hanging disk keeps old ones."""

    def __init__(self, shell: "Shell", broker: Broker) -> None:
        self._shell = shell
        self._broker = broker
        self._process = psutil.Process()
        self._cpu_s, self._at = time.process_time(), time.monotonic()
        self._cpu_share = 0.0
        self._disks: tuple[int, int] | None = None
        """Free and total bytes of the file system with the least free space."""
        self._disks_at = 0.0
        self._is_asking = False

    def figures(self) -> dict[str, Any]:
        """Bytes, and CPU as a share of one core since an earlier call at least half a second ago."""
        now, cpu_s = time.monotonic(), time.process_time()
        if now - self._at >= 0.5:
            self._cpu_share = (cpu_s - self._cpu_s) / (now - self._at)
            self._cpu_s, self._at = cpu_s, now
        if now - self._disks_at >= DISKS_EVERY_SECONDS and not self._is_asking:
            self._is_asking = True
            self._shell.nursery.start_soon(self._ask_disks)
        free, size = self._disks or (None, None)
        return {
            "memory_bytes": self._process.memory_info().rss,
            "cpu_share": round(self._cpu_share, 3),
            "disk_free_bytes": free,
            "disk_size_bytes": size,
        }

    async def _ask_disks(self) -> None:
        paths = [each.path for each in self._broker.log_store.directories if each.failure is None]
        try:
            found = await run_in_thread(disk_spaces, paths)
            self._disks = min(filter(None, found), default=self._disks)
        finally:
            self._is_asking = False
            self._disks_at = time.monotonic()


ROUND_SECONDS_MIN: Final = 0.1
TIME_SHARE_MAX: Final = 0.05
SENDS_PER_SECOND_MAX: Final = 1000
"""To all listeners together: 200 listeners get five sends a second each."""
KEEP_ALIVE_SECONDS: Final = 15.0
PIECE_BYTES_MAX: Final = 64 * 1024
_AT_ONCE: Final = 8
"""Listeners written to before a pause: about 0.2 ms."""
_PAUSE_SECONDS: Final = 0.002
"""The pause, so that readers on the same machine do not all wake at the same time either."""
NOTES_MAX: Final = 4096
"""Of images and notices not yet turned into events."""
NOTES_WITHOUT_LISTENERS_MAX: Final = 64
"""The same without listeners: each entry keeps an image in memory."""
_MADE_AT_ONCE: Final = 50
"""Events made before the loop continues: about a millisecond."""
_GROUPS_MAX: Final = 10_000
_KEEP_ALIVE: Final = chunk_of(b": still here\n\n")


@dataclass(frozen=True, slots=True)
class _Images:
    before: Image
    after: Image
    delta: Delta


class PendingEvents:
    """Queues new images and notices of one broker while the core runs, and later turns them into events in slices.

    Without listeners no events are made; a few entries stay queued, so that a listener that reconnects soon misses
    nothing. A turn of the core calls `on_note`, which must only wake a task.
    """

    def __init__(self, broker: Broker, ring: EventRing, on_note: Callable[[], None]) -> None:
        self._broker = broker
        self._ring = ring
        self._on_note = on_note
        self._notes: deque[tuple[int, _Images | Notice]] = deque()
        self._has_lost = False
        self._group_states: dict[str, tuple[str, int]] = {}
        self._lock = trio.Lock()
        self.has_listeners = False

    def note_image(self, before: Image, after: Image, delta: Delta) -> None:
        """Queue a new image."""
        self._note(_Images(before, after, delta))

    def note_notice(self, notice: Notice) -> None:
        """Queue a line of the core's log, if it is an event."""
        if notice.event == GROUP_MOVED or of_notice(notice) is not None:
            self._note(notice)

    def _note(self, note: _Images | Notice) -> None:
        notes = self._notes
        if len(notes) >= (NOTES_MAX if self.has_listeners else NOTES_WITHOUT_LISTENERS_MAX):
            notes.popleft()
            self._has_lost = True
        notes.append((self._broker.wall_ms, note))
        if self.has_listeners:
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
                for event in self._events(note):
                    self._add(time_ms, event)
                    made += 1
                    if made % _MADE_AT_ONCE == 0:
                        # a listener that disconnects here would take the other events of the note along
                        await trio.lowlevel.cancel_shielded_checkpoint()

    def _add(self, time_ms: int, event: BrokerEvent) -> None:
        fields = {"time_ms": time_ms, "node_id": self._broker.node_id, "message": event.message}
        if event.topic is not None:
            fields["topic"] = event.topic
        self._ring.add(event.kind, event.topic, {**fields, **event.fields})

    def _events(self, note: _Images | Notice) -> Iterator[BrokerEvent]:
        if isinstance(note, _Images):
            yield from of_image(note.before, note.after, note.delta)
        elif note.event == GROUP_MOVED:
            yield from self._group(str(note.fields["group"]))
        elif (event := of_notice(note)) is not None:
            yield event

    def _group(self, group_id: str) -> Iterator[BrokerEvent]:
        """The state of a group of the consumer protocol, if it changed since it was last reported."""
        try:
            group = self._broker.group_coordinator.runtime.find(group_id).shard.groups.get(group_id)
        except PeerError:
            return
        if group is None or group.consumer is None:
            return
        state = (group.consumer.state.state_name, group.consumer.state.epoch)
        if self._group_states.get(group_id) == state:
            return
        if len(self._group_states) >= _GROUPS_MAX:
            self._group_states.clear()
        self._group_states[group_id] = state
        name, epoch = state
        kind = {"Stable": "group-stable", "Empty": "group-empty"}.get(name, "group-rebalancing")
        members = len(group.consumer.state.members)
        yield BrokerEvent(
            kind,
            f"group {group_id} is {name} in epoch {epoch} with {members} members",
            None,
            {"group": group_id, "state": name, "epoch": epoch, "members": members},
        )


class Pump:
    """Sends events to all listeners of one broker."""

    def __init__(self, shell: "Shell", broker: Broker, ring: EventRing, share: FairShare) -> None:
        self._shell = shell
        self._broker = broker
        self._clock = shell.clock
        self._share = share
        self.ring = ring
        self.gathering = PendingEvents(broker, ring, self._wake_up)
        self._audiences: dict[Subscription, Subscribers] = {}
        self._progress = Progress(broker)
        self._rates: dict[int, Rates] = {}
        self._process = ProcessFigures(shell, broker)
        self._wake = trio.Event()
        self._round_at = 0.0
        self._interval = ROUND_SECONDS_MIN
        self._busy_s = 0.0
        self._written = 0
        """Listeners written to in this round."""
        self._is_running = False
        self.listeners = 0

    def join(self, subscription: Subscription, listener: Listener) -> None:
        """Add a listener; it gets its events from its position on."""
        audience = self._audiences.get(subscription)
        if audience is None:
            audience = Subscribers(subscription, listener.position, trio.current_time())
            self._audiences[subscription] = audience
        audience.listeners[listener] = None
        interval = subscription.rates_ms
        if interval is not None and interval not in self._rates:
            self._rates[interval] = Rates(self._broker, interval, self._clock.now_ms())
        self.listeners += 1
        self.gathering.has_listeners = True
        self._wake_up()
        if not self._is_running:
            self._is_running = True
            self._shell.nursery.start_soon(self._run)

    def leave(self, subscription: Subscription, listener: Listener) -> None:
        """Remove a listener."""
        audience = self._audiences[subscription]
        del audience.listeners[listener]
        self.listeners -= 1
        if not audience.listeners:
            del self._audiences[subscription]
        wanted = {each.rates_ms for each in self._audiences}
        self._rates = {interval: rates for interval, rates in self._rates.items() if interval in wanted}
        if not any(each.has_progress for each in self._audiences):
            self._progress.forget()
        if not self.listeners:
            self.gathering.has_listeners = False
            self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        try:
            await self._share.timed(self._rounds())
        except Exception as error:  # noqa: BLE001 - our bug: it ends the listeners' connections only
            self._shell.counters.bugs += 1
            log.write("error", "http-events-failed", {"what": type(error).__name__}, error=error)
            for audience in self._audiences.values():
                for listener in audience.listeners:
                    listener.ended.set()
        finally:
            self._is_running = False

    async def _rounds(self) -> None:
        while self.listeners:
            await self._wait()
            if self.listeners:
                await self._round()

    async def _wait(self) -> None:
        """Wait until there is something to send and the round's interval is over."""
        with trio.move_on_after(max(0.0, self._next_at() - trio.current_time())):
            await self._wake.wait()
        self._wake = trio.Event()
        await trio.sleep(max(0.0, self._round_at + self._interval - trio.current_time()))

    def _next_at(self) -> float:
        """When the next round is due without a wake-up."""
        next_at = min((each.sent_at for each in self._audiences.values()), default=0.0) + KEEP_ALIVE_SECONDS
        if self.gathering.has_notes:
            return 0.0
        is_behind = any(listener.is_behind for each in self._audiences.values() for listener in each.listeners)
        if is_behind or any(each.has_progress for each in self._audiences):
            next_at = min(next_at, self._round_at + self._interval)
        if self._rates:
            due_ms = min(rates.due_ms for rates in self._rates.values()) - self._clock.now_ms()
            next_at = min(next_at, trio.current_time() + due_ms / 1000)
        return next_at

    async def _round(self) -> None:
        self._round_at = trio.current_time()
        self._busy_s = 0.0
        self._written = 0
        await self.gathering.digest()
        figures = await self._figures()
        end = self.ring.next
        for audience in list(self._audiences.values()):
            await self._serve(audience, end, figures)
        self._interval = max(ROUND_SECONDS_MIN, self._busy_s / TIME_SHARE_MAX, self._written / SENDS_PER_SECOND_MAX)

    async def _figures(self) -> dict[str, Any]:
        """The figures of this round: `progress`, and rates by their interval in ms.

        With thousands of topics each interval takes milliseconds, and each listener may have one of its own.
        """
        began = time.perf_counter()
        is_wanted = any(each.has_progress for each in self._audiences)
        found: dict[str, Any] = {"progress": self._progress.moved() if is_wanted else [], "rates": {}}
        now_ms = self._clock.now_ms()
        due = {interval: rates for interval, rates in self._rates.items() if rates.due_ms <= now_ms}
        more: dict[str, Any] = {}
        if due:
            quorum = own_quorum_json(self._broker) if self._broker.metadata_in_quorum else None
            more = {"process": self._process.figures(), "quorum": quorum}
        for interval, rates in due.items():
            if found["rates"]:
                self._busy_s += time.perf_counter() - began
                await trio.sleep(_PAUSE_SECONDS)
                began = time.perf_counter()
            found["rates"][interval] = {**rates.since_last(now_ms), **more}
        self._busy_s += time.perf_counter() - began
        return found

    async def _serve(self, audience: Subscribers, end: int, figures: dict[str, Any]) -> None:
        began = time.perf_counter()
        before, audience.position = max(audience.position, self.ring.first), end
        figure = self._figure(audience.subscription, figures)
        body = self._events(audience, before, end) + figure
        is_quiet = self._round_at - audience.sent_at >= KEEP_ALIVE_SECONDS
        chunk = chunk_of(body) if body else _KEEP_ALIVE if is_quiet else b""
        if chunk:
            audience.sent_at = self._round_at
        for listener in list(audience.listeners):
            if listener not in audience.listeners:
                continue  # it left during a pause; its connection may carry another answer by now
            if not chunk and listener.position == before and not listener.is_behind:
                listener.position = end
                continue
            self._send(audience, listener, (before, end), chunk, figure)
            self._written += 1
            if self._written % _AT_ONCE == 0:
                self._busy_s += time.perf_counter() - began
                await trio.sleep(_PAUSE_SECONDS)
                began = time.perf_counter()
        self._busy_s += time.perf_counter() - began

    def _send(
        self, audience: Subscribers, listener: Listener, span: tuple[int, int], chunk: bytes, figure: bytes
    ) -> None:
        before, end = span
        listener.drain()
        listener.send_gap(self.ring, self._clock.wall_ms())
        if listener.position == before:
            if chunk:
                listener.offer(chunk)
        else:
            own = self._events(audience, max(listener.position, self.ring.first), end) + figure
            if listener.position < self.ring.first:
                own = gap(self.ring, self.ring.first, self._clock.wall_ms(), "events are no longer available") + own
            if own:
                listener.offer(chunk_of(own))
        listener.position = max(listener.position, end)

    def _events(self, audience: Subscribers, start: int, end: int) -> bytes:
        """All new events in one piece, at most what the ring holds."""
        if start >= end:
            return b""
        body, _reached = self.ring.collect(start, end, audience.subscription.wish, 1 << 62)
        return body

    def _figure(self, subscription: Subscription, figures: dict[str, Any]) -> bytes:
        head = {"time_ms": self._clock.wall_ms(), "node_id": self._broker.node_id}
        topic = subscription.wish.topic
        body = b""
        if subscription.has_progress and figures["progress"]:
            body += _cached(figures, ("progress", topic), lambda: _progress(head, figures["progress"], topic))
        rates = figures["rates"].get(subscription.rates_ms)
        if rates is not None:
            key = ("rates", subscription.rates_ms, topic)
            body += _cached(figures, key, lambda: _rates(head, rates, topic))
        return body


def _cached(figures: dict[Any, Any], key: tuple[object, ...], make: Any) -> bytes:
    found = figures.get(key)
    if found is None:
        found = figures[key] = make()
    assert isinstance(found, bytes)
    return found


def _progress(head: dict[str, Any], moved: list[dict[str, Any]], topic: str | None) -> bytes:
    rows = moved if topic is None else [each for each in moved if each["topic"] == topic]
    return render("progress", {**head, "partitions": rows}) if rows else b""


def _rates(head: dict[str, Any], rates: dict[str, Any], topic: str | None) -> bytes:
    if topic is not None:
        rates = {**rates, "topics": [each for each in rates["topics"] if each["topic"] == topic]}
    return render("rates", {**head, **rates})
