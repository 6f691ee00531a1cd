"""Fetch (key 1, v4-18): committed batches from an offset on; a fetch with too few bytes is delayed.

v5: log start offset. v7: sessions (KIP-227). v9: leader epoch fencing. v10: zstd. v11: rack, and reading from a
follower (KIP-392). v12: flexible, last fetched epoch and divergence (KIP-595), the current leader. v13: topic ids. v15:
replica state. v16: endpoints of new leaders (KIP-951). v17: directory ids, for controllers.

Sizes follow Kafka: the first batch of the first partition with data is returned whole, even if it exceeds the limit
(ReplicaManager.readFromLog). This broker bounds an answer too: by `Connection.fetch_aim_bytes`, and for a fetch of many
partitions by what `sendfile` may add (`limits.FETCH_SLICED_BYTES_PER_PARTITION`). The partition read first changes from
fetch to fetch, so that none starves.

A read ends with its segment. A client that asks for more bytes than an older segment has left gets those at once:
waiting brings no more of them (DelayedFetch.tryComplete).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, DelayedOperation, Later, Outcome, Prebuilt, Slices
from yak.broker.cold_fetch import ColdFetch
from yak.broker.leader_hints import add_hints
from yak.broker.read_replicas import chooses_by_rack
from yak.broker.reading import OF_THE_LEADER, Reader, Reading, read_in_slices, read_items
from yak.broker.sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchItem, FetchSession
from yak.errors import ErrorCode, PeerError
from yak.limits import FETCH_SLICED_BYTES_MAX, FETCH_SLICED_BYTES_PER_PARTITION, SLICE_ELEMENTS
from yak.protocol.hot import FetchPartitionAnswer, NodeEndpoint, fetch_response, fetch_response_in_slices
from yak.replication.partition import Partition
from yak.storage.reader import ends_with_segment

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 1, "Fetch", range(4, 19)
ABSENT = (
    "replica fetches over a connection that is not authenticated as a broker: refused with CLUSTER_AUTHORIZATION_FAILED",
)

_SESSION_VERSION = 7
_RACK_VERSION = 11
_LEADER_VERSION = 12
_TOPIC_ID_VERSION = 13
REPLICA_VERSION = 17
_CONSUMER = Reader(takes_follower=True)


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer with the bytes available, or delay the fetch if they are too few."""
    request = call.request
    replica_id = request.replica_id
    if replica_id >= 0 and call.version == REPLICA_VERSION:
        return broker.replication.serving.handle(call)
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[FetchItem] = []
    for topic in request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [FetchItem(key, name, data) for data in topic.partitions]
    if replica_id >= 0:
        return _refuse(broker, call, ErrorCode.cluster_authorization_failed, items)
    session: FetchSession | None = None
    is_incremental = False
    if call.version >= _SESSION_VERSION:
        try:
            session, is_incremental = _session_of(broker, call, items, by_id)
        except PeerError as error:
            broker.counters.failed(KEY, error.error_code)
            return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error.error_code, 0, []))
    fetch = Fetch(broker, call, items, session, is_incremental)
    reading = fetch.read(broker)
    if fetch.is_enough(broker, reading) or not fetch.may_wait(broker):
        return fetch.reply(broker, reading)
    fetch.delay(broker, reading)
    return Later(fetch)


def slices(broker: Broker, call: Call) -> Slices:
    """Read the partitions in slices. A fetch that has to wait first reads all of them again."""
    request = call.request
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[FetchItem] = []
    passed = 0
    for topic in request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [FetchItem(key, name, data) for data in topic.partitions]
        if len(items) - passed >= 4 * SLICE_ELEMENTS:
            passed = len(items)
            yield
    if request.replica_id >= 0:
        return _refuse(broker, call, ErrorCode.cluster_authorization_failed, items)
    session: FetchSession | None = None
    is_incremental = False
    if call.version >= _SESSION_VERSION:
        try:
            session, is_incremental = _session_of(broker, call, items, by_id)
        except PeerError as error:
            broker.counters.failed(KEY, error.error_code)
            return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error.error_code, 0, []))
        yield
    fetch = Fetch(broker, call, items, session, is_incremental)
    reading = yield from fetch.read_in_slices(broker)
    if not fetch.is_enough(broker, reading) and fetch.may_wait(broker):
        # commits since a partition was read would not wake this fetch
        reading = fetch.read(broker)
        if not fetch.is_enough(broker, reading):
            fetch.delay(broker, reading)
            return Later(fetch)
    return fetch.reply(broker, reading) if reading.pending else (yield from fetch.build_in_slices(broker, reading))


def _topic_of(broker: Broker, topic: Any) -> tuple[Any, str | None]:
    """A topic's id and name. The id is the image's own object, so that partitions compare it by identity (`is`)."""
    found = broker.image.topic_by_id(topic.topic_id) if topic.topic_id is not None else None
    return (topic.topic_id, None) if found is None else (found.topic_id, found.name)


def _session_of(broker: Broker, call: Call, items: list[FetchItem], by_id: bool) -> tuple[FetchSession | None, bool]:
    request = call.request
    session_id, epoch = request.session_id, request.session_epoch
    if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
        if session_id:
            broker.sessions.close(broker, session_id)
        if epoch == FINAL_EPOCH:
            return None, False
        return broker.sessions.open(broker, items, call.connection, call.now_ms, uses_topic_ids=by_id), False
    session = broker.sessions.resume(session_id, epoch, call.connection, call.now_ms, uses_topic_ids=by_id)
    forgotten = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    broker.sessions.update(broker, session, items, forgotten)
    if not session.items:
        broker.sessions.close(broker, session_id)
        return None, False
    return session, True


def _refuse(broker: Broker, call: Call, error_code: ErrorCode, items: list[FetchItem]) -> Outcome:
    broker.counters.failed(KEY, error_code)
    answers = [(item, FetchPartitionAnswer(item.index, error_code, -1, -1, -1, b"")) for item in items]
    top = error_code if call.version >= _SESSION_VERSION else ErrorCode.none
    return Prebuilt(fetch_response(call.version, call.correlation_id, 0, top, 0, _by_topic(answers)))


def _by_topic(answers: list[tuple[FetchItem, FetchPartitionAnswer]]) -> list[tuple[Any, list[FetchPartitionAnswer]]]:
    if len(answers) == 1:
        item, answer = answers[0]
        return [(item.topic_key, [answer])]
    topics: dict[Any, list[FetchPartitionAnswer]] = {}
    for item, answer in answers:
        topics.setdefault(item.topic_key, []).append(answer)
    return list(topics.items())


def _count(broker: Broker, answers: list[tuple[FetchItem, FetchPartitionAnswer]]) -> None:
    """Count bytes and records out, and errors."""
    topics = broker.counters.topics
    for item, answer in answers:
        size_bytes = len(answer.records)
        if size_bytes:
            traffic = topics.get(item.name)  # type: ignore[arg-type]
            if traffic is not None:
                traffic.bytes_out += size_bytes
                traffic.messages_out += answer.next_offset - item.fetch_offset
        elif answer.error_code:
            broker.counters.failed(KEY, answer.error_code)


def _goes_on(partition: Partition, item: FetchItem) -> bool:
    """Whether committed records continue in a later segment than the one at the client's offset."""
    log = partition.log
    return log is not None and ends_with_segment(log, item.fetch_offset, partition.high_watermark)


class Fetch(DelayedOperation):
    """A fetch, delayed until it has enough bytes (Kafka's DelayedFetch)."""

    __slots__ = (
        "_bytes_seen",
        "_has_enough",
        "_is_incremental",
        "_items",
        "_max_bytes",
        "_min_bytes",
        "_reader",
        "_session",
        "_sliced_max_bytes",
    )

    def __init__(
        self, broker: Broker, call: Call, items: list[FetchItem], session: FetchSession | None, is_incremental: bool
    ) -> None:
        request = call.request
        super().__init__(call, max(0, request.max_wait_ms))
        self._items = items
        self._session = session
        self._is_incremental = is_incremental
        aim_bytes = call.connection.fetch_aim_bytes
        allowed = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._max_bytes = max(0, min(allowed, aim_bytes))
        self._sliced_max_bytes = min(
            allowed, FETCH_SLICED_BYTES_MAX, FETCH_SLICED_BYTES_PER_PARTITION * self._partitions_count()
        )
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._reader = OF_THE_LEADER
        if call.version >= _RACK_VERSION:
            self._reader = _CONSUMER
            if request.rack_id and chooses_by_rack(broker, request.rack_id):
                self._reader = Reader(request.rack_id, takes_follower=True)
        self._bytes_seen = 0
        self._has_enough = False
        call.request = None  # the items have all that is needed of it

    def _partitions_count(self) -> int:
        return len(self._session.items) if self._is_incremental and self._session is not None else len(self._items)

    def _candidates(self) -> list[FetchItem]:
        if self._is_incremental:
            assert self._session is not None
            return list(self._session.dirty)
        return self._items

    def read(self, broker: Broker) -> Reading:
        """Read the bytes available now."""
        connection = self.call.connection
        connection.fetch_rotation += 1
        return read_items(
            broker,
            self._candidates(),
            self._max_bytes,
            connection.fetch_rotation,
            sliced_max_bytes=self._sliced_max_bytes,
            reader=self._reader,
        )

    def read_in_slices(self, broker: Broker) -> Generator[None, None, Reading]:
        """`read` in slices."""
        connection = self.call.connection
        connection.fetch_rotation += 1
        return read_in_slices(
            broker,
            self._candidates(),
            self._max_bytes,
            connection.fetch_rotation,
            sliced_max_bytes=self._sliced_max_bytes,
            reader=self._reader,
        )

    def is_enough(self, broker: Broker, reading: Reading) -> bool:
        """Whether to answer now: enough bytes, an error, no wait time, no partitions, or a read to a segment's end."""
        return (
            reading.bytes_count >= self._min_bytes
            or reading.has_error
            or self.timeout_ms == 0
            or (not self._items and not self._is_incremental)
            or (reading.bytes_count > 0 and self._ends_with_segment(broker))
        )

    def may_wait(self, broker: Broker) -> bool:
        """Whether delayed fetches have room for it; an incremental fetch is in its session."""
        return self._is_incremental or broker.sessions.may_delay(broker, self.call.connection, len(self._items))

    def _ends_with_segment(self, broker: Broker) -> bool:
        """Whether `_goes_on` holds for one of its partitions."""
        for item in self._candidates():
            partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
            if partition is not None and _goes_on(partition, item):
                return True
        return False

    def reply(self, broker: Broker, reading: Reading) -> Outcome:
        """The answer; if some bytes must come from the device, a job reads them first."""
        if reading.pending:
            return Later(ColdFetch(broker, self, reading))
        return self.build(broker, reading)

    def build_in_slices(self, broker: Broker, reading: Reading) -> Slices:
        """`build` in slices."""
        for start in range(0, len(reading.to_count), SLICE_ELEMENTS):
            _count(broker, reading.to_count[start : start + SLICE_ELEMENTS])
            yield
        session_id, topics, hints = self._whole(broker, reading)
        yield
        call = self.call
        code = ErrorCode.none
        parts = yield from fetch_response_in_slices(call.version, call.correlation_id, code, session_id, topics, hints)
        return Prebuilt(parts)

    def build(self, broker: Broker, reading: Reading) -> Outcome:
        """Encode the answer."""
        if reading.to_count:
            _count(broker, reading.to_count)
        session_id, topics, hints = self._whole(broker, reading)
        call = self.call
        return Prebuilt(fetch_response(call.version, call.correlation_id, 0, ErrorCode.none, session_id, topics, hints))

    def _whole(
        self, broker: Broker, reading: Reading
    ) -> tuple[int, list[tuple[Any, list[FetchPartitionAnswer]]], tuple[NodeEndpoint, ...]]:
        """The session id, the topics with their partitions, and the endpoints of new leaders."""
        answers = reading.answers
        session_id = 0
        if self._session is not None:
            session_id = self._session.session_id
            answers = self._only_news(broker, self._session, answers)
        topics = _by_topic(answers)
        hints = add_hints(broker, topics) if reading.has_error and self.call.version >= _LEADER_VERSION else ()
        return session_id, topics, hints

    def _only_news(
        self, broker: Broker, session: FetchSession, answers: list[tuple[FetchItem, FetchPartitionAnswer]]
    ) -> list[tuple[FetchItem, FetchPartitionAnswer]]:
        """The answers that are new to the client. A partition without new data is skipped until it is marked dirty."""
        news = []
        for item, answer in answers:
            has_data = len(answer.records) > 0
            is_news = (
                has_data
                or answer.error_code != ErrorCode.none
                or answer.high_watermark != item.sent_high_watermark
                or answer.log_start_offset != item.sent_log_start_offset
                or answer.diverging_epoch is not None
                or answer.preferred_read_replica >= 0
            )
            item.sent_high_watermark = answer.high_watermark
            item.sent_log_start_offset = answer.log_start_offset
            if (
                has_data
                or answer.error_code != ErrorCode.none
                or answer.diverging_epoch is not None
                or answer.preferred_read_replica >= 0
            ):
                session.mark_dirty(item)
            elif item.fetch_offset >= answer.high_watermark:
                # only the partition marks the item from now on; it may be a new object since the session began
                broker.sessions.attach(broker, session, item)
                session.dirty.pop(item, None)
            if is_news or not self._is_incremental:
                news.append((item, answer))
        return news

    # ------------------------------------------------------------------------------------------------- waiting

    def delay(self, broker: Broker, reading: Reading) -> None:
        """Register this fetch with its partitions, which then wake it."""
        self._bytes_seen = reading.bytes_count
        if self._session is not None:
            self._session.delayed_fetch = self
            if self._is_incremental:
                for item in self._session.dirty:
                    broker.sessions.attach(broker, self._session, item)
                self._leave_out_what_was_read(broker)
                return
        broker.sessions.delay(self.call.connection, len(self._items))
        for item in self._items:
            partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
            if partition is not None:
                if partition.waiting_fetches is None:
                    partition.waiting_fetches = {}
                partition.waiting_fetches[self] = item
        self._leave_out_what_was_read(broker)

    def _leave_out_what_was_read(self, broker: Broker) -> None:
        """Subtract bytes committed earlier in this turn: they were read, and the turn's end counts them again."""
        for partition in broker.purgatory.advanced:
            if self in (partition.waiting_fetches or ()) or self._session in (partition.sessions or ()):
                self._bytes_seen -= partition.committed_bytes - partition.notified_bytes

    def leave(self, broker: Broker) -> None:
        """Remove this fetch from its session and its partitions."""
        if self._session is not None and self._session.delayed_fetch is self:
            self._session.delayed_fetch = None
        if not self._is_incremental:
            broker.sessions.delay(self.call.connection, -len(self._items))
            for item in self._items:
                partition = broker.partitions.get(item.topic_partition)  # type: ignore[arg-type]
                if partition is not None and partition.waiting_fetches:
                    partition.waiting_fetches.pop(self, None)

    def note_growth(self, partition: Partition, item: FetchItem, grown_bytes: int) -> None:
        """Note that a partition has `grown_bytes` more committed bytes, or changed; `try_complete` is called next."""
        self._bytes_seen += grown_bytes
        self._has_enough = self._min_bytes <= 1 or self._bytes_seen >= self._min_bytes or _goes_on(partition, item)

    def try_complete(self, broker: Broker) -> None:
        """Finish the fetch if it has enough."""
        if self._has_enough:
            broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Never: `try_complete` completes a delayed fetch."""
        return False

    def answer(self, broker: Broker) -> Outcome:
        """Read again, and answer with the bytes available."""
        return self.reply(broker, self.read(broker))

    def on_expiration(self, broker: Broker) -> Outcome:
        """Answer with the bytes available, even if too few."""
        return self.answer(broker)
