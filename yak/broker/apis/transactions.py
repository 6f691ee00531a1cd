"""The requests of transactional producers to their coordinator, and the admin clients' requests about transactions.

AddPartitionsToTxn (key 24, v0-5). v2: PRODUCER_FENCED. v3: flexible. v4: several transactions, and questions of leaders
(`verify_only`). v5: TRANSACTION_ABORTABLE. AddOffsetsToTxn (key 25, v0-4): adds the group's partition of
`__consumer_offsets`. v2: PRODUCER_FENCED. v3: flexible. EndTxn (key 26, v0-5). v2: PRODUCER_FENCED. v3: flexible. v5:
protocol 2 (KIP-890), the answer has the producer's next identity. DescribeTransactions (key 65, v0). ListTransactions
(key 66, v0-2). v1: a filter by duration. v2: a filter by transactional id, an RE2 expression (KIP-1152). Rules and
errors are those of KafkaApis.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from yak.acls.bindings import Operation, ResourceType
from yak.broker.api_table import Api
from yak.broker.call import Call, Fields, Now, Outcome, Slices
from yak.broker.delayed_answers import DelayedAnswer
from yak.broker.delayed_metadata_changes import DelayedMetadataChanges
from yak.core.placement import partition_of
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.groups.consumer.regexes import Expression
from yak.groups.offsets import OFFSETS_TOPIC
from yak.ids import INTERNAL_TOPICS, TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.protocol.pace import Pace
from yak.transactions.transaction import BY_LABEL, DEAD, PROTOCOL_1, PROTOCOL_2, ProducerIdAndEpoch, Transaction

if TYPE_CHECKING:
    from yak.broker.broker import Broker

_FENCED_VERSION: Final = 2
_BATCHED_VERSION: Final = 4
_PROTOCOL_2_END_VERSION: Final = 5
_TIMEOUT_MS: Final = 30_000
_NONE: Final = ErrorCode.none
_DENIED: Final = ErrorCode.transactional_id_authorization_failed
_WRITE_TOPIC: Final = Operation.WRITE, ResourceType.TOPIC


def _waiting(broker: Broker, call: Call, refused: Callable[[ErrorCode], Fields]) -> DelayedAnswer:
    late = ErrorCode.coordinator_not_available
    return DelayedAnswer(broker.purgatory, call, _TIMEOUT_MS, lambda: Now(refused(late)))


def _for_version(call: Call, code: ErrorCode) -> ErrorCode:
    """Clients before v2 know a fenced producer only as one with an old epoch."""
    is_unknown = code == ErrorCode.producer_fenced and call.version < _FENCED_VERSION
    return ErrorCode.invalid_producer_epoch if is_unknown else code


def _refuse_late(broker: Broker, call: Call, transactional_id: str, producer: ProducerIdAndEpoch) -> None:
    """Close a connection that the producer has replaced: a late request could change its next transaction.

    A client that uses the connection all the same opens a new one, and repeats the request.
    """
    connection = call.connection
    if connection.is_in_process or connection.proven is not None:
        return
    if not broker.transaction_coordinator.check_connection(transactional_id, producer, connection.connection_id):
        raise ProtocolViolation(f"the producer {transactional_id!r} has sent requests over a newer connection")


def _may_write(broker: Broker, call: Call, transactional_id: str) -> bool:
    return broker.authorization.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


# --------------------------------------------------------------------------------------------------- AddPartitionsToTxn


def add_partitions_to_txn(broker: Broker, call: Call) -> Outcome:
    """Add partitions to one transaction, or to each of several; or say whether they have them."""
    request = call.request
    if call.version >= _BATCHED_VERSION:
        return _add_to_several(broker, call)
    transactional_id = request.v3_and_below_transactional_id
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    partitions = _partitions(request.v3_and_below_topics)

    def fields(codes: dict[TopicPartition, ErrorCode]) -> Fields:
        return {"results_by_topic_v3_and_below": _by_topic(call, codes)}

    if not _may_write(broker, call, transactional_id):
        return Now(fields(dict.fromkeys(partitions, _DENIED)))
    _refuse_late(broker, call, transactional_id, producer)
    # In an internal topic only its coordinator takes part in transactions (AddOffsetsToTxn).
    allows = broker.authorization.allows
    denied = [
        each for each in partitions if each.topic in INTERNAL_TOPICS or not allows(call, *_WRITE_TOPIC, each.topic)
    ]
    if denied:
        codes = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
        missing = (place for place in partitions if broker.image.partition(place) is None)
        codes |= dict.fromkeys(missing, ErrorCode.unknown_topic_or_partition)
        return Now(fields(codes | dict.fromkeys(denied, ErrorCode.topic_authorization_failed)))

    if (refused := _refused(broker, transactional_id, partitions)) is not None:
        return Now(fields(refused))
    waiting = _waiting(broker, call, lambda code: fields(dict.fromkeys(partitions, code)))
    _add(broker, transactional_id, producer, partitions, PROTOCOL_1, lambda codes: waiting.complete(fields(codes)))
    return waiting.outcome()


def _add_to_several(broker: Broker, call: Call) -> Outcome:
    if not broker.authorization.allows_cluster(call, Operation.CLUSTER_ACTION):
        return Now({"error_code": ErrorCode.cluster_authorization_failed, "results_by_transaction": []})
    transactions = call.request.transactions
    results: list[Fields | None] = [None] * len(transactions)

    def fields() -> Fields:
        return {"error_code": _NONE, "results_by_transaction": results}

    waiting = _waiting(broker, call, lambda code: {"error_code": code, "results_by_transaction": []})
    left = len(transactions)

    def answered(index: int, codes: dict[TopicPartition, ErrorCode]) -> None:
        nonlocal left
        transactional_id = transactions[index].transactional_id
        results[index] = {"transactional_id": transactional_id, "topic_results": _by_topic(call, codes)}
        left -= 1
        if left == 0:
            waiting.complete(fields())

    if not transactions:
        return Now(fields())
    for index, transaction in enumerate(transactions):
        then = partial(answered, index)
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        partitions = _partitions(transaction.topics)
        if (refused := _refused(broker, transaction.transactional_id, partitions)) is not None:
            then(refused)
        elif transaction.verify_only:
            _verify(broker, transaction.transactional_id, producer, partitions, then)
        else:
            _add(broker, transaction.transactional_id, producer, partitions, PROTOCOL_2, then)
    return waiting.outcome()


def _add(
    broker: Broker,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: list[TopicPartition],
    client_version: int,
    then: Callable[[dict[TopicPartition, ErrorCode]], None],
) -> None:
    """Add all partitions, or none."""
    broker.transaction_coordinator.add_partitions(
        transactional_id, producer, partitions, client_version, lambda code: then(dict.fromkeys(partitions, code))
    )


def _refused(
    broker: Broker, transactional_id: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode] | None:
    """The codes of a transaction that can be neither added to nor verified: one partition does not exist, or no id."""
    missing = [place for place in partitions if broker.image.partition(place) is None]
    if missing:
        codes = dict.fromkeys(partitions, ErrorCode.operation_not_attempted)
        return codes | dict.fromkeys(missing, ErrorCode.unknown_topic_or_partition)
    return None if transactional_id else dict.fromkeys(partitions, ErrorCode.invalid_request)


def _verify(
    broker: Broker,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: list[TopicPartition],
    then: Callable[[dict[TopicPartition, ErrorCode]], None],
) -> None:
    codes: dict[TopicPartition, ErrorCode] = {}
    for place in partitions:
        broker.transaction_coordinator.verify(transactional_id, producer, place, partial(codes.__setitem__, place))
    then(codes)


def _partitions(topics: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _by_topic(call: Call, codes: dict[TopicPartition, ErrorCode]) -> list[Fields]:
    topics: dict[str, list[Fields]] = {}
    for (topic, index), code in codes.items():
        result = {"partition_index": index, "partition_error_code": _for_version(call, code)}
        topics.setdefault(topic, []).append(result)
    return [{"name": name, "results_by_partition": results} for name, results in topics.items()]


# -------------------------------------------------------------------------------------------- AddOffsetsToTxn, EndTxn


def add_offsets_to_txn(broker: Broker, call: Call) -> Outcome:
    """Add the partition of `__consumer_offsets` that has the group's offsets."""
    request = call.request

    def fields(code: ErrorCode) -> Fields:
        return {"error_code": _for_version(call, code)}

    if not _may_write(broker, call, request.transactional_id):
        return Now(fields(_DENIED))
    if not broker.authorization.allows(call, Operation.READ, ResourceType.GROUP, request.group_id):
        return Now(fields(ErrorCode.group_authorization_failed))
    topic = broker.image.topics.get(OFFSETS_TOPIC)
    if not request.transactional_id:
        return Now(fields(ErrorCode.invalid_request))
    if topic is None:
        return _create_offsets_topic(broker, call, fields)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    _refuse_late(broker, call, request.transactional_id, producer)
    waiting = _waiting(broker, call, fields)
    broker.transaction_coordinator.add_partitions(
        request.transactional_id,
        producer,
        (TopicPartition(OFFSETS_TOPIC, partition_of(request.group_id, len(topic.partitions))),),
        PROTOCOL_1,
        lambda code: waiting.complete(fields(code)),
    )
    return waiting.outcome()


def _create_offsets_topic(broker: Broker, call: Call, fields: Callable[[ErrorCode], Fields]) -> Outcome:
    """Create `__consumer_offsets`, and let the client repeat its request.

    A client finds the group's coordinator, which creates the topic too, only after AddOffsetsToTxn. Kafka adds the
    partition before there is one (KafkaApis.handleAddOffsetsToTxnRequest).
    """

    def created(results: dict[str, PeerError | None]) -> Outcome:
        refusal = results.get(OFFSETS_TOPIC)
        exists = refusal is None or refusal.error_code == ErrorCode.topic_already_exists
        return Now(fields(ErrorCode.coordinator_load_in_progress if exists else ErrorCode.coordinator_not_available))

    waiting = DelayedMetadataChanges(broker, call, _TIMEOUT_MS, created)
    waiting.change_from_image(OFFSETS_TOPIC, partial(broker.topic_creation.plan_internal_topic, OFFSETS_TOPIC))
    return waiting.outcome()


def end_txn(broker: Broker, call: Call) -> Outcome:
    """Commit or abort. The answer does not wait for the markers."""
    request = call.request

    def fields(code: ErrorCode, producer: ProducerIdAndEpoch | None = None) -> Fields:
        answer: Fields = {"error_code": _for_version(call, code)}
        if code == _NONE and producer is not None:
            answer |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        return answer

    if not _may_write(broker, call, request.transactional_id):
        return Now(fields(_DENIED))
    if not request.transactional_id:
        return Now(fields(ErrorCode.invalid_request))
    is_protocol_2 = call.version >= _PROTOCOL_2_END_VERSION
    ending = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if not is_protocol_2:
        _refuse_late(broker, call, request.transactional_id, ending)
    waiting = _waiting(broker, call, fields)
    broker.transaction_coordinator.end(
        request.transactional_id,
        ending,
        is_commit=request.committed,
        client_version=PROTOCOL_2 if is_protocol_2 else PROTOCOL_1,
        then=lambda code, producer: waiting.complete(fields(code, producer)),
    )
    return waiting.outcome()


# ----------------------------------------------------------------------------- DescribeTransactions, ListTransactions


def describe_transactions(broker: Broker, call: Call) -> Outcome:
    """The transactions of some transactional ids, each once."""
    return broker.large_requests.answer(call, _described_all(broker, call))


def _described_all(broker: Broker, call: Call) -> Slices:
    """Each transaction is described as it is in its own slice."""
    states: list[Fields] = []
    pace = Pace()
    for name in dict.fromkeys(call.request.transactional_ids):
        states.append(_described(broker, call, name))
        if pace.is_over(1 + sum(len(topic["partitions"]) for topic in states[-1]["topics"])):
            yield
    return Now({"transaction_states": states})


def _described(broker: Broker, call: Call, name: str) -> Fields:
    may_see = partial(broker.authorization.may_see, call, Operation.DESCRIBE, ResourceType.TOPIC)
    try:
        broker.authorization.check(call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
        if not name:
            raise PeerError(ErrorCode.invalid_request)
        transaction = broker.transaction_coordinator.describe(name)
    except PeerError as error:
        return {"error_code": error.error_code, "transactional_id": name, "transaction_state": "", "topics": []}
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(place for place in transaction.partitions if may_see(place.topic)):
        topics.setdefault(topic, []).append(index)
    return {
        "error_code": _NONE,
        "transactional_id": name,
        "transaction_state": transaction.state.label,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }


def list_transactions(broker: Broker, call: Call) -> Outcome:
    """The transactions that this broker coordinates and the filters let through."""
    request = call.request
    pattern = getattr(request, "transactional_id_pattern", None)
    try:
        expression = Expression(pattern, is_of_ascii=False) if pattern else None
        transactions = list(broker.transaction_coordinator.transactions())
        ids = () if expression is None else [each.transactional_id for each in transactions]
        names = None if expression is None else frozenset(expression.matching(ids))
    except PeerError as error:
        return Now({"error_code": error.error_code, "unknown_state_filters": [], "transaction_states": []})
    states = {BY_LABEL[name] for name in request.state_filters if name in BY_LABEL}
    producer_ids = frozenset(request.producer_id_filters)
    duration_ms = getattr(request, "duration_filter", -1)
    may_see = partial(broker.authorization.may_see, call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
    unknown = [name for name in request.state_filters if name not in BY_LABEL]

    def is_wanted(transaction: Transaction) -> bool:
        return (
            transaction.state is not DEAD
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (not request.state_filters or transaction.state in states)
            and (duration_ms < 0 or broker.wall_ms - transaction.started_ms > duration_ms)
            and (names is None or transaction.transactional_id in names)
            and may_see(transaction.transactional_id)
        )

    def listed() -> Slices:
        """The transactions as they are at the first slice."""
        found: list[Fields] = []
        for number, transaction in enumerate(transactions, 1):
            if is_wanted(transaction):
                found.append(
                    {
                        "transactional_id": transaction.transactional_id,
                        "producer_id": transaction.producer_id,
                        "transaction_state": transaction.state.label,
                    }
                )
            if number % SLICE_ELEMENTS == 0:
                yield
        return Now({"error_code": _NONE, "unknown_state_filters": unknown, "transaction_states": found})

    return broker.large_requests.answer(call, listed())


APIS = (
    Api(24, "AddPartitionsToTxn", range(6), add_partitions_to_txn),
    Api(25, "AddOffsetsToTxn", range(5), add_offsets_to_txn),
    Api(26, "EndTxn", range(6), end_txn),
    Api(65, "DescribeTransactions", range(1), describe_transactions),
    Api(66, "ListTransactions", range(3), list_transactions),
)
