"""What a sender makes of delivery reports, without a broker."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.messages import kafka_message
from yak.client.errors import from_exception, from_kafka, was_written
from yak.client.produce import FEW, Outgoing, RecordSender, open_producer, producer_settings
from yak.errors import Unreachable, UsageError, YakError


@pytest.fixture
def sender():
    return RecordSender("t", open_producer(producer_settings("127.0.0.1:1")))


def test_acknowledgements_are_counted_by_partition_and_the_first_few_stored(sender):
    for number in range(FEW + 5):
        sender._delivered(number, None, kafka_message("t", number % 2, number // 2))
    counts = sender.counts
    assert counts.acknowledged == FEW + 5
    assert len(counts.few) == FEW
    span = counts.spans["t", 0]
    assert (span.records, span.first_offset, span.last_offset) == (8, 0, 7)
    assert sender.prefix.length == FEW + 5


def test_failures_say_whether_the_record_may_be_written(sender):
    sender._delivered(0, KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), None)
    sender._delivered(1, KafkaError(KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND), None)
    sender._delivered(2, KafkaError(KafkaError._MSG_TIMED_OUT), None)
    counts = sender.counts
    assert (counts.failed, counts.not_written, counts.unknown) == (3, 1, 2)
    assert counts.failures[0].error.code == "not-enough-replicas"
    assert sender.prefix.length == 0


def test_a_record_that_cannot_be_queued_is_a_failure_of_its_own():
    sender = RecordSender("t", open_producer(producer_settings("127.0.0.1:1") | {"message.max.bytes": 1000}))
    sender.send(Outgoing(value=b"x" * 2000))
    assert (sender.counts.failed, sender.counts.not_written) == (1, 1)
    assert sender.counts.failures[0].error.code == "record-too-large"


class InterruptedProducer:
    """Queues a record; Ctrl+C comes as it returns."""

    def produce(self, *_: object, **_options: object) -> None:
        raise KeyboardInterrupt


class FullProducer:
    """Has no room."""

    def produce(self, *_: object, **_options: object) -> None:
        raise BufferError


def test_interrupted_send_counts_as_sent_and_one_without_room_does_not():
    sender = RecordSender("t", InterruptedProducer())
    with pytest.raises(KeyboardInterrupt):
        sender.send(Outgoing(value=b"x"))
    sender._delivered(0, None, kafka_message("t", 0, 0))
    assert (sender.counts.sent, sender.counts.acknowledged) == (1, 1)
    sender = RecordSender("t", FullProducer())
    assert not sender.try_send(Outgoing(value=b"x"))
    assert sender.counts.sent == 0


def test_codecs_that_do_not_exist_are_refused():
    with pytest.raises(UsageError):
        open_producer(producer_settings("127.0.0.1:1", compression="rar"))


def test_errors_carry_kafkas_number_and_our_slug():
    error = from_kafka(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS), "not created")
    assert (error.code, error.exit_code, error.kafka_code) == ("topic-exists", 1, 36)
    assert "TOPIC_ALREADY_EXISTS" in error.why
    assert isinstance(from_kafka(KafkaError(KafkaError._ALL_BROKERS_DOWN), "x"), Unreachable)
    assert from_kafka(KafkaError(KafkaError.UNKNOWN), "x").code == "kafka-error"
    assert was_written(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)) == "no"


def test_library_exceptions_become_yak_errors_and_bugs_stay_bugs():
    raised = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    assert from_exception(raised, "x").code == "timed-out"
    assert from_exception(TimeoutError(), "x").code == "timed-out"
    assert isinstance(from_exception(ValueError("bad"), "x"), UsageError)
    ours = YakError("a", "b")
    assert from_exception(ours, "x") is ours
    with pytest.raises(KeyError):
        from_exception(KeyError("x"), "x")


class FatalProducer:
    """librdkafka after a fatal error: one call raises it, the next one reports the dropped record, and sends end."""

    def __init__(self, fatal, *, is_hidden=False):
        self._fatal, self._is_hidden, self._reports = fatal, is_hidden, []
        self._is_raised = False

    def __len__(self):
        return len(self._reports)

    def produce(self, *_, on_delivery):
        if self._is_raised:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self._reports.append(on_delivery)

    def poll(self, _wait_s=0.0):
        if not self._is_raised:
            self._is_raised = True
            if self._is_hidden:
                raise SystemError("returned a result with an exception set") from KafkaException(self._fatal)
            raise KafkaException(self._fatal)
        while self._reports:
            self._reports.pop()(KafkaError(KafkaError._PURGE_QUEUE), None)

    flush = poll


@pytest.mark.parametrize("is_hidden", [False, True])
def test_fatal_error_of_the_producer_explains_each_record_that_was_dropped(is_hidden):
    fatal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no producer id", fatal=True)
    sender = RecordSender("t", FatalProducer(fatal, is_hidden=is_hidden))
    sender.send(Outgoing(value=b"x"))
    assert sender.finish(1.0) == 0
    sender.send(Outgoing(value=b"y"))
    counts = sender.counts
    assert (counts.failed, counts.not_written, sender.waiting) == (2, 2, 0)
    assert [each.error.code for each in counts.failures] == ["not-authorized"] * 2
    assert list(counts.reasons) == ["no producer id (CLUSTER_AUTHORIZATION_FAILED)"]
    assert sender.fatal is fatal


def test_error_of_the_producer_that_is_not_fatal_is_raised():
    with pytest.raises(KafkaException):
        RecordSender("t", FatalProducer(KafkaError(KafkaError._STATE))).serve()


def test_log_lines_of_fatal_errors_reach_stderr_only_when_the_protocol_is_logged():
    assert "logger" in producer_settings("127.0.0.1:1", verbose=1)
    assert "logger" not in producer_settings("127.0.0.1:1", verbose=2)
