"""What the reader does when things go wrong at the broker: each case is told to a scripted one."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from columnar_support.batch_bytes import Record, batch, marker
from columnar_support.scripted_broker import CLOSE, ScriptedBroker, fetched, throttled

from yak.spark.columnar import partition_fetch
from yak.spark.columnar.read import read
from yak.spark.columnar.schema import (
    READ_COMMITTED,
    DataLoss,
    NotReadable,
    OffsetRange,
    ReadSettings,
    UnsupportedSetting,
    arrow_schema,
)
from yak.spark.columnar.wire import LIST_OFFSETS, AbortedRange

pytestmark = pytest.mark.timeout(30)
TEN = [batch(offset, [Record(0, b"%d" % offset)]) for offset in range(10)]


def ten(offset: int) -> bytes:
    """Records 0 to 9, three an answer."""
    return fetched(b"".join(TEN[offset : offset + 3]), high_watermark=10)


def in_turn(*answers: bytes) -> Iterator[bytes]:
    return iter(answers)


def offsets(broker: ScriptedBroker, start: int = 0, end: int = 10, **more: object) -> list[int]:
    settings = ReadSettings(**{"bootstrap": broker.bootstrap, "timeout_ms": 3000} | more)
    batches = list(read(OffsetRange("t", 0, start, end), settings))
    assert all(each.schema == arrow_schema(False) and each.num_rows for each in batches)
    return [offset for each in batches for offset in each["offset"].to_pylist()]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_fetch, "GONE_PATIENCE_S", 0.3)


def test_answers_are_read_one_after_another_up_to_the_end():
    with ScriptedBroker(ten) as broker:
        assert offsets(broker) == list(range(10))
        assert [offset for offset, _ in broker.requests] == [0, 3, 6, 9]
        assert offsets(broker, 4, 6) == [4, 5]


def test_empty_range_sends_no_fetch():
    with ScriptedBroker(ten) as broker:
        assert offsets(broker, 5, 5) == []
        assert not broker.connections


def test_batches_have_the_requested_number_of_rows():
    with ScriptedBroker(ten) as broker:
        settings = ReadSettings(broker.bootstrap, batch_rows=4)
        assert [each.num_rows for each in read(OffsetRange("t", 0, 0, 10), settings)] == [4, 2, 4]


def test_a_range_that_ends_in_a_hole_ends():
    """Compaction took offsets 3 to 9; an empty batch says so, or the next record does."""
    emptied = fetched(TEN[0] + batch(1, [Record(0)], last_offset_delta=8), high_watermark=10)
    with ScriptedBroker(lambda _: emptied) as broker:
        assert offsets(broker) == [0, 1]
    beyond = fetched(TEN[2] + batch(50, [Record(0)]))
    with ScriptedBroker(lambda _: beyond) as broker:
        assert offsets(broker) == [2]


@pytest.mark.parametrize("error", [5, 6, 9, 74, 75, 78, -1])
def test_an_error_that_passes_is_waited_for(error):
    answers = in_turn(ten(0), fetched(error=error), fetched(error=error))
    with ScriptedBroker(lambda offset: next(answers, None) or ten(offset)) as broker:
        assert offsets(broker) == list(range(10))


def test_throttled_reader_fetches_again_over_its_connection():
    answers = in_turn(ten(0), throttled(100), throttled(100))
    with ScriptedBroker(lambda offset: next(answers, None) or ten(offset)) as broker:
        assert offsets(broker) == list(range(10))
        assert [offset for offset, _ in broker.requests] == [0, 3, 3, 3, 6, 9]
    with ScriptedBroker(lambda _: throttled(0)) as broker, pytest.raises(NotReadable):
        offsets(broker)


def test_a_leader_that_moves_is_followed():
    with ScriptedBroker(ten) as after, ScriptedBroker(lambda _: fetched(error=6)) as before:
        moved = in_turn(ten(0))

        def fetch(_: int) -> bytes:
            answer = next(moved, None)
            if answer is None:
                before.leader_port = after.port
            return answer or fetched(error=6)

        before.fetch = fetch
        assert offsets(before) == list(range(10))
        assert [offset for offset, _ in after.requests] == [3, 6, 9]


def test_a_lost_connection_is_made_again():
    answers = in_turn(ten(0), CLOSE, CLOSE)
    with ScriptedBroker(lambda offset: next(answers, None) or ten(offset)) as broker:
        assert offsets(broker) == list(range(10))


def test_a_dead_bootstrap_broker_does_not_matter():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ScriptedBroker(ten) as broker:
        assert offsets(broker, bootstrap=f"127.0.0.1:{port}, {broker.bootstrap}") == list(range(10))


def test_no_broker_at_all_ends_in_time():
    with socket.create_server(("127.0.0.1", 0)) as free:
        bootstrap = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(NotReadable, match="gave nothing from offset 0") as raised:
        list(read(OffsetRange("t", 0, 0, 1), ReadSettings(bootstrap, timeout_ms=200)))
    assert "refused" in raised.value.why


def test_a_broker_that_says_nothing_ends_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ReadSettings(f"127.0.0.1:{silent.getsockname()[1]}", timeout_ms=300)
        with pytest.raises(NotReadable) as raised:
            list(read(OffsetRange("t", 0, 0, 1), settings))
    assert "timed out" in raised.value.why


def test_records_that_retention_took_are_lost():
    def fetch(offset: int) -> bytes:
        return ten(offset) if offset >= 4 else fetched(error=1)

    with ScriptedBroker(fetch, earliest=4, latest=10) as broker:
        with pytest.raises(DataLoss) as raised:
            offsets(broker)
        assert (raised.value.start, raised.value.earliest) == (0, 4)
        assert "log begins at offset 4" in raised.value.why
        assert offsets(broker, fail_on_data_loss=False) == [4, 5, 6, 7, 8, 9]
        assert offsets(broker, 0, 3, fail_on_data_loss=False) == []


def test_records_that_never_come_are_lost():
    """The log is shorter than it was: a topic made again under the same name."""

    def fetch(offset: int) -> bytes:
        return ten(offset) if offset <= 10 else fetched(error=1)

    with ScriptedBroker(fetch, latest=10) as broker:
        for start in (8, 12):
            with pytest.raises(DataLoss, match=f"from offset {max(start, 10)} on are gone"):
                offsets(broker, start, 20)
        assert offsets(broker, 8, 20, fail_on_data_loss=False) == [8, 9]
        assert offsets(broker, 12, 20, fail_on_data_loss=False) == []


def test_truncated_log_that_grows_again_gives_no_record_before_the_range():
    """The range was planned before the truncation. What is written now has lower offsets, and belongs to a later range."""

    def fetch(offset: int) -> bytes:
        return fetched(error=1) if offset > 10 else ten(offset) if offset < 10 else fetched(batch(10, [Record(0)]))

    with ScriptedBroker(fetch, latest=10) as broker:
        assert offsets(broker, 12, 20, fail_on_data_loss=False) == []
        with pytest.raises(DataLoss) as raised:
            offsets(broker, 12, 20)
        assert raised.value.earliest is None


def test_a_high_watermark_that_lags_is_waited_for():
    """After an election the new leader's may be behind for a moment."""
    answers = in_turn(ten(0), fetched(high_watermark=3), fetched(high_watermark=3))
    with ScriptedBroker(lambda offset: next(answers, None) or ten(offset)) as broker:
        assert offsets(broker) == list(range(10))


def test_a_deleted_topic_is_lost():
    with ScriptedBroker(ten, metadata_error=3) as broker:
        with pytest.raises(DataLoss, match="t-0") as raised:
            offsets(broker)
        assert raised.value.earliest is None
        assert offsets(broker, fail_on_data_loss=False) == []


def test_a_topic_that_may_not_be_read_is_an_error_at_once():
    with ScriptedBroker(ten, metadata_error=29) as broker, pytest.raises(NotReadable) as raised:
        offsets(broker)
    assert "not allowed" in raised.value.why


def test_batch_larger_than_a_response_is_fetched_whole():
    large = batch(0, [Record(0, b"x" * 5000)])

    def fetch(_: int) -> bytes:
        size = broker.requests[-1][1]
        return fetched(large if size >= len(large) else large[:size])

    with ScriptedBroker(fetch) as broker:
        assert offsets(broker, 0, 1, fetch_bytes=1000) == [0]
        assert [size for _, size in broker.requests] == [1000, len(large)]


def test_a_batch_that_never_comes_whole_is_an_error():
    with ScriptedBroker(lambda _: fetched(TEN[0][:40])) as broker, pytest.raises(NotReadable, match="cannot be read"):
        offsets(broker)


def test_read_committed_returns_committed_records_only():
    begun = batch(0, [Record(0), Record(1)], producer_id=9, is_transactional=True)
    answer = fetched(begun + marker(2, 9, is_commit=False) + TEN[3], aborted=(AbortedRange(9, 0),), high_watermark=4)
    with ScriptedBroker(lambda _: answer) as broker:
        assert offsets(broker, 0, 4, isolation=READ_COMMITTED) == [3]
        assert offsets(broker, 0, 4) == [0, 1, 3]
        assert broker.committed == [True, False]


def test_an_open_transaction_is_waited_for_until_the_time_is_over():
    with ScriptedBroker(lambda _: fetched(stable=0, high_watermark=9)) as broker, pytest.raises(NotReadable) as raised:
        offsets(broker, isolation=READ_COMMITTED, timeout_ms=100)
    assert "still open" in raised.value.why


def damaged(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    "answer",
    [
        fetched(damaged(TEN[0])),
        b"",
        fetched(TEN[0])[:-5],
        struct.pack(">ihii", 0, 0, 0, 1 << 30),
        struct.pack(">ihii", 0, 0, 0, 0),
    ],
    ids=["crc", "nothing", "cut", "a-billion-topics", "no-topic"],
)
def test_an_answer_that_makes_no_sense_is_an_error(answer):
    with ScriptedBroker(lambda _: answer) as broker, pytest.raises(NotReadable, match=r"damaged|no sense"):
        offsets(broker)


def test_answer_of_a_server_that_is_not_kafka_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        reading = read(OffsetRange("t", 0, 0, 1), ReadSettings(f"127.0.0.1:{server.getsockname()[1]}", timeout_ms=500))

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NotReadable, match="makes no sense"):
            list(reading)
        thread.join()


def test_a_broker_that_is_too_old_is_for_librdkafka():
    with ScriptedBroker(ten, fetch_versions=(0, 10)) as broker, pytest.raises(UnsupportedSetting, match="broker"):
        offsets(broker)


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"security.protocol": "SASL_SSL"}, "kafka.security.protocol"),
        ({"sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism"),
        ({"client.rack": "a"}, "kafka.client.rack"),
        ({"max.partition.fetch.bytes": "many"}, "kafka.max.partition.fetch.bytes"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "kafka.ssl.*"),
    ],
)
def test_settings_that_it_does_not_honour_are_refused_before_anything_is_sent(client, named):
    with ScriptedBroker(ten) as broker:
        with pytest.raises(UnsupportedSetting) as raised:
            offsets(broker, client=client)
        assert raised.value.setting == named
        assert not broker.connections


def test_settings_that_it_honours_do_something():
    client = {"max.partition.fetch.bytes": "70000", "group.id": "g", "Client.Id": "me"}
    with ScriptedBroker(ten) as broker:
        assert offsets(broker, client=client) == list(range(10))
        assert broker.requests[0] == (0, 70_000)


def test_a_bootstrap_that_is_no_address_is_refused():
    for bootstrap in ("", "host:port", ","):
        with pytest.raises(UnsupportedSetting, match="bootstrap"):
            read(OffsetRange("t", 0, 0, 1), ReadSettings(bootstrap))


def test_leaving_early_closes_the_connection():
    with ScriptedBroker(ten) as broker:
        reading = read(OffsetRange("t", 0, 0, 10), ReadSettings(broker.bootstrap, batch_rows=1))
        assert next(reading)["offset"].to_pylist() == [0]
        reading.close()
        assert list(reading) == []


def test_topic_that_two_brokers_do_not_know_one_after_the_other_is_not_lost():
    """Both have just restarted. Between their answers the partition has no leader, for longer than the patience."""
    answers = in_turn(ten(0), *(fetched(error=code) for code in (3, 5, 5, 5, 3)))
    with ScriptedBroker(lambda offset: next(answers, None) or ten(offset)) as broker:
        assert offsets(broker, fail_on_data_loss=False) == list(range(10))


def test_list_of_offsets_that_makes_no_sense_is_an_error():
    class Malformed(ScriptedBroker):
        def _answer(self, request: bytes) -> bytes:
            return b"" if request[:2] == struct.pack(">h", LIST_OFFSETS) else super()._answer(request)

    with Malformed(lambda _: fetched(error=1)) as broker, pytest.raises(NotReadable, match="makes no sense"):
        offsets(broker)
