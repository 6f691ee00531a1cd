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

from typing import TYPE_CHECKING, Any

from yak.broker.call import Call, Later, Outcome, Prebuilt, Slices
from yak.broker.counters import FOLLOWER_FETCH
from yak.broker.delayed_fetch import ConsumerFetch, FollowerFetch, by_topic
from yak.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, ConsumerItem, ConsumerSession, FollowerSession
from yak.errors import ErrorCode, PeerError
from yak.limits import SLICE_ELEMENTS
from yak.ports.disk import Buffer
from yak.protocol.hot import FetchPartitionAnswer, fetch_response
from yak.protocol.replica_fetch import VERSION as FOLLOWER_VERSION

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 1, "Fetch", range(4, 19)
ABSENT = (
    "replica fetches over a connection that is not authenticated as a broker: refused with CLUSTER_AUTHORIZATION_FAILED",
)

_SESSION_VERSION = 7
_TOPIC_ID_VERSION = 13


def handle(broker: Broker, call: Call) -> Outcome:
    """Answer with the bytes available, or delay the fetch if they are too few."""
    request = call.request
    if request.replica_id >= 0 and call.version == FOLLOWER_VERSION:
        return _handle_follower(broker, call)
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[ConsumerItem] = []
    for topic in request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [ConsumerItem(key, name, data) for data in topic.partitions]
    fetch = _begin(broker, call, items, by_id)
    if isinstance(fetch, Prebuilt):
        return fetch
    reading = fetch.read(broker)
    if fetch.is_enough(broker, reading) or not fetch.may_wait(broker):
        return fetch.reply(broker, reading)
    fetch.delay(broker, reading)
    return Later(fetch)


def slices(broker: Broker, call: Call) -> Slices:
    """Read the partitions in slices. A fetch that has to wait first reads all of them again."""
    by_id = call.version >= _TOPIC_ID_VERSION
    items: list[ConsumerItem] = []
    passed = 0
    for topic in call.request.topics:
        key, name = _topic_of(broker, topic) if by_id else (topic.topic, topic.topic)
        items += [ConsumerItem(key, name, data) for data in topic.partitions]
        if len(items) - passed >= 4 * SLICE_ELEMENTS:
            passed = len(items)
            yield
    fetch = _begin(broker, call, items, by_id)
    if isinstance(fetch, Prebuilt):
        return fetch
    yield
    reading = yield from fetch.read_in_slices(broker)
    if not fetch.is_enough(broker, reading) and fetch.may_wait(broker):
        # commits since a partition was read would not wake this fetch
        reading = fetch.read(broker)
        if not fetch.is_enough(broker, reading):
            fetch.delay(broker, reading)
            return Later(fetch)
    return fetch.reply(broker, reading) if reading.pending else (yield from fetch.build_in_slices(broker, reading))


def _handle_follower(broker: Broker, call: Call) -> Outcome:
    call.api_key = FOLLOWER_FETCH  # from here on the key only selects counters
    is_full = call.request.session_epoch == INITIAL_EPOCH
    error_code = ErrorCode.none
    try:
        session = broker.follower_sessions.session_of(call)
    except PeerError as error:
        session, error_code = None, error.error_code
    if session is None:
        return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error_code, 0, []))
    return FollowerFetch(broker, session, call).start(broker, must_answer=is_full)


def handle_repeated(broker: Broker, session: FollowerSession, frame: Buffer) -> tuple[Call, Outcome] | None:
    """Serve a follower's Fetch that differs from its last one in one partition only; None for any other frame."""
    correlation_id = broker.follower_sessions.repeated(session, frame)
    if correlation_id is None:
        return None
    call = Call(session.connection, FOLLOWER_FETCH, FOLLOWER_VERSION, correlation_id, None, broker.now_ms)
    return call, FollowerFetch(broker, session, call).start(broker, must_answer=False)


def _begin(broker: Broker, call: Call, items: list[ConsumerItem], by_id: bool) -> ConsumerFetch | Prebuilt:
    """The fetch with its session, or the answer that refuses it."""
    if call.request.replica_id >= 0:
        return _refuse(broker, call, ErrorCode.cluster_authorization_failed, items)
    session: ConsumerSession | None = None
    is_incremental = False
    if call.version >= _SESSION_VERSION:
        try:
            session, is_incremental = _session_of(broker, call, items, by_id)
        except PeerError as error:
            broker.counters.failed(KEY, error.error_code)
            return Prebuilt(fetch_response(call.version, call.correlation_id, 0, error.error_code, 0, []))
    return ConsumerFetch(broker, call, items, session, is_incremental)


def _topic_of(broker: Broker, topic: Any) -> tuple[Any, str | None]:
    """A topic's id and name. The id is the image's own object, so that partitions compare it by identity (`is`)."""
    found = broker.image.topic_by_id(topic.topic_id) if topic.topic_id is not None else None
    return (topic.topic_id, None) if found is None else (found.topic_id, found.name)


def _session_of(
    broker: Broker, call: Call, items: list[ConsumerItem], by_id: bool
) -> tuple[ConsumerSession | None, bool]:
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


def _refuse(broker: Broker, call: Call, error_code: ErrorCode, items: list[ConsumerItem]) -> Prebuilt:
    broker.counters.failed(KEY, error_code)
    answers = [(item, FetchPartitionAnswer(item.index, error_code, -1, -1, -1, b"")) for item in items]
    top = error_code if call.version >= _SESSION_VERSION else ErrorCode.none
    return Prebuilt(fetch_response(call.version, call.correlation_id, 0, top, 0, by_topic(answers)))
