"""Markers and verification over fake connections: batches by leader, retries, deleted topics, fenced coordinators."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.contexts import StubContext
from yak.cluster.image import Image
from yak.cluster.records import BrokerState
from yak.coordination.verification import Verification
from yak.core.timers import Timers
from yak.errors import ErrorCode
from yak.ids import TopicPartition
from yak.limits import SLICE_ELEMENTS
from yak.partitions.transaction_markers import TxnMarker
from yak.protocol.codec import decode_request, encode_response
from yak.protocol.request_header import read_request_header
from yak.transactions.marker_sender import RETRY_MS, MarkerSender, PendingMarkers
from yak.transactions.records import TRANSACTION_TOPIC
from yak.transactions.transaction import PROTOCOL_2, ProducerIdAndEpoch

ME, OTHER = 1, 7
MARKER = TxnMarker(40, 3, 9, True, 2)
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = ProducerIdAndEpoch(40, 3)
NONE = ErrorCode.none


class Bench:
    """Two partitions, one led here and one by another broker, which answers when told to."""

    def __init__(self) -> None:
        self.timers, self.notices = Timers(), []
        self.clock = SimpleNamespace(now_ms=1_000)
        self.set_leaders(ME, OTHER)
        self.context: Any = StubContext(
            clock=self.clock,
            image=self.image,
            timers=self.timers,
            notice=lambda *args, **_: self.notices.append(args[1]),
        )
        self.owner: Any = None
        self.requests: list[tuple[int, Any, int]] = []
        self.written: list[tuple[TopicPartition, TxnMarker]] = []
        self.local_codes: list[ErrorCode] = []
        self.done: list[bool] = []
        self.rng = SimpleNamespace(below=lambda _bound: 0)
        self.suspect = lambda _node_id: None

    def set_leaders(self, *leaders: int) -> None:
        partitions = [SimpleNamespace(leader=leader) for leader in leaders]
        topics = {
            "t": SimpleNamespace(partitions=partitions),
            TRANSACTION_TOPIC: SimpleNamespace(partitions=partitions[:1]),
        }
        self.image = Image(topics=topics, brokers={OTHER: SimpleNamespace(boot_id="b", state=BrokerState.ACTIVE)})
        if hasattr(self, "context"):
            self.context.image = self.image

    # the log
    def write(self, topic_partition, marker, then) -> None:
        self.written.append((topic_partition, marker))
        then(self.local_codes.pop(0) if self.local_codes else NONE)

    # the connections
    def open(self, _info, owner) -> int:
        self.owner = owner
        return 1

    def connect(self) -> None:
        self.owner.on_connected(1)
        self.owner.on_proven(1)

    def send(self, _peer_id, parts) -> None:
        frame = memoryview(b"".join(parts)[4:])
        header = read_request_header(frame)
        body = decode_request(header.api_key, header.api_version, frame, header.body_offset)
        self.requests.append((header.api_key, body, header.correlation_id))

    def close(self, _peer_id) -> None:
        pass

    def answer(self, version: int, **fields) -> None:
        key, _body, number = self.requests[-1]
        frame = b"".join(bytes(part) for part in encode_response(key, version, number, fields))
        self.owner.on_answer(1, memoryview(frame)[4:])

    def answer_markers(self, code: ErrorCode) -> None:
        topics = [{"name": "t", "partitions": [{"partition_index": 1, "error_code": code}]}]
        self.answer(2, markers=[{"producer_id": 40, "topics": topics}])

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        self.timers.run_due(self.clock.now_ms)

    def markers(self, *places: TopicPartition) -> PendingMarkers:
        return PendingMarkers("tx", MARKER, set(places), lambda: self.done.append(True))


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def sender(bench) -> MarkerSender:
    return MarkerSender(bench.context, bench, ME, bench)


def test_a_marker_for_a_partition_led_here_is_written_at_once(bench, sender):
    sender.send(bench.markers(HERE))
    assert bench.written == [(HERE, MARKER)]
    assert bench.done == [True]
    sender.send(bench.markers())
    assert bench.done == [True, True]


def test_markers_are_sent_to_the_leader_and_done_with_the_last_answer(bench, sender):
    sender.send(bench.markers(HERE, THERE))
    assert not bench.requests
    bench.connect()
    ((key, body, _number),) = bench.requests
    marker = body.markers[0]
    assert (key, marker.producer_id, marker.producer_epoch, marker.transaction_result) == (27, 40, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (9, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", (1,))]
    assert not bench.done
    bench.answer_markers(NONE)
    assert bench.done == [True]


def test_markers_that_wait_for_a_lost_leader_are_sent_to_its_successor(bench, sender):
    places = [TopicPartition("t", index) for index in range(1_200)]
    bench.set_leaders(*[OTHER] * len(places))
    sender.send(bench.markers(*places))
    bench.connect()
    assert len(bench.requests) == 2, "500 markers each; the others wait"
    bench.set_leaders(*[ME] * len(places))
    bench.owner.on_lost(1, "closed", "the peer closed the connection")
    for wait_ms in (RETRY_MS, 0, 0):
        bench.pass_ms(wait_ms)
    assert len(bench.written) == len(places)
    assert bench.done == [True]


def test_markers_of_many_partitions_led_here_are_written_in_steps(bench, sender):
    places = [TopicPartition("t", index) for index in range(2 * SLICE_ELEMENTS + 1)]
    bench.set_leaders(*[ME] * len(places))
    bench.local_codes = [ErrorCode.not_enough_replicas] * SLICE_ELEMENTS
    sender.send(bench.markers(*places))
    for count in (SLICE_ELEMENTS, 2 * SLICE_ELEMENTS, len(places), len(places)):
        assert [place for place, _marker in bench.written] == places[:count]
        bench.pass_ms(0)
    bench.pass_ms(RETRY_MS)
    assert [place for place, _marker in bench.written[len(places) :]] == places[:SLICE_ELEMENTS]
    assert bench.done == [True]


def test_a_failed_marker_is_sent_again_to_the_present_leader(bench, sender):
    sender.send(bench.markers(THERE))
    bench.connect()
    bench.answer_markers(ErrorCode.not_leader_or_follower)
    bench.set_leaders(ME, ME)
    bench.pass_ms(RETRY_MS)
    assert bench.written == [(THERE, MARKER)]
    assert bench.done == [True]


def test_a_marker_whose_answer_was_lost_is_sent_again(bench, sender):
    sender.send(bench.markers(THERE))
    bench.connect()
    bench.owner.on_lost(1, "reset", "")
    bench.pass_ms(2_000)
    bench.connect()
    assert len(bench.requests) == 2
    bench.answer_markers(NONE)
    assert bench.done == [True]


def test_a_marker_waits_for_a_leader_that_is_not_registered(bench, sender):
    bench.set_leaders(ME, 99)
    sender.send(bench.markers(THERE))
    bench.pass_ms(RETRY_MS)
    assert not bench.done
    bench.set_leaders(ME, ME)
    bench.pass_ms(RETRY_MS)
    assert bench.done == [True]


def test_a_marker_of_a_deleted_partition_is_not_awaited(bench, sender):
    sender.send(bench.markers(TopicPartition("gone", 0), TopicPartition("t", 5)))
    assert bench.done == [True]
    assert not bench.written


@pytest.mark.parametrize("code", [ErrorCode.transaction_coordinator_fenced, ErrorCode.invalid_producer_epoch])
def test_a_fenced_coordinator_stops(bench, sender, code):
    bench.local_codes = [code]
    sender.send(bench.markers(HERE))
    bench.pass_ms(10 * RETRY_MS)
    assert not bench.done
    assert len(bench.written) == 1
    assert bench.notices == ["transaction-markers-fenced"]


def test_markers_gather_while_two_requests_are_under_way(bench, sender):
    for _ in range(5):
        sender.send(bench.markers(THERE))
    bench.connect()
    assert [len(body.markers) for _key, body, _number in bench.requests] == [1, 1]


def test_a_cancelled_transaction_is_retried_no_more(bench, sender):
    bench.local_codes = [ErrorCode.not_enough_replicas]
    pending = bench.markers(HERE)
    sender.send(pending)
    pending.is_over = True
    bench.pass_ms(10 * RETRY_MS)
    assert len(bench.written) == 1


class Coordinator:
    def __init__(self) -> None:
        self.code = NONE
        self.asked: list[tuple[str, int]] = []

    def verify(self, transactional_id, producer, partition, then) -> None:
        self.asked.append(("verify", 0))
        then(self.code)

    def add_partitions(self, transactional_id, producer, partitions, client_version, then) -> None:
        self.asked.append(("add", client_version))
        then(self.code)


def verified(bench, code: ErrorCode, version: int) -> tuple[ErrorCode, list[tuple[str, int]]]:
    here = Coordinator()
    here.code = code
    codes: list[ErrorCode] = []
    Verification(bench.context, bench, ME, here).verify(HERE, "tx", PRODUCER, version, codes.append)
    return codes[0], here.asked


def test_verification_calls_the_local_coordinator_by_protocol(bench):
    assert verified(bench, NONE, 11) == (NONE, [("verify", 0)])
    assert verified(bench, NONE, 12) == (NONE, [("add", PROTOCOL_2)])


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.producer_fenced, 11, ErrorCode.invalid_producer_epoch),
        (ErrorCode.transaction_abortable, 10, ErrorCode.invalid_txn_state),
        (ErrorCode.transaction_abortable, 11, ErrorCode.transaction_abortable),
        (ErrorCode.concurrent_transactions, 11, ErrorCode.not_enough_replicas),
        (ErrorCode.concurrent_transactions, 12, ErrorCode.concurrent_transactions),
        (ErrorCode.not_coordinator, 12, ErrorCode.not_enough_replicas),
        (ErrorCode.coordinator_load_in_progress, 9, ErrorCode.not_enough_replicas),
        (ErrorCode.invalid_producer_id_mapping, 9, ErrorCode.invalid_producer_id_mapping),
    ],
)
def test_verification_gives_the_client_an_error_that_its_version_knows(bench, code, version, expected):
    assert verified(bench, code, version)[0] == expected


@pytest.mark.parametrize(("version", "verify_only"), [(11, True), (12, False)])
def test_verification_sends_a_request_to_another_broker(bench, version, verify_only):
    bench.set_leaders(OTHER, ME)
    codes: list[ErrorCode] = []
    Verification(bench.context, bench, ME, Coordinator()).verify(THERE, "tx", PRODUCER, version, codes.append)
    bench.connect()
    key, body, _number = bench.requests[0]
    asked = body.transactions[0]
    assert (key, asked.transactional_id, asked.producer_id, asked.verify_only) == (24, "tx", 40, verify_only)
    result = {"partition_index": 1, "partition_error_code": ErrorCode.transaction_abortable}
    topics = [{"name": "t", "results_by_partition": [result]}]
    bench.answer(5, error_code=0, results_by_transaction=[{"transactional_id": "tx", "topic_results": topics}])
    assert codes == [ErrorCode.transaction_abortable]


def test_verification_without_a_coordinator_or_an_answer_is_retried_by_the_client(bench):
    codes: list[ErrorCode] = []
    verification = Verification(bench.context, bench, ME, Coordinator())
    bench.set_leaders(99, ME)
    verification.verify(THERE, "tx", PRODUCER, 11, codes.append)
    bench.set_leaders(OTHER, ME)
    verification.verify(THERE, "tx", PRODUCER, 11, codes.append)
    bench.connect()
    bench.owner.on_lost(1, "closed", "")
    bench.image.topics.clear()
    verification.verify(THERE, "tx", PRODUCER, 11, codes.append)
    assert codes == [ErrorCode.not_enough_replicas] * 3
