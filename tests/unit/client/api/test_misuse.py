"""Arguments that no producer or consumer can have: a UsageError at the call, never another exception or a silent change."""

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.errors import raises_error
from yak.client.api.client import Client
from yak.client.api.consumer import Consumer
from yak.client.api.producer import Producer
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition

NOWHERE = "127.0.0.1:1"
PLACE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    made = Producer(NOWHERE, _is_known=True)
    yield made
    made.abandon(0.0)


@pytest.fixture(scope="module")
def consumer() -> Iterator[Consumer]:
    made = Consumer(NOWHERE, group_id="g", timeout=0.1, _is_known=True)
    yield made
    made.close()


@pytest.mark.parametrize(
    "options",
    [
        {"partition": -1},
        {"partition": -5},
        {"partition": 1 << 40},
        {"partition": "1"},
        {"timestamp_ms": -1},
        {"timestamp_ms": 1 << 70},
        {"headers": ["a"]},
        {"headers": {"a": "\ud800"}},
        {"headers": [(b"a", b"1")]},
        {"headers": {None: "1"}},
        {"headers": {"\ud800": "1"}},
        {"headers": {"a\0b": "1"}},
    ],
)
def test_record_that_cannot_be_sent_so_is_refused(producer, options):
    with raises_error(UsageError, "usage"):
        producer.send("t", 1, **options)
    # librdkafka counts its error events for a moment; a record that was queued would stay
    deadline = time.monotonic() + 10
    while len(producer) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(producer) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.commit({PLACE: -1}),
        lambda consumer: consumer.commit({PLACE: 3, TopicPartition("t", 1): -5}),
        lambda consumer: consumer.commit({PLACE: 1 << 70}),
        lambda consumer: consumer.commit({PLACE: "3"}),
        lambda consumer: consumer.poll(0.0, 0),
        lambda consumer: consumer.poll(0.0, -1),
        lambda consumer: consumer.poll(0.0, 1.5),
        lambda consumer: consumer.poll(0.0, "1"),
        lambda consumer: consumer.poll(math.nan),
        lambda consumer: consumer.poll(-1),
        lambda consumer: consumer.poll(None),
        lambda consumer: consumer.commit(5),
        lambda consumer: consumer.commit("t"),
        lambda consumer: consumer.offset_for_time(PLACE, None),
        lambda consumer: consumer.offset_for_time(PLACE, -1),
        lambda consumer: consumer.offset_for_time(PLACE, 1.5),
        lambda consumer: consumer.offset_for_time(PLACE, 1 << 70),
        lambda consumer: consumer.subscribe("\ud800"),
        lambda consumer: consumer.subscribe(["t", "t\0u"]),
        lambda consumer: consumer.subscribe([]),
        lambda consumer: consumer.subscribe([5]),
        lambda consumer: consumer.subscribe(5),
        lambda consumer: consumer.pause(PLACE),
        lambda consumer: consumer.resume("t"),
        lambda consumer: consumer.pause([("t", 0)]),
        lambda consumer: consumer.assign(PLACE),
        lambda consumer: consumer.assign("t"),
        lambda consumer: consumer.assign([("t", 0)]),
        lambda consumer: consumer.assign({("t", 0): 5}),
    ],
)
def test_call_with_an_argument_that_it_cannot_have_is_refused(consumer, call):
    with raises_error(UsageError, "usage"):
        call(consumer)


@pytest.mark.parametrize("verb", ["flush", "close"])
@pytest.mark.parametrize("seconds", [math.nan, -1, -math.inf, "1"])
def test_wait_of_a_producer_that_is_none_is_refused_before_records_are_dropped(
    producer: Producer, verb: str, seconds: Any
) -> None:
    with raises_error(UsageError, "usage", match=f"^timeout={seconds!r} is no time to wait"):
        getattr(producer, verb)(seconds)
    assert not producer.is_closed


def test_wait_without_end_is_one(producer: Producer) -> None:
    producer.flush(math.inf)


@pytest.mark.parametrize("text", ["\ud800", "a\0b"])
@pytest.mark.parametrize("setting", ["group_id", "group_instance_id", "client_id", "config name", "config value"])
def test_setting_that_librdkafka_crashes_on_or_cuts_off_is_refused(setting, text):
    options: dict[str, Any] = {
        "config name": {"config": {text: "1"}},
        "config value": {"config": {"client.rack": text}},
    }.get(setting, {setting: text})
    with raises_error(UsageError, "usage"):
        Consumer(NOWHERE, _is_known=True, **options)


@pytest.mark.parametrize("kind", [Consumer, Producer])
@pytest.mark.parametrize("serde", [None, "JSON", bytes.decode])
@pytest.mark.parametrize("option", ["keys", "values"])
def test_serde_that_is_none_is_refused(kind, option, serde):
    options: dict[str, Any] = {option: serde}
    with raises_error(UsageError, "usage", match=f"^{option}=.* is no serde"):
        kind(NOWHERE, _is_known=True, **options)


@pytest.mark.parametrize("kind", [Consumer, Producer, Client])
@pytest.mark.parametrize("seconds", [None, "5", 0, -1, math.inf, math.nan, 1e12])
def test_time_limit_that_is_none_is_refused_by_its_name(kind, seconds):
    name = "delivery_timeout" if kind is Producer else "timeout"
    options: dict[str, Any] = {name: seconds}
    with raises_error(UsageError, "usage", match=f"^{name}={seconds!r} is no time limit"):
        kind(NOWHERE, **options)


def test_group_without_a_name_is_refused():
    with raises_error(UsageError, "bad-group-id"):
        Consumer(NOWHERE, group_id="", _is_known=True)


def test_setting_that_would_leave_futures_undone_is_refused():
    with pytest.raises(UsageError, match="cannot be set in config"):
        Producer(NOWHERE, config={"delivery.report.only.error": True}, _is_known=True)


def test_producer_without_records_is_true(producer):
    assert len(producer) == 0
    assert producer


@pytest.mark.parametrize("verb", ["flush", "close"])
def test_call_that_would_wait_for_its_own_callback_is_refused(verb):
    caught: list[BaseException] = []

    def call(_: object) -> None:
        try:
            getattr(made, verb)()
        except UsageError as error:
            caught.append(error)

    made = Producer(NOWHERE, delivery_timeout=0.1, _is_known=True)
    delivery = made.send("t", 1)
    delivery.add_done_callback(call)
    assert delivery.exception(10) is not None
    made.close()
    assert [str(error).split("\n")[0] for error in caught] == [f"{verb}() within a callback of a future"]


def test_closing_producer_accepts_records_of_callbacks_only():
    made = Producer(NOWHERE, delivery_timeout=1.0, _is_known=True)
    followed: list[object] = []
    made.send("t", 1).add_done_callback(lambda _: followed.append(made.send("t", 2)))

    def close() -> None:
        with pytest.raises(YakError):
            made.close(60)  # until the records have failed

    closing = threading.Thread(target=close)
    closing.start()
    refused = False
    while closing.is_alive() and not refused:
        try:
            made.send("t", 3)
        except UsageError as error:
            refused = error.code == "closed" and not made.is_closed
    closing.join()
    assert refused
    assert len(followed) == 1
