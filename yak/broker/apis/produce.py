"""Produce (key 0, v3-13): append one batch a partition, and answer when it counts.

v3: record batches, magic 2. v7: zstd. v8: errors by record. v9: flexible. v10: current leader (KIP-951).
v12: same as v11 here, transactions are not served. v13: topic ids instead of names.

Internal topics are not written by clients (`yak.broker.internal_topics`; the error is KafkaApis.handleProduceRequest's).

With acks=0 there is no answer, and an error closes the connection (Kafka's KafkaApis.handleProduceRequest). With
acks=1 and acks=all the answer waits for what the topic's `flush.messages` asks; with acks=all also for the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yak.broker.admission import append_batch
from yak.broker.appending import Appended
from yak.broker.call import Call, Later, Outcome, Prebuilt, Waiting
from yak.broker.internal_topics import is_kept_from
from yak.broker.keyed_records import record_errors_of
from yak.broker.leader_hints import add_hints
from yak.broker.refused_batches import note_not_led, tell_refused
from yak.errors import ErrorCode, PeerError
from yak.ids import TopicPartition
from yak.protocol.hot import ProducePartitionAnswer, produce_response
from yak.replication.partition import Partition

if TYPE_CHECKING:
    from yak.broker.broker import Broker

KEY, NAME, VERSIONS = 0, "Produce", range(3, 14)
ABSENT = ("transactions: a transactional id or batch is refused with INVALID_TXN_STATE",)

_LEADER_VERSION = 10
_TOPIC_ID_VERSION = 13
_NONE = ErrorCode.none
_NOT_LEADER = ErrorCode.not_leader_or_follower


def handle(broker: Broker, call: Call) -> Outcome:
    """Append every batch of the request, each with its own error code."""
    request = call.request
    acks = request.acks
    if acks not in (-1, 0, 1):
        refusal: tuple[ErrorCode, str] | None = (
            ErrorCode.invalid_required_acks,
            f"acks must be -1, 0 or 1, not {acks}",
        )
    elif request.transactional_id is not None:
        refusal = ErrorCode.invalid_txn_state, "transactions are not served by this version of YAK"
    else:
        refusal = None
    by_id = call.version >= _TOPIC_ID_VERSION
    wait: ProduceWaiting | None = None
    has_error = False
    topics: list[tuple[Any, list[ProducePartitionAnswer]]] = []
    for topic_data in request.topic_data:
        answers: list[ProducePartitionAnswer] = []
        name = broker.topic_name(topic_data.topic_id) if by_id else topic_data.name
        topics.append((topic_data.topic_id if by_id else name, answers))
        for data in topic_data.partition_data:
            try:
                if refusal is not None:
                    raise PeerError(*refusal)
                if name is None:
                    raise PeerError(ErrorCode.unknown_topic_id, "no topic has this id")
                if is_kept_from(broker, call, name):
                    raise PeerError(ErrorCode.invalid_topic_exception, f"{name} is written by the brokers alone")
                partition = broker.led(name, data.index)
                appended = append_batch(broker, partition, data.records, call.version, acks, call.now_ms)
            except PeerError as error:
                _note_refusal(broker, name, data, error)
                answers.append(_failed(data.index, error))
                has_error = True
                continue
            answer = ProducePartitionAnswer(
                data.index,
                0,
                appended.base_offset,
                appended.log_append_time_ms,
                appended.log_start_offset,
            )
            answers.append(answer)
            # with acks=0 only for its turn to be recompressed, so that the connection's bound holds for it too
            if appended.must_wait and (acks != 0 or appended.end_offset < 0):
                if wait is None:
                    wait = ProduceWaiting(call, topics)
                wait.hold(partition, appended, answer)
    if acks == 0:
        _close_on_error(broker, call, topics)
    if wait is not None:
        wait.remaining -= 1
        wait.has_error = has_error
        return Later(wait)
    if acks == 0:
        return None
    return _answer(broker, call, topics, has_error=has_error)


def _answer(
    broker: Broker, call: Call, topics: list[tuple[Any, list[ProducePartitionAnswer]]], *, has_error: bool
) -> Prebuilt:
    if has_error:
        for _topic, answers in topics:
            for answer in answers:
                if answer.error_code != _NONE:
                    broker.counters.failed(KEY, answer.error_code)
    if has_error and call.version >= _LEADER_VERSION:
        endpoints = add_hints(broker, topics)
        return Prebuilt(produce_response(call.version, call.correlation_id, topics, endpoints))
    return Prebuilt(produce_response(call.version, call.correlation_id, topics))


def _note_refusal(broker: Broker, name: str | None, data: Any, error: PeerError) -> None:
    """What was sent to a replica that does not lead may come again when it does; whose sequence does not fit is told to the log."""
    replica = None if name is None else broker.partitions.get(TopicPartition(name, data.index))
    if replica is None:
        return
    if error.error_code == _NOT_LEADER:
        note_not_led(replica, data.records, broker.now_ms)
    else:
        tell_refused(broker, replica, data.records, error)


def _failed(index: int, error: PeerError) -> ProducePartitionAnswer:
    """The answer of a partition whose batch was not appended."""
    return ProducePartitionAnswer(index, error.error_code, -1, -1, -1, record_errors_of(error), error.message or None)


def _close_on_error(broker: Broker, call: Call, topics: list[tuple[Any, list[ProducePartitionAnswer]]]) -> None:
    for topic, answers in topics:
        for answer in answers:
            if answer.error_code != _NONE:
                broker.counters.failed(KEY, answer.error_code)
                broker.close_connection(
                    call.connection,
                    f"acks=0 produce to {topic}-{answer.index} failed with {ErrorCode(answer.error_code).name}",
                )
                return


class ProduceWaiting(Waiting):
    """An acks=1 or acks=all produce whose batches are in the log but do not count yet.

    It drops the decoded request: the records in it are views of a receive buffer that is given back after the step.
    """

    __slots__ = ("_acks", "_held", "_topics", "has_error", "remaining")

    def __init__(self, call: Call, topics: list[tuple[Any, list[ProducePartitionAnswer]]]) -> None:
        super().__init__(call, max(0, call.request.timeout_ms))
        self._acks: int = call.request.acks
        call.request = None
        self.remaining = 1
        """Batches that do not count yet, and one for the handler: until it is done, the answer is not whole."""
        self.has_error = False
        """Whether a batch was refused at once."""
        self._topics = topics
        self._held: list[tuple[Partition, Appended, ProducePartitionAnswer]] = []

    def hold(self, partition: Partition, appended: Appended, answer: ProducePartitionAnswer) -> None:
        """Wait for one more batch."""
        self.remaining += 1
        self._held.append((partition, appended, answer))
        appended.wait_in(partition, self, answer)

    def resolve(self, broker: Broker) -> None:
        """One batch counts now, or failed; the last one lets the answer go."""
        self.remaining -= 1
        if self.remaining == 0:
            broker.finish(self)

    def is_done(self) -> bool:
        """Whether every batch counts or failed."""
        return self.remaining <= 0

    def answer(self, broker: Broker) -> Outcome:
        """What became of each batch; no bytes with acks=0."""
        if self._acks == 0:
            _close_on_error(broker, self.call, self._topics)
            return Prebuilt([])
        for _partition, _appended, answer in self._held:
            if answer.error_code != _NONE:
                self.has_error = True
        return _answer(broker, self.call, self._topics, has_error=self.has_error)

    def on_expiry(self, broker: Broker) -> Outcome:
        """Batches that still do not count are answered with REQUEST_TIMED_OUT: they are in the log all the same."""
        for partition, appended, answer in self._held:
            if not appended.counts(partition):
                answer.error_code = ErrorCode.request_timed_out
                answer.base_offset = -1
        return Prebuilt([]) if self._acks == 0 else self.answer(broker)
