"""A failed send is never silent, and a settled one says where the record is."""

import sys
import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from tests.messages import kafka_message
from yak.client.api import producer as producer_api
from yak.client.api.failures import SendFailed
from yak.client.api.message import Sent
from yak.client.api.producer import Deliveries, Delivery, Producer, _serve
from yak.client.produce import serve
from yak.errors import YakError


def report(timestamp=(1, 1234)):
    """librdkafka's message in a delivery report."""
    return kafka_message("orders", 2, 4, timestamp=timestamp)


def settled(deliveries, error=None, message=None):
    delivery = Delivery()
    deliveries.settle(delivery, "orders", KafkaError(error) if error is not None else None, message or report())
    return delivery


def test_an_acknowledged_record_says_where_it_is():
    deliveries = Deliveries(has_offsets=True)
    assert settled(deliveries).result(0) == Sent("orders", 2, 4, 1234)
    assert settled(deliveries, message=report(timestamp=(0, 0))).result(0).timestamp_ms == -1
    assert settled(Deliveries(has_offsets=False)).result(0).offset == -1
    assert deliveries.unseen_failure() is None


def test_a_record_cannot_be_taken_back():
    delivery = Delivery()
    assert not delivery.cancel()
    with pytest.raises(TimeoutError):
        delivery.result(0)


@pytest.mark.parametrize(
    ("kafka_error", "code", "written", "text"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, "record-too-large", "no", "it is not in the log"),
        (KafkaError._MSG_TIMED_OUT, "timed-out", "unknown", "it may be in the log all the same"),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "not-enough-replicas", "unknown", "it may be in the log"),
    ],
)
def test_a_failure_says_whether_the_record_was_written(kafka_error, code, written, text):
    delivery = settled(Deliveries(has_offsets=True), kafka_error)
    with pytest.raises(SendFailed) as failed:
        delivery.result(0)
    error = failed.value
    assert (error.code, error.written, error.kafka_code) == (code, written, kafka_error)
    assert text in error.message
    assert error.why
    assert error.try_


def test_unchecked_failures_are_raised_together_once():
    deliveries = Deliveries(has_offsets=True)
    settled(deliveries, KafkaError.MSG_SIZE_TOO_LARGE)
    settled(deliveries, KafkaError._MSG_TIMED_OUT)
    seen = settled(deliveries, KafkaError.INVALID_RECORD)
    assert isinstance(seen.exception(0), SendFailed)
    failure = deliveries.unseen_failure()
    assert failure is not None
    assert failure.message.startswith("2 records were not acknowledged; the first:")
    assert (failure.code, failure.written) == ("record-too-large", "unknown")
    assert deliveries.unseen_failure() is None


def test_single_delivery_failure_is_raised_unchanged():
    deliveries = Deliveries(has_offsets=True)
    delivery = settled(deliveries, KafkaError.MSG_SIZE_TOO_LARGE)
    assert deliveries.unseen_failure() is delivery.exception(0)


def test_callback_that_reads_the_exception_marks_the_failure_as_checked():
    deliveries = Deliveries(has_offsets=True)
    delivery = Delivery()
    delivery.add_done_callback(lambda future: future.exception())
    deliveries.settle(delivery, "orders", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
    assert deliveries.unseen_failure() is None


def test_failure_that_arrives_during_a_flush_is_raised():
    """The delivery thread adds failures while another thread flushes."""
    deliveries = Deliveries(has_offsets=True)

    class Slow(Delivery):
        @property
        def was_checked(self):
            if not late:  # as if the delivery thread ran here
                late.append(settled(deliveries, KafkaError._MSG_TIMED_OUT))
            return False

        @was_checked.setter
        def was_checked(self, _value):
            pass

    late = []
    deliveries.settle(Slow(), "orders", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
    failure = deliveries.unseen_failure()
    assert failure is not None
    assert failure.message.startswith("2 records were not acknowledged")
    assert deliveries.unseen_failure() is None


def test_callback_that_exits_does_not_end_the_thread_of_the_deliveries(monkeypatch):
    """Later records need the thread. Python's hook for errors of threads ignores sys.exit()."""
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_type))
    deliveries, first, second, stop = Deliveries(has_offsets=True), Delivery(), Delivery(), threading.Event()
    first.add_done_callback(lambda _: sys.exit(1))
    second.add_done_callback(lambda _: stop.set())
    reports = [first, second]
    handle = SimpleNamespace(poll=lambda _wait_s: deliveries.settle(reports.pop(0), "orders", None, report()))
    _serve(handle, deliveries, stop)
    assert second.result(0).offset == 4
    assert raised == [SystemExit]


def test_flush_waits_for_earlier_records_only(monkeypatch):
    made = Producer("127.0.0.1:1", delivery_timeout=1.0, _is_known=True)
    earlier = Delivery()
    made._deliveries.pending.add(earlier)

    def acknowledge(call, wait_s, on_fatal):
        if call == made._handle.flush and not earlier.done():
            made.send("orders", 2)
            made._deliveries.settle(earlier, "orders", None, report())
        else:
            serve(call, wait_s, on_fatal)

    monkeypatch.setattr(producer_api, "serve", acknowledge)
    made.flush(0.5)
    assert earlier.result(0).offset == 4
    with pytest.raises(YakError, match="are not settled yet"):
        made.finish(0.0)
    made.abandon(0.0)
