"""Quotas in force: answers have a throttle time, channels are muted, brokers and this process are not throttled."""

import datetime as dt
import itertools

import pytest
from kio.schema.errors import ErrorCode

from tests.unit.broker.raw_connection import RawConnection
from yak.broker.apis import API_TABLE
from yak.broker.call import Call
from yak.broker.connections import Connection
from yak.core import events
from yak.protocol.codec import encode_response
from yak.protocol.peer_proof import Incarnation
from yak.quotas.quota_types import QuotaType
from yak.sim.request_fields import create_fields, fetch_fields, frame_of, produce_fields
from yak.sim.wire import read_answer, record_batch

RECORDS = [b"x" * 1_000] * 20
NOTHING = dt.timedelta()


def set_quota(rig, entity, quota, value):
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    ops = [{"key": quota, "value": value, "remove": False}]
    answer = rig.ask(49, 1, client=rig.new_client(), entries=[{"entity": parts, "ops": ops}])
    assert answer.entries[0].error_code == ErrorCode.none


def throttling(rig):
    return rig.node.broker.throttling


def produce_frame(rig, correlation_id=1, client_id="sim", acks=-1, version=9):
    fields = produce_fields("orders", record_batch(RECORDS, rig.world.now_ms), acks=acks)
    return memoryview(frame_of(0, version, correlation_id, fields, client_id))


def produced(rig, **more):
    return rig.ask(0, 9, **produce_fields("orders", record_batch(RECORDS, rig.world.now_ms)), **more)


def ms(duration):
    return duration // dt.timedelta(milliseconds=1)


@pytest.mark.parametrize("entity", [{"client-id": "sim"}, {"user": None}, {"user": "ANONYMOUS", "client-id": None}])
def test_produce_beyond_the_quota_is_answered_at_once_and_mutes_the_channel(rig, entity):
    set_quota(rig, entity, "producer_byte_rate", 1_600)
    pending = rig.begin(0, 9, **produce_fields("orders", record_batch(RECORDS, rig.world.now_ms)))
    behind = rig.begin(18, 3, client_software_name="x", client_software_version="1")
    rig.run_for(100)
    throttle_ms = ms(pending.answer.throttle_time)
    size = len(produce_frame(rig))
    # X = (O - T) / T * W, with O = size / 10 s
    assert throttle_ms == pytest.approx((size / 10 - 1_600) / 1_600 * 10_000, abs=1)
    assert pending.answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    assert len(throttling(rig)) == 1
    rig.run_for(throttle_ms - 200)
    assert not behind.is_done
    rig.run_for(200)
    assert behind.answer.error_code == ErrorCode.none
    assert len(throttling(rig)) == 0
    counts = throttling(rig).counts[QuotaType.PRODUCE]
    assert (counts.count, counts.throttle_ms) == (1, throttle_ms)


def test_produce_within_its_quota_or_of_another_client_id_is_not_throttled(rig):
    set_quota(rig, {"client-id": "other"}, "producer_byte_rate", 1)
    assert produced(rig).throttle_time == NOTHING
    set_quota(rig, {"client-id": "sim"}, "producer_byte_rate", 100_000)
    assert produced(rig).throttle_time == NOTHING


def test_rate_of_a_throttled_producer_is_the_quota(rig):
    set_quota(rig, {"client-id": "sim"}, "producer_byte_rate", 50_000)
    started_ms, size = rig.world.now_ms, len(produce_frame(rig))
    for _ in range(500):
        produced(rig)
    rate = 500 * size / (rig.world.now_ms - started_ms) * 1000
    assert rate == pytest.approx(50_000, rel=0.1)


@pytest.mark.parametrize("version", [3, 5, 8, 9, 12])
def test_every_version_of_produce_has_the_throttle_time(rig, version):
    set_quota(rig, {"client-id": "sim"}, "producer_byte_rate", 1_000)
    connection = RawConnection(rig)
    connection.send(bytes(produce_frame(rig, version=version)))
    rig.run_for(50)
    assert ms(read_answer(0, version, connection.answers[0])[1].throttle_time) > 1_000


def test_produce_without_answer_mutes_the_channel(rig):
    set_quota(rig, {"client-id": "sim"}, "producer_byte_rate", 1_000)
    frame = bytes(produce_frame(rig, acks=0))
    RawConnection(rig).send(frame, frame)
    rig.run_for(100)
    end = rig.node.broker.partitions["orders", 0].log.log_end_offset
    assert end == len(RECORDS)
    rig.run_for(20_000)
    assert rig.node.broker.partitions["orders", 0].log.log_end_offset == 2 * end


def test_closing_a_muted_channel_forgets_it(rig):
    set_quota(rig, {"client-id": "sim"}, "producer_byte_rate", 1_000)
    produced(rig)
    rig.client.close()
    rig.run_for(10)
    assert len(throttling(rig)) == 0
    rig.run_for(30_000)


# ------------------------------------------------------------------------------------------------------------- fetch


def test_fetch_beyond_the_quota_is_empty_and_does_not_count(rig):
    produced(rig)
    set_quota(rig, {"client-id": "sim"}, "consumer_byte_rate", 3_500)
    first = rig.ask(1, 12, **fetch_fields("orders", 0))
    assert first.throttle_time == NOTHING
    assert len(first.responses[0].partitions[0].records) > 20_000
    throttled = rig.ask(1, 12, **fetch_fields("orders", 0))
    assert throttled.responses == ()
    throttle_ms = ms(throttled.throttle_time)
    assert 1_000 < throttle_ms < 2_000
    again = rig.begin(1, 12, **fetch_fields("orders", 0))
    rig.run_for(throttle_ms - 200)
    assert not again.is_done
    rig.run_for(15_000)
    assert again.is_done


def test_fetch_is_bounded_by_the_quota_so_that_it_is_served_at_all(rig):
    for _ in range(5):
        produced(rig)
    set_quota(rig, {"client-id": "sim"}, "consumer_byte_rate", 3_000)
    answer = rig.ask(1, 12, **fetch_fields("orders", 0))
    assert answer.throttle_time == NOTHING
    assert 20_000 < len(answer.responses[0].partitions[0].records) <= 30_000


def session_fetch(rig, session_id, epoch, topics):
    fields = {**fetch_fields("orders", 0), "session_id": session_id, "session_epoch": epoch}
    return rig.ask(1, 12, **{**fields, "topics": fields["topics"] if topics else []})


def test_throttled_fetch_keeps_its_session_and_its_records_come_later(rig):
    produced(rig)
    opened = session_fetch(rig, 0, 0, True)
    assert opened.session_id
    set_quota(rig, {"client-id": "sim"}, "consumer_byte_rate", 3_000)
    throttled = session_fetch(rig, opened.session_id, 1, True)
    assert (throttled.session_id, throttled.throttle_time) == (opened.session_id, NOTHING)
    throttled = session_fetch(rig, opened.session_id, 2, True)
    assert (throttled.session_id, throttled.responses) == (opened.session_id, ())
    assert throttled.throttle_time > NOTHING
    rig.run_for(20_000)
    later = session_fetch(rig, opened.session_id, 3, False)
    assert len(later.responses[0].partitions[0].records) > 20_000


def test_throttled_full_fetch_begins_no_session(rig):
    produced(rig)
    set_quota(rig, {"client-id": "sim"}, "consumer_byte_rate", 3_000)
    assert session_fetch(rig, 0, -1, True).throttle_time == NOTHING
    throttled = session_fetch(rig, 0, 0, True)
    assert (throttled.session_id, throttled.responses) == (0, ())
    assert throttled.throttle_time > NOTHING
    assert len(rig.node.broker.sessions) == 0


# ------------------------------------------------------------------------------------------------------ request time


def test_request_time_beyond_the_quota_throttles_any_request_for_a_second_at_most(rig):
    clock_ns = itertools.count(0, 5_000_000)
    throttling(rig).processor_ns = lambda: next(clock_ns)
    set_quota(rig, {"user": "ANONYMOUS"}, "request_percentage", 0.5)
    times = [rig.ask(60, 1).throttle_time for _ in range(20)]
    assert times[0] == NOTHING
    assert 0 < ms(max(times)) <= 1_000
    set_quota(rig, {"user": "ANONYMOUS"}, "request_percentage", 0.01)
    assert ms(rig.ask(60, 1).throttle_time) == 1_000
    assert throttling(rig).counts[QuotaType.REQUEST].count >= 1
    assert ms(produced(rig).throttle_time) == 1_000
    assert ms(rig.ask(1, 12, **fetch_fields("orders", 0)).throttle_time) == 1_000


@pytest.mark.parametrize("limit", [5e-324, 1e-310])
def test_clients_with_almost_no_request_time_are_throttled_and_can_raise_their_quota(rig, limit):
    clock_ns = itertools.count(0, 5_000_000)
    throttling(rig).processor_ns = lambda: next(clock_ns)
    set_quota(rig, {"user": None}, "request_percentage", limit)
    assert ms(rig.ask(60, 1).throttle_time) == 1_000
    set_quota(rig, {"user": None}, "request_percentage", 100)


@pytest.mark.parametrize(("limit", "is_throttled"), [(5e-324, True), (1.7976931348623157e308, False)])
def test_any_limit_of_mutations_that_can_be_set_is_in_force(rig, limit, is_throttled):
    set_quota(rig, {"client-id": "sim"}, "controller_mutation_rate", limit)
    assert create(rig, "a", 7)[0] == ErrorCode.none
    assert (create(rig, "b", 7)[0] == ErrorCode.throttling_quota_exceeded) == is_throttled


def test_time_of_a_request_that_another_completes_is_counted_once(rig):
    clock_ns = [0]
    throttling(rig).processor_ns = lambda: clock_ns[0]
    set_quota(rig, {"user": "ANONYMOUS"}, "request_percentage", 100)
    recorded = []
    record = throttling(rig).quotas.record
    throttling(rig).quotas.record = lambda quota, *of: recorded.append(of[-1]) or record(quota, *of)
    connection = rig.node.broker.connections[rig.client.connection_id]
    frame = produce_frame(rig)

    def inner(_connection, _request):
        clock_ns[0] += 2_000_000

    def outer(_connection, _request):
        clock_ns[0] += 1_000_000
        throttling(rig).serve(connection, frame, inner)
        clock_ns[0] += 4_000_000

    throttling(rig).serve(connection, frame, outer)
    assert recorded == pytest.approx([0.2, 0.5])


def test_every_answer_can_be_throttled_in_every_version(rig):
    connection = Connection(1, "10.0.0.1:1")
    throttling(rig).set_quotas({"user=ANONYMOUS": {"request_percentage": "0.001"}})
    clock_ns = itertools.count(0, 10**9)
    throttling(rig).processor_ns = lambda: next(clock_ns)
    throttled = set()
    for api_key, version in API_TABLE.handlers:
        call = Call(connection, api_key, version, 1, "sim", rig.world.now_ms)
        fields = throttling(rig).throttled_fields(call, {})
        encode_response(api_key, version, 1, fields)
        throttled |= {api_key} if fields else set()
    assert throttled >= {0, 1, 2, 3, 8, 9, 10, 11, 18, 19, 20, 22, 48, 49, 60, 68}
    assert not throttled & {17, 36}
    handshake = Call(other := Connection(2, "10.0.0.2:1"), 17, 1, 1, "sim", rig.world.now_ms)
    throttling(rig).throttled_fields(handshake, {})
    assert other not in throttling(rig)._muted


# --------------------------------------------------------------------------------------------- controller mutations


def create(rig, name, version, partitions=30):
    answer = rig.ask(19, version, **create_fields(name, {}, partitions))
    return answer.topics[0].error_code, ms(answer.throttle_time)


def test_mutations_beyond_the_quota_are_refused_or_throttled_by_version(rig):
    set_quota(rig, {"client-id": "sim"}, "controller_mutation_rate", 2)
    assert create(rig, "a", 7) == (ErrorCode.none, 0)
    error, throttle_ms = create(rig, "b", 7)
    assert error == ErrorCode.throttling_quota_exceeded
    assert 3_000 < throttle_ms <= 4_000
    assert len(throttling(rig)) == 0
    assert "b" not in rig.node.broker.image.topics
    deleted = rig.ask(20, 6, topics=[{"name": "a"}])
    assert deleted.responses[0].error_code == ErrorCode.throttling_quota_exceeded
    grown = rig.ask(37, 3, topics=[{"name": "a", "count": 31}])
    assert grown.results[0].error_code == ErrorCode.throttling_quota_exceeded
    error, throttle_ms = create(rig, "b", 5, partitions=1)
    assert error == ErrorCode.none
    assert throttle_ms > 3_000
    assert len(throttling(rig)) == 1
    rig.run_for(6_000)
    assert create(rig, "c", 7) == (ErrorCode.none, 0)


# ---------------------------------------------------------------------------------------------------------- exempt


@pytest.mark.parametrize("kind", ["broker", "in process"])
def test_brokers_and_this_process_are_not_throttled(rig, kind):
    for quota in ("producer_byte_rate", "consumer_byte_rate", "request_percentage"):
        set_quota(rig, {"user": None}, quota, 1)
    broker, connection_id = rig.node.broker, 1_000
    broker.step(
        events.ConnectionOpened(connection_id, "10.0.0.1:1", is_in_process=kind == "in process"), rig.world.now_ms
    )
    if kind == "broker":
        broker.connections[connection_id].proven = Incarnation(2, 1, "boot")
    effects = broker.step(events.FrameReceived(connection_id, produce_frame(rig)), rig.world.now_ms)
    effects += broker.step(events.TurnEnd(), rig.world.now_ms)
    assert not [each for each in effects if isinstance(each, events.MuteConnection)]
    (reply,) = (each for each in effects if isinstance(each, events.Reply))
    assert read_answer(0, 9, b"".join(map(bytes, reply.parts)))[1].throttle_time == NOTHING


# ------------------------------------------------------------------------------------------------------- connections


class Opened:
    """Connections of one ip, straight at the broker."""

    def __init__(self, rig):
        self.rig, self.last = rig, 5_000
        self.now_ms = rig.world.now_ms

    def open(self, peer="10.0.0.7:4000"):
        self.last += 1
        self.step(events.ConnectionOpened(self.last, peer))
        return self.last

    def step(self, event):
        return self.rig.node.broker.step(event, self.now_ms)

    def after(self, passed_ms):
        self.now_ms += passed_ms
        return self.step(events.TimerDue())


@pytest.fixture
def opened(rig):
    set_quota(rig, {"ip": "10.0.0.7"}, "connection_creation_rate", 1)
    opened = Opened(rig)
    for _ in range(10):
        opened.open()
    return opened


def kinds(effects):
    return [type(each) for each in effects if not isinstance(each, events.Notice)]


def test_connection_beyond_the_rate_of_its_ip_is_muted_by_a_request_and_closed_later(rig, opened):
    over = opened.open()
    assert kinds(opened.step(events.FrameReceived(over, produce_frame(rig)))) == [events.MuteConnection]
    assert events.CloseConnection not in kinds(opened.after(900))
    assert events.CloseConnection in kinds(opened.after(200))
    assert rig.node.broker.partitions["orders", 0].log.log_end_offset == 0
    assert throttling(rig).counts[QuotaType.CONNECTION].count == 1


def test_silent_connection_beyond_the_rate_is_closed_and_others_are_served(rig, opened):
    opened.open()
    assert events.CloseConnection in kinds(opened.after(1_001))
    other = opened.open("[::1]:5000")
    opened.step(events.FrameReceived(other, produce_frame(rig)))
    assert rig.node.broker.partitions["orders", 0].log.log_end_offset == len(RECORDS)


def test_broker_beyond_the_rate_of_its_ip_proves_itself_and_stays(rig, opened):
    over = opened.open()
    handshake = frame_of(17, 1, 1, {"mechanism": "PLAIN"})
    assert events.MuteConnection not in kinds(opened.step(events.FrameReceived(over, memoryview(handshake))))
    rig.node.broker.connections[over].proven = Incarnation(2, 1, "boot")
    opened.step(events.FrameReceived(over, produce_frame(rig)))
    assert rig.node.broker.partitions["orders", 0].log.log_end_offset == len(RECORDS)
    assert events.CloseConnection not in kinds(opened.after(2_000))


def test_refused_connection_that_closes_is_forgotten(rig, opened):
    over = opened.open()
    opened.step(events.FrameReceived(over, produce_frame(rig)))
    opened.step(events.ConnectionClosed(over))
    assert events.CloseConnection not in kinds(opened.after(2_000))
    assert len(throttling(rig)) == 0
