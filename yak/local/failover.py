"""Measure a failover: end or move leaders, and record when each step happened.

The metadata records and the brokers' logs give the cluster's view; a write probe gives a client's view.
"""

import math
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from yak.attempts import attempts
from yak.client.admin import Admin
from yak.client.leadership import Move, carry_out
from yak.client.replica_offsets import read_metadata
from yak.cluster.image import Image
from yak.cluster.records import BrokerChange, BrokerState, ControllerChange, PartitionChange, parse
from yak.errors import WaitTimeout, YakError
from yak.ids import NodeId, TopicPartition
from yak.local import layout
from yak.local.bench.ledger_load import longest_pause
from yak.local.cluster import LocalCluster
from yak.local.load import LibrdkafkaLoad
from yak.local.metadata_log import CopySource, RecordSource, RedisSource, fold, newest_copy
from yak.local.status import ClusterStatus
from yak.local.supervise import LogFollower
from yak.ports.metadata_store import TailedRecord
from yak.view.partition_replicas import PartitionReplicas

KEY: Final = b"yak-failover-probe"
EVERY_SECONDS: Final = 0.01
READY_SECONDS: Final = 10.0


class WriteProbe(LibrdkafkaLoad):
    """Writes from `start` to `end`. Times are `time.monotonic()`."""

    def __init__(self, bootstrap: str, partition: TopicPartition) -> None:
        # Its producer refreshes its metadata until the process ends: it must not create the deleted topic again.
        config = {"linger.ms": 0, "allow.auto.create.topics": False}
        super().__init__(bootstrap, "yak-failover-probe", 1 / EVERY_SECONDS, **config)
        self._partition = partition
        self._sent_and_acked: list[tuple[float, float]] = []
        self.errors: list[str] = []
        """Errors of writes that failed after all of librdkafka's retries."""

    def start(self) -> None:
        """Start, and wait for the first acknowledgement. Raises WaitTimeout when none comes."""
        super().start()
        if self.wait_ack_after(0.0, READY_SECONDS) is None:
            self.end()
            raise WaitTimeout(
                "no-acknowledgement",
                f"no write to {self._partition} was acknowledged in {READY_SECONDS:.0f} s",
                why=self.errors[-1] if self.errors else "acks=all waits for an ISR of min.insync.replicas",
                try_=(f"yak isr {self._partition.topic}",),
            )

    def wait_ack_after(self, moment: float, timeout_s: float) -> float | None:
        """When the first write that was sent after `moment` was acknowledged; None when none is in time."""
        for _ in attempts(timeout_s, EVERY_SECONDS / 2):
            later = [acked for sent, acked in list(self._sent_and_acked) if sent >= moment]
            if later:
                return min(later)
        return None

    def longest_pause_ms(self, moment: float) -> float | None:
        """The longest wait for an acknowledgement that ended after `moment`, once some more have come."""
        time.sleep(STEADY_SECONDS)
        pause = longest_pause(sorted(acked for _, acked in list(self._sent_and_acked)), moment, math.inf)
        return None if pause is None else pause * 1000.0

    def end(self) -> int:
        """Stop, wait for writes in flight, and return the number of acknowledged writes."""
        self.finish(READY_SECONDS)
        return len(self._sent_and_acked)

    def send(self, number: int) -> None:
        sent_at = time.monotonic()

        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                self._sent_and_acked.append((sent_at, time.monotonic()))
            else:
                self.errors.append(str(error.str()))

        topic, partition = self._partition
        self.produce(topic, b"%d" % number, delivered, key=KEY, partition=partition)


DETECTED_EVENTS: Final = ("broker-dead",)
_OUT: Final = (BrokerState.FENCED, BrokerState.CLOSED)
_LOG_LINE = re.compile(r"^(\S+Z) +[A-Z]+ +(\S+) (.*)$")


@dataclass(slots=True)
class Timeline:
    """The steps of a failover, in ms after the start; None for a step that did not happen or was not seen."""

    detected_ms: float | None = None
    """A broker found that the dead broker no longer listens."""
    fenced_ms: float | None = None
    """The metadata store has the broker as fenced, or as closed after an orderly stop."""
    controller_ms: float | None = None
    """Another broker became controller."""
    elected_ms: float | None = None
    """The last partition that the broker led has a new leader in the metadata store."""
    first_ack_ms: float | None = None
    """The first acknowledgement of a write that was sent after the start."""

    def as_json(self) -> dict[str, Any]:
        """The times by name, to a tenth of a millisecond."""
        return {name: tenths(value) for name, value in asdict(self).items()}

    def steps(self) -> list[tuple[str, float]]:
        """The known steps by time, for people; steps of the same millisecond keep their causal order."""
        named = (
            ("detected", self.detected_ms),
            ("fenced", self.fenced_ms),
            ("controller elected", self.controller_ms),
            ("elected", self.elected_ms),
            ("first acknowledged write", self.first_ack_ms),
        )
        # Sort by the displayed value, which is rounded to tenths and then to milliseconds: 50.52 is 50.
        return sorted(((name, at) for name, at in named if at is not None), key=lambda step: round(round(step[1], 1)))


def tenths(milliseconds: float | None) -> float | None:
    """Round to tenths, the best resolution of the measurement."""
    return None if milliseconds is None else round(milliseconds, 1)


def add_records(
    timeline: Timeline,
    records: Iterable[TailedRecord],
    *,
    began_ms: float,
    node: NodeId,
    partitions: Collection[tuple[str, int]] = (),
    offset_ms: float = 0.0,
) -> None:
    """Fill in the steps that follow the end of `node`, which led `partitions` (topic id and number).

    Records from before the start are ignored.
    """
    left = set(partitions)
    for record in records:
        at = record.timestamp_ms - offset_ms - began_ms
        if at < -1.0:  # the store's clock has millisecond resolution
            continue
        at = max(at, 0.0)
        match parse(record):
            case BrokerChange(node_id, _, state) if node_id == node and state in _OUT:
                timeline.fenced_ms = at if timeline.fenced_ms is None else timeline.fenced_ms
            case ControllerChange(controller_id=taker) if taker != node:
                timeline.controller_ms = at if timeline.controller_ms is None else timeline.controller_ms
            case PartitionChange(changes):
                done = {(str(each.topic_id), each.partition) for each in changes if each.leader not in (node, -1)}
                if left & done:
                    left -= done
                    timeline.elected_ms = at
            case _:
                pass
    if left:
        timeline.elected_ms = None


def last_elected_ms(
    records: Iterable[TailedRecord],
    leaders: Mapping[tuple[str | None, int], NodeId],
    *,
    began_ms: float,
    offset_ms: float = 0.0,
) -> float | None:
    """When the last of these partitions (topic id and number) got its leader; None when one did not."""
    left = dict(leaders)
    for record in records:
        content = parse(record)
        if not isinstance(content, PartitionChange):
            continue
        for change in content.changes:
            if left.get((str(change.topic_id), change.partition)) == change.leader:
                del left[str(change.topic_id), change.partition]
                if not left:
                    return max(record.timestamp_ms - offset_ms - began_ms, 0.0)
    return None


def is_complete(timeline: Timeline, *, was_controller: bool, led: bool) -> bool:
    """Whether all expected steps are in the records."""
    return (
        timeline.fenced_ms is not None
        and (timeline.controller_ms is not None or not was_controller)
        and (timeline.elected_ms is not None or not led)
    )


def detection_ms(lines: Iterable[str], *, began_ms: float, node: NodeId) -> float | None:
    """When a broker's log first reports that `node` no longer listens."""
    found = [at - began_ms for line in lines if (at := _suspicion(line, node)) is not None]
    return max(min(found), 0.0) if (found := [at for at in found if at > -1.0]) else None


def _suspicion(line: str, node: NodeId) -> float | None:
    match = _LOG_LINE.match(line)
    if match is None or match[2] not in DETECTED_EVENTS or f"node_id={node}" not in match[3].split():
        return None
    try:
        return datetime.fromisoformat(match[1]).timestamp() * 1000.0
    except ValueError:
        return None


WATCH_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 0.3
"""How long writes go on before and after, so that a pause is measurable."""
_POLL_SECONDS: Final = 0.05
"""Each reading opens a connection, beside the election that it measures; the times are those of the records."""
PROBE_TOPIC: Final = "__yak_failover_probe"
DELETE_TRIES: Final = 3


@dataclass(slots=True, kw_only=True)
class FailoverTimes:
    """The steps, and what the probe found: the pause is the longest time between two acknowledgements of its writes.

    Without a probe `probed` and `pause_ms` are None.
    """

    timeline: Timeline = field(default_factory=Timeline)
    probed: TopicPartition | None = None
    pause_ms: float | None = None
    acknowledged: int = 0
    errors: tuple[str, ...] = ()

    @property
    def is_without_write(self) -> bool:
        """Whether no write of the probe was acknowledged after the failover."""
        return self.probed is not None and self.timeline.first_ack_ms is None

    def measured_json(self) -> dict[str, Any]:
        """The JSON contract for scripts, of these fields."""
        probe = {"acknowledged": self.acknowledged, "errors": len(self.errors)}
        return {
            "timeline": self.timeline.as_json(),
            "probe": None
            if self.probed is None
            else {**self.probed._asdict(), **probe, "longest_pause_ms": tenths(self.pause_ms)},
        }


@dataclass(slots=True)
class Failover(FailoverTimes):
    """A measured failover."""

    node_id: NodeId
    pid: int | None
    was_controller: bool
    led: tuple[TopicPartition, ...]
    offline: tuple[TopicPartition, ...] = ()
    """Those that go offline until the broker runs again, since no other replica is in sync."""
    began_s: float = 0.0
    """`time.monotonic()` right before the broker was ended: the zero of the timeline."""
    ended_s: float = 0.0
    """When the broker was gone, or back after an orderly restart."""

    def as_json(self) -> dict[str, Any]:
        return {
            "node": self.node_id,
            "pid": self.pid,
            "was_controller": self.was_controller,
            "partitions_led": [each._asdict() for each in self.led],
            "partitions_offline": [each._asdict() for each in self.offline],
            **self.measured_json(),
        }


@dataclass(slots=True)
class LeaderMove(FailoverTimes):
    """Leaders moved in order."""

    failed: dict[TopicPartition, str] = field(default_factory=dict)
    took_ms: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The JSON contract for scripts, without the moves."""
        return {"failed": len(self.failed), "took_ms": tenths(self.took_ms), **self.measured_json()}


class RecordWatch:
    """The metadata records from now on. `image` is the cluster's now; `offset_ms`: the offset of the records' clock."""

    def __init__(self, sources: Sequence[RecordSource], image: Image, offset_ms: float = 0.0) -> None:
        self._sources = sources
        self._after = image.offset
        self.offset_ms = offset_ms
        self.topic_ids = {name: str(topic.topic_id) for name, topic in image.topics.items()}

    def records(self) -> list[TailedRecord]:
        found = {each.offset: each for source in self._sources for each in source.records(self._after)}
        return [found[offset] for offset in sorted(found)]


def watch_records(status: ClusterStatus) -> RecordWatch:
    """Watch the metadata records of a local cluster: in Redis, or in the brokers' copies, which have one clock.

    Raises Unreachable, YakError (`log-source`).
    """
    if status.redis_url is not None:
        store = RedisSource(status.redis_url, tries=("yak up --status", "yak doctor"))
        return RecordWatch([store], fold(store), _clock_offset_ms(store))
    directories = [layout.node_dir(status.data_dir, broker.node_id) for broker in status.brokers]
    return RecordWatch([CopySource(each) for each in directories], fold(newest_copy(directories)))


def _clock_offset_ms(store: RedisSource) -> float:
    with store.connect() as client:
        before = time.time()
        seconds, micros = client.time()
        return float((seconds + micros / 1e6 - (before + time.time()) / 2) * 1000.0)


def led_by(
    partitions: Sequence[PartitionReplicas], node_id: NodeId
) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """The partitions that a broker leads: those that another in-sync replica could lead, and the others."""
    movable: list[TopicPartition] = []
    offline: list[TopicPartition] = []
    for each in partitions:
        if each.leader == node_id:
            (movable if len(each.isr) > 1 else offline).append(TopicPartition(each.topic, each.partition))
    return tuple(movable), tuple(offline)


@contextmanager
def _probe_topic(
    servers: str, like: PartitionReplicas, on_topic_left: Callable[[str], None]
) -> Iterator[TopicPartition]:
    """A topic for test records with a partition's leader, in-sync replicas and min.insync.replicas; deleted at the end."""
    admin = Admin(servers)
    name = f"{PROBE_TOPIC}-{uuid.uuid4().hex[:8]}"
    replicas = [like.leader, *(node for node in like.isr if node != like.leader)]
    admin.create_topic(name, assignment=[replicas], configs={"min.insync.replicas": str(like.min_isr)})
    try:
        yield TopicPartition(name, 0)
    finally:
        _delete(servers, name, on_topic_left)


def _delete(servers: str, name: str, on_topic_left: Callable[[str], None]) -> None:
    """Delete the probe's topic, also when the brokers that are left have no controller yet: each try connects again."""
    for _ in range(DELETE_TRIES):
        try:
            Admin(servers).delete_topics([name])
        except YakError as error:
            if error.code == "unknown-topic":  # a try without an answer deleted it
                return
            time.sleep(1.0)
        else:
            return
    on_topic_left(name)


def end_and_watch(
    cluster: LocalCluster,
    node_id: NodeId,
    *,
    hard: bool = True,
    probe: bool = False,
    on_ended: Callable[[Failover], None] = lambda _failover: None,
    on_topic_left: Callable[[str], None] = lambda _name: None,
) -> Failover:
    """Kill a broker of a local cluster, or restart it in an orderly way, and measure until writes succeed again.

    With `probe`, test records go to a topic of their own, which that broker leads and which is deleted at the end.
    Calls `on_ended` once the broker has ended or restarted, and `on_topic_left` with the name of a topic that could not be
    deleted. Raises YakError.
    """
    status = cluster.status()
    found = read_metadata(status.bootstrap, timeout_s=5.0)
    movable, offline = led_by(found.partitions, node_id)
    pid = next((each.pid for each in status.brokers if each.node_id == node_id), None)
    result = Failover(node_id, pid, found.controller_id == node_id, (*movable, *offline), offline)
    logs = LogFollower({name: path for name, path in cluster.log_paths().items() if name.startswith("node-")})
    with ExitStack() as stack:
        probed = None
        if probe and movable:
            like = next(each for each in found.partitions if (each.topic, each.partition) == movable[0])
            probed = stack.enter_context(_probe_topic(status.bootstrap, like, on_topic_left))
        watch = watch_records(status)
        writes = stack.enter_context(_writing(result, status.bootstrap, probed))
        began_ms, result.began_s = time.time() * 1000.0, time.monotonic()
        if hard:
            cluster.kill(node_id)
        else:
            cluster.restart(node_id)
        result.ended_s = time.monotonic()
        on_ended(result)
        _watch_records(result, watch, began_ms)
        if writes is not None:
            moved_s = result.began_s + (result.timeline.elected_ms or 0.0) / 1000.0
            _watch_probe(result, writes, result.began_s, since_s=result.ended_s if hard else moved_s)
        lines = [line for name, line in _all_new_lines(logs) if name != f"node-{node_id}"]
        result.timeline.detected_ms = detection_ms(lines, began_ms=began_ms, node=node_id)
    return result


@contextmanager
def _writing(result: FailoverTimes, servers: str, partition: TopicPartition | None) -> Iterator[WriteProbe | None]:
    """Writes of a probe to a partition, if one is given; the result gets what became of them."""
    if partition is None:
        yield None
        return
    result.probed, writes = partition, WriteProbe(servers, partition)
    try:
        writes.start()
        time.sleep(STEADY_SECONDS)
        yield writes
    finally:
        result.acknowledged, result.errors = writes.end(), tuple(writes.errors)


def _watch_records(result: Failover, watch: RecordWatch, began_ms: float) -> None:
    movable = set(result.led) - set(result.offline)
    partitions = {(watch.topic_ids[each.topic], each.partition) for each in movable if each.topic in watch.topic_ids}
    for _ in attempts(WATCH_SECONDS, _POLL_SECONDS):
        timeline = Timeline()
        add_records(
            timeline,
            watch.records(),
            began_ms=began_ms,
            node=result.node_id,
            partitions=partitions,
            offset_ms=watch.offset_ms,
        )
        result.timeline = timeline
        if is_complete(timeline, was_controller=result.was_controller, led=bool(partitions)):
            return


def _watch_probe(result: FailoverTimes, probe: WriteProbe, began_s: float, *, since_s: float) -> None:
    """Fill in the first acknowledgement of a write sent after `since_s`, and the longest wait for one."""
    first = probe.wait_ack_after(since_s, WATCH_SECONDS)
    if first is None:
        return
    result.timeline.first_ack_ms = (first - began_s) * 1000.0
    result.pause_ms = probe.longest_pause_ms(began_s)


def move_and_watch(admin: Admin, moves: Sequence[Move], *, local: ClusterStatus | None, probe: bool) -> LeaderMove:
    """Move leaders in order; measure their election, and the writes of a probe.

    The election times need the metadata records of a local cluster; the probe writes to the first partition. Raises YakError.
    """
    result = LeaderMove()
    if not moves:
        return result
    watch = None if local is None else watch_records(local)
    with _writing(result, admin.servers, moves[0].partition if probe else None) as writes:
        began_ms, began = time.time() * 1000.0, time.monotonic()
        result.failed = carry_out(admin, moves, timeout_s=admin.timeout_s)
        ended = time.monotonic()
        result.took_ms = (ended - began) * 1000.0
        if watch is not None:
            result.timeline.elected_ms = _elected_ms(watch, moves, result, began_ms)
        if writes is not None:
            _watch_probe(result, writes, began, since_s=ended)
    return result


def _elected_ms(watch: RecordWatch, moves: Sequence[Move], result: LeaderMove, began_ms: float) -> float | None:
    """When the last moved partition had its new leader in the metadata store."""
    wanted = {
        (watch.topic_ids.get(each.partition.topic), each.partition.partition): each.to
        for each in moves
        if each.partition not in result.failed
    }
    return last_elected_ms(watch.records(), wanted, began_ms=began_ms, offset_ms=watch.offset_ms)


def _all_new_lines(logs: LogFollower) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while more := logs.new_lines():
        found += more
    return found
