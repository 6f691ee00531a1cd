"""Produce (key 0, v3-13): append one batch per partition, and acknowledge it.

v3: record batches, magic 2. v7: zstd. v8: errors by record. v9: flexible. v10: current leader (KIP-951).
v11: TRANSACTION_ABORTABLE. v12: the leader adds the partition to the transaction (KIP-890). v13: topic ids instead of names.

Only super users may write internal topics (`yak.broker.internal_topics`; KafkaApis.handleProduceRequest's error).

With acks=0 there is no answer, and an error closes the connection (Kafka's KafkaApis.handleProduceRequest). With acks=1
and acks=all the answer waits for the flush that `flush.messages` demands; with acks=all also for the high watermark.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from yak.acls.bindings import Operation, ResourceType
from yak.broker.authorization import denial
from yak.broker.call import Call, DelayedOperation, Encoded, Later, Outcome, Slices
from yak.broker.internal_topics import may_not_write
from yak.broker.leader_hints import add_hints
from yak.errors import ErrorCode, PeerError
from yak.ids import Offset, TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.partitions.batch_validation import record_errors_of
from yak.partitions.leader_appends import log_start_offset_with
from yak.protocol.hot_pieces import NodeEndpoint
from yak.protocol.pace import Pace
from yak.protocol.produce_answer import ProducePartitionAnswer, produce_response, produce_response_in_slices
from yak.protocol.record_batch import iterate_headers
from yak.replication.log_append_info import LogAppendInfo

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 0, "Produce", range(3, 14)
ABSENT = (
    "timestamps before 1970, which Kafka stores: INVALID_TIMESTAMP",
    "transactional batches without a producer id, which Kafka stores: INVALID_RECORD",
    "a sequence used again in a later transaction of its epoch, for Kafka a duplicate: UNKNOWN_PRODUCER_ID",
    "a new producer's sequence above 0 for a minute after an election, which Kafka stores: NOT_ENOUGH_REPLICAS at first",
    "unreadable records, compressed or more than 16, which Kafka refuses: stored, unless the topic's configs need them",
    "batches larger than segment.bytes, which Kafka refuses: stored",
    "two batches of one partition in one request, of which Kafka stores the last: both are stored",
)

_LEADER_VERSION = 10
_TOPIC_ID_VERSION = 13
_NONE = ErrorCode.none
_WRITE_TOPIC = Operation.WRITE, ResourceType.TOPIC
_DENIED = denial(ResourceType.TOPIC)
_Topics: TypeAlias = list[tuple[Any, list[ProducePartitionAnswer]]]


def handle(broker: Broker, call: Call) -> Outcome:
    """Append every batch of the request, each with its own error code."""
    request = call.request
    topics: _Topics = []
    wait, has_error = _append(broker, call, request, request.topic_data, topics, None)
    acks = request.acks
    if acks == 0:
        _close_on_error(broker, call, topics)
    if wait is not None:
        return wait.begin(has_error=has_error)
    if acks == 0:
        _throttle_ms(broker, call)
        return None
    return _answer(broker, call, topics, has_error=has_error)


def slices(broker: Broker, call: Call) -> Slices:
    """Append the batches in slices; one answer covers all of them."""
    request = call.request
    topics: _Topics = []
    wait: DelayedProduce | None = None
    has_error, pace = False, Pace()
    for topic_data in request.topic_data:
        batches = topic_data.partition_data
        for start in range(0, len(batches), SLICE_ELEMENTS) or (0,):
            some = topic_data._replace(partition_data=batches[start : start + SLICE_ELEMENTS])
            wait, failed = _append(broker, call, request, [some], topics, wait)
            has_error = has_error or failed
            if start:
                _key, more = topics.pop()
                topics[-1][1].extend(more)
            if pace.is_over(len(some.partition_data)):
                yield
    if request.acks == 0:
        _close_on_error(broker, call, topics)
    if wait is not None:
        return wait.begin(has_error=has_error)
    if request.acks == 0:
        _throttle_ms(broker, call)
        return None
    if has_error:
        for _key, answers in topics:
            _count(broker, answers)
            if pace.is_over(len(answers)):
                yield
    endpoints = _hints(broker, call, topics) if has_error and call.version >= _LEADER_VERSION else ()
    yield
    throttle_ms = _throttle_ms(broker, call)
    encoding = produce_response_in_slices(call.version, call.correlation_id, topics, endpoints, throttle_ms)
    return [(yield from encoding)]


def _throttle_ms(broker: Broker, call: Call) -> int:
    """The time for which the producer must wait (KafkaApis.handleProduceRequest)."""
    return broker.throttling.produced(call) if broker.throttling.is_active else 0


def _denied_transaction(
    broker: Broker, call: Call, transactional_id: str, topic_data_list: list[Any]
) -> PeerError | None:
    """The error of all batches for a producer that may not write under its transactional id, if one is transactional.

    Batches outside of transactions do not need that right (Kafka's RequestUtils.hasTransactionalRecords).
    """
    access = call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    if broker.authorization.may_see(*access) or not any(
        header.is_transactional
        for topic_data in topic_data_list
        for data in topic_data.partition_data
        for _position, header in islice(iterate_headers(data.records or b""), 1)
    ):
        return None
    broker.authorization.note_denied(*access)
    return denial(ResourceType.TRANSACTIONAL_ID)


def _append(
    broker: Broker, call: Call, request: Any, topic_data_list: list[Any], topics: _Topics, wait: DelayedProduce | None
) -> tuple[DelayedProduce | None, bool]:
    """Append the batches of some topics. Returns the delayed request, if any, and whether a batch was refused."""
    acks, transactional_id = request.acks, request.transactional_id
    by_id = call.version >= _TOPIC_ID_VERSION
    has_error, denied = False, None
    if broker.authorization.is_active and transactional_id is not None:
        denied = _denied_transaction(broker, call, transactional_id, topic_data_list)
    for topic_data in topic_data_list:
        answers: list[ProducePartitionAnswer] = []
        name = broker.topic_name(topic_data.topic_id) if by_id else topic_data.name
        topic_key = topic_data.topic_id if by_id else name
        topics.append((topic_key, answers))
        refusal = denied if denied is not None else _refusal_of_topic(broker, call, acks, name)
        if refusal is not None:
            for data in topic_data.partition_data:
                broker.leader_appends.note_early(topic_key, data.index, data.records, refusal)
                answers.append(_failed(data.index, refusal))
            has_error = True
            continue
        assert name is not None
        for data in topic_data.partition_data:
            try:
                info = broker.leader_appends.append(
                    name, data.index, data.records, call.version, acks, call.now_ms, transactional_id
                )
            except PeerError as error:
                replica = broker.partitions.get(TopicPartition(name, data.index))
                if replica is not None:
                    broker.leader_appends.note_refusal(replica, data.records, error)
                else:
                    broker.leader_appends.note_early(topic_key, data.index, data.records, error)
                answers.append(_failed(data.index, error, log_start_offset_with(error, replica)))
                has_error = True
                continue
            answer = ProducePartitionAnswer(
                data.index,
                0,
                info.base_offset,
                info.log_append_time_ms,
                info.log_start_offset,
            )
            answers.append(answer)
            # acks=0 waits only for recompression, so that the connection's bound holds for it too
            if (acks != 0 or info.end_offset < 0) and not info.may_acknowledge():
                if wait is None:
                    wait = DelayedProduce(broker, call, topics)
                wait.hold(info, answer)
    return wait, has_error


def _refusal_of_topic(broker: Broker, call: Call, acks: int, name: str | None) -> PeerError | None:
    """Why no batch of the request is appended to this topic; None if they may be."""
    authorization = broker.authorization
    if authorization.is_active and name is not None and not authorization.allows(call, *_WRITE_TOPIC, name):
        return _DENIED
    if acks not in (-1, 0, 1):
        return PeerError(ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {acks}")
    if name is None:
        return PeerError(ErrorCode.unknown_topic_id, "no topic with this id exists")
    if may_not_write(broker, call, name):
        return PeerError(ErrorCode.invalid_topic_exception, f"{name} is internal; only brokers write it")
    return None


def _count(broker: Broker, answers: list[ProducePartitionAnswer]) -> None:
    """Count the errors."""
    for answer in answers:
        if answer.error_code != _NONE:
            broker.counters.failed(KEY, answer.error_code)


def _answer(broker: Broker, call: Call, topics: _Topics, *, has_error: bool) -> Encoded:
    if has_error:
        for _topic, answers in topics:
            _count(broker, answers)
    endpoints = _hints(broker, call, topics) if has_error and call.version >= _LEADER_VERSION else ()
    return produce_response(call.version, call.correlation_id, topics, endpoints, _throttle_ms(broker, call))


def _hints(broker: Broker, call: Call, topics: _Topics) -> tuple[NodeEndpoint, ...]:
    return add_hints(broker.image, broker.node_id, call.connection.listener.name, topics)


def _failed(index: int, error: PeerError, log_start_offset: Offset = -1) -> ProducePartitionAnswer:
    """The answer of a partition whose batch was not appended."""
    message = error.message or None
    return ProducePartitionAnswer(index, error.error_code, -1, -1, log_start_offset, record_errors_of(error), message)


def _close_on_error(broker: Broker, call: Call, topics: _Topics) -> None:
    for topic, answers in topics:
        for answer in answers:
            if answer.error_code != _NONE:
                broker.counters.failed(KEY, answer.error_code)
                broker.close_connection(
                    call.connection,
                    f"acks=0 produce to {topic}-{answer.index} failed with {ErrorCode(answer.error_code).name}",
                )
                return


class DelayedProduce(DelayedOperation):
    """A produce that waits for the high watermark, a flush or recompression (Kafka's DelayedProduce).

    It drops the decoded request: the records in it are views of a receive buffer that is given back after the step.
    """

    __slots__ = ("_acks", "_broker", "_held", "_topics", "has_error", "remaining")

    def __init__(self, broker: Broker, call: Call, topics: _Topics) -> None:
        super().__init__(call, max(0, call.request.timeout_ms))
        self._acks: int = call.request.acks
        call.request = None
        self.remaining = 1
        """Batches that still wait, and one for the handler until `begin`: the answer is incomplete before."""
        self.has_error = False
        """Whether a batch was refused, or failed."""
        self._broker, self._topics = broker, topics
        self._held: list[tuple[LogAppendInfo, ProducePartitionAnswer]] = []

    def hold(self, info: LogAppendInfo, answer: ProducePartitionAnswer) -> None:
        """Wait for one more batch."""
        self.remaining += 1
        self._held.append((info, answer))
        info.wait_with(self, answer)

    def begin(self, *, has_error: bool) -> Later:
        """The handler is done, and a batch was refused if `has_error`: wait for the batches that are held."""
        self.remaining -= 1
        self.has_error = has_error
        return Later(self)

    def resolve(self) -> None:
        """One batch may be acknowledged, or failed; after the last one the answer is sent."""
        self.remaining -= 1
        if self.remaining == 0:
            self._broker.purgatory.complete(self)

    def is_done(self) -> bool:
        """Whether no batch waits any more."""
        return self.remaining <= 0

    def answer(self) -> Outcome:
        """The result of each batch; no bytes with acks=0."""
        if self._acks == 0:
            _close_on_error(self._broker, self.call, self._topics)
            _throttle_ms(self._broker, self.call)
            return []
        for _info, answer in self._held:
            if answer.error_code != _NONE:
                self.has_error = True
        return _answer(self._broker, self.call, self._topics, has_error=self.has_error)

    def on_expiration(self) -> Outcome:
        """Answer batches that still wait with REQUEST_TIMED_OUT; one that was refused meanwhile keeps its error."""
        for info, answer in self._held:
            if answer.error_code == _NONE and not info.may_acknowledge():
                answer.error_code = ErrorCode.request_timed_out
                answer.base_offset = -1
        return [] if self._acks == 0 else self.answer()
