"""Nothing of librdkafka's gets out: errors are ours, with why and what to try where a traceback shows them."""

import traceback

import pytest
from confluent_kafka import KafkaError, KafkaException

from yak.client.api.failures import closed, explaining, translated
from yak.errors import Unreachable, UsageError, YakError


def test_a_traceback_says_what_why_and_what_to_try():
    with pytest.raises(YakError) as raised, explaining("the offsets were not committed"):
        raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    error = raised.value
    assert error.code == "left-group"
    printed = "".join(traceback.format_exception(error))
    assert "the offsets were not committed" in printed
    assert "  why:  " in printed
    assert "ILLEGAL_GENERATION" in printed
    assert "  try:  poll() again" in printed
    assert "KafkaException" not in printed


def test_yak_error_passes_unchanged_and_its_notes_are_added_once():
    mine = UsageError("usage", "no", why="because", try_=("this",))
    for _ in range(2):
        with pytest.raises(UsageError) as raised, explaining("something"):
            raise mine
        assert raised.value is mine
    assert mine.__notes__ == ["  why:  because", "  try:  this"]


def test_exception_of_other_code_is_not_changed():
    with pytest.raises(KeyError), explaining("something"):
        raise KeyError("theirs")


@pytest.mark.parametrize(
    ("kafka_error", "kind", "code"),
    [
        (KafkaError._ALL_BROKERS_DOWN, Unreachable, "unreachable"),
        (KafkaError._INVALID_ARG, UsageError, "usage"),
        (KafkaError.REBALANCE_IN_PROGRESS, YakError, "rebalance-in-progress"),
        (KafkaError._MAX_POLL_EXCEEDED, YakError, "left-group"),
        (KafkaError.FENCED_INSTANCE_ID, YakError, "instance-taken"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, YakError, "no-coordinator"),
        (KafkaError._AUTO_OFFSET_RESET, YakError, "offset-out-of-range"),
    ],
)
def test_the_kind_says_whose_fault_it_is(kafka_error, kind, code):
    error = translated(KafkaError(kafka_error), "it did not work")
    assert isinstance(error, kind)
    assert error.code == code
    assert error.try_


def test_advice_is_for_programs():
    error = translated(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS), "topic was not created")
    assert error.try_ == ("create_topic(..., if_not_exists=True)",)


def test_notes_are_there_once():
    error = closed("producer")
    assert error.__notes__ == error.__notes__
    assert len(error.__notes__) == 2


def test_traceback_of_any_error_of_yak_has_its_reason_its_advice_and_added_notes():
    error = Unreachable("unreachable", "no broker answered", why="refused", try_=("yak status",))
    error.try_ = ("yak up -d", "yak doctor")
    error.add_note("in test_orders")
    assert traceback.format_exception_only(error) == [
        "yak.errors.Unreachable: no broker answered\n",
        "  why:  refused\n",
        "  try:  yak up -d\n",
        "  try:  yak doctor\n",
        "in test_orders\n",
    ]
