"""Lists, describes and aborts transactions, as kafka-transactions.sh does.

The requests are raw ones, because librdkafka has no call for them. Transaction coordinators list and describe
transactions; partition leaders know which producers have one open.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from yak.client.errors import reason_of
from yak.client.groups.group_brokers import GroupBrokers, failure
from yak.client.metadata import Broker, ClusterMetadata
from yak.client.raw_connection import Api, RawConnection, runs
from yak.client.reach import of_each
from yak.errors import ProtocolViolation, Unreachable, YakError
from yak.ids import LeaderEpoch, NodeId, Offset, ProducerId, TopicPartition, by_topic
from yak.protocol.tagged_fields import skip_tags

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Kafka's TransactionState."""
_WRITE_TXN_MARKERS: Final = 27, 1
_DESCRIBE_PRODUCERS: Final = 61, 0
_DESCRIBE: Final = 65, 0
_LIST: Final = 66, 1
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id's transaction; the last four are unknown when it is only listed.

    `started_ms` is None when no transaction is open.
    """

    transactional_id: str
    producer_id: ProducerId
    state: str
    coordinator: Broker
    producer_epoch: int = -1
    timeout_ms: int = -1
    started_ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, from its first record on."""

    partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: LeaderEpoch
    start_offset: Offset
    last_ms: int


def list_transactions(
    brokers: GroupBrokers,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[ProducerId] = (),
    longer_than_ms: int | None = None,
) -> tuple[list[Transaction], dict[Broker, str]]:
    """All transactions by id, and the brokers that did not answer, with the reason (ListTransactions, key 66)."""
    fields = {
        "state_filters": list(states),
        "producer_id_filters": list(producer_ids),
        "duration_filter": -1 if longer_than_ms is None else longer_than_ms,
    }
    answers, silent = brokers.every(_LIST, fields)
    found = [
        Transaction(str(each.transactional_id), int(each.producer_id), each.transaction_state, broker)
        for broker, answer in answers.items()
        for each in answer.transaction_states
    ]
    return sorted(found, key=lambda each: each.transactional_id), silent


def describe_transactions(brokers: GroupBrokers, names: Sequence[str]) -> dict[str, Transaction | YakError]:
    """These transactions from their coordinators, in this order (DescribeTransactions, key 65)."""

    def describe(connection: RawConnection, some: Sequence[str]) -> dict[str, tuple[int, Transaction]]:
        coordinator = next(each for each in brokers.brokers.values() if each.address == connection.address)
        answer = connection.ask(_DESCRIBE, {"transactional_ids": list(some)})
        from kio.serial.errors import SerialError  # after the connection has imported kio

        try:
            return {each.transactional_id: (code, each) for code, each in _described(answer, coordinator)}
        except (SerialError, ProtocolViolation, ValueError, IndexError) as error:
            raise OSError(f"an answer that is no DescribeTransactionsResponse: {error}") from None

    found = brokers.ask(names, 'transactional id "{}" could not be described', describe)
    return {name: _unknown(name, answer) for name, answer in ((name, found[name]) for name in dict.fromkeys(names))}


def _described(answer: bytes, coordinator: Broker) -> Iterator[tuple[int, Transaction]]:
    """Error code and transaction of each transactional id. kio cannot read the start of one that is not open: -1."""
    from kio.serial import readers

    position = 0

    def take(read: Callable[[bytes, int], tuple[Any, int]]) -> Any:
        nonlocal position
        value, size = read(answer, position)
        position += size
        return value

    def several() -> range:
        return range(take(readers.read_compact_array_length))

    take(readers.read_int32)  # throttle time
    for _ in several():
        code, name = take(readers.read_int16), take(readers.read_compact_string)
        state, timeout_ms, started_ms = (
            take(readers.read_compact_string),
            take(readers.read_int32),
            take(readers.read_int64),
        )
        producer_id, producer_epoch = take(readers.read_int64), take(readers.read_int16)
        partitions = []
        for _ in several():
            topic = take(readers.read_compact_string)
            partitions += [TopicPartition(topic, take(readers.read_int32)) for _ in several()]
            take(_skip_tags)
        take(_skip_tags)
        yield (
            code,
            Transaction(
                name,
                producer_id,
                state,
                coordinator,
                producer_epoch,
                timeout_ms,
                started_ms if started_ms >= 0 else None,
                tuple(sorted(partitions)),
            ),
        )


def _skip_tags(data: bytes, position: int) -> tuple[None, int]:
    return None, skip_tags(data, position, len(data)) - position


def _unknown(name: str, answer: Transaction | YakError) -> Transaction | YakError:
    if isinstance(answer, Transaction) or answer.kafka_code != _TRANSACTIONAL_ID_NOT_FOUND:
        return answer
    return YakError(
        "unknown-transaction",
        f'no coordinator knows transactional id "{name}"',
        why="its producer never started, or its id expired (transactional.id.expiration.ms)",
        try_=("yak transactions list",),
    )


def open_transactions(
    metadata: ClusterMetadata, partitions: Iterable[TopicPartition], *, timeout_s: float
) -> tuple[list[OpenTransaction], dict[TopicPartition, str]]:
    """The transactions that are open in these partitions, and why others could not be read (DescribeProducers, key
    61)."""

    def fields(some: Sequence[TopicPartition]) -> dict[str, object]:
        named = by_topic(some).items()
        return {"topics": [{"name": name, "partition_indexes": [each.partition for each in of]} for name, of in named]}

    found: list[OpenTransaction] = []
    failed: dict[TopicPartition, str] = {}
    answers = _ask_leaders(
        metadata, partitions, _DESCRIBE_PRODUCERS, fields, lambda answer: answer.topics, timeout_s=timeout_s
    )
    for place, answer in answers.items():
        if isinstance(answer, str):
            failed[place] = answer
        elif answer.error_code:
            failed[place] = answer.error_message or failure(int(answer.error_code), "").why
        else:
            found += [
                OpenTransaction(
                    place,
                    int(each.producer_id),
                    int(each.producer_epoch),
                    int(each.coordinator_epoch),
                    int(each.current_txn_start_offset),
                    int(each.last_timestamp),
                )
                for each in answer.active_producers
                if each.current_txn_start_offset != _NO_OFFSET
            ]
    return sorted(found, key=lambda each: (each.partition, each.start_offset)), failed


def _ask_leaders(
    metadata: ClusterMetadata,
    partitions: Iterable[TopicPartition],
    api: Api,
    fields: Callable[[Sequence[TopicPartition]], dict[str, object]],
    topics_of: Callable[[Any], Any],
    *,
    timeout_s: float,
) -> dict[TopicPartition, Any]:
    """Each partition's answer from its leader, or the reason why there is none."""
    answers: dict[TopicPartition, Any] = {}
    by_leader: dict[NodeId, list[TopicPartition]] = {}
    for each in partitions:
        leader = metadata.topics[each.topic].partitions[each.partition].leader
        if leader in metadata.brokers:
            by_leader.setdefault(leader, []).append(each)
        answers[each] = "no answer" if leader in metadata.brokers else "no leader"

    def ask(leader: NodeId) -> dict[TopicPartition, Any]:
        address, found = metadata.brokers[leader].address, dict[TopicPartition, Any]()
        try:
            with RawConnection(address, timeout_s=timeout_s) as connection:
                for some in runs(by_leader[leader]):
                    for topic in topics_of(connection.call(api, fields(some))):
                        found |= {TopicPartition(str(topic.name), int(p.partition_index)): p for p in topic.partitions}
        except OSError as error:
            return dict.fromkeys(by_leader[leader], f"{address}: {reason_of(error)}".lower()) | found
        return found

    for answered in of_each(by_leader, ask).values():
        answers |= answered
    return answers


def hanging_transactions(brokers: GroupBrokers, found: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Those of the open transactions that no coordinator will end (TransactionsCommand's FindHangingTransactions).

    No transactional id has the producer id, or its transaction does not include the partition. Raises Unreachable when
    a broker does not answer: its transactions would all seem to be hanging.
    """
    if not found:
        return []
    listed, silent = list_transactions(brokers, producer_ids=list(dict.fromkeys(each.producer_id for each in found)))
    if silent:
        broker, why = next(iter(silent.items()))
        raise Unreachable("unreachable", f"broker {broker.node_id} did not list its transactions", why=why)
    names = {each.producer_id: each.transactional_id for each in listed}
    described = describe_transactions(brokers, list(names.values()))
    hanging = []
    for each in found:
        known = described[names[each.producer_id]] if each.producer_id in names else None
        if isinstance(known, YakError) and known.code != "unknown-transaction":
            raise known
        belongs = (
            isinstance(known, Transaction)
            and known.producer_id == each.producer_id
            and each.partition in known.partitions
        )
        if not belongs:
            hanging.append(each)
    return hanging


def abort_transaction(metadata: ClusterMetadata, found: OpenTransaction, *, timeout_s: float) -> None:
    """Write the marker that aborts a transaction into its partition (WriteTxnMarkers, key 27).

    Raises YakError (`not-aborted`) when the leader does not answer, or refuses.
    """
    place = found.partition
    marker = {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": place.topic, "partition_indexes": [place.partition]}],
        "coordinator_epoch": max(0, found.coordinator_epoch),
    }
    answer = _ask_leaders(
        metadata,
        [place],
        _WRITE_TXN_MARKERS,
        lambda _some: {"markers": [marker]},
        lambda answer: [topic for marker in answer.markers for topic in marker.topics],
        timeout_s=timeout_s,
    )
    result = answer[place]
    what = f"the transaction at offset {found.start_offset} of {place} was not aborted"
    if isinstance(result, str):
        raise Unreachable("not-aborted", what, why=result, try_=("yak isr",))
    if result.error_code:
        raise YakError("not-aborted", what, why=failure(int(result.error_code), what).why)
