"""Errors of the Python API: YAK's, never librdkafka's, with advice for programs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

from yak.client.errors import Written, from_exception, from_kafka, kafka_exceptions, slug_of, was_written
from yak.errors import UsageError, YakError
from yak.ids import TopicPartition

_TRY = {
    "timed-out": ("yak doctor", "give it more time: timeout=30 (seconds), delivery_timeout=60 of a producer"),
    "no-coordinator": ("yak isr __consumer_offsets", "call it again"),
    "record-too-large": (
        'config={"message.max.bytes": 10_000_000} of the producer',
        'client.set_topic_configs(TOPIC, {"max.message.bytes": 10_000_000})',
    ),
    "topic-exists": ("create_topic(..., if_not_exists=True)",),
    "unknown-partition": ("client.topic(NAME).partitions are those that there are",),
    "unknown-topic": ("client.create_topic(NAME)", "client.topics() lists the topics"),
    "rebalance-in-progress": ("poll() again, so that the group can settle, then commit",),
    "left-group": ("poll() again: the consumer joins again and continues at the committed offsets",),
    "offset-out-of-range": (
        'consumer.seek(partition, "earliest")',
        "consumer.watermarks(partition) gives the first and the next offset",
    ),
}
"""Advice for programs, which replaces advice for the command line."""


class SendFailed(YakError):
    """A record was not acknowledged. `written` is `no`, or `unknown` when it may be in the log all the same."""

    written: Written = "unknown"


def for_python(error: YakError) -> YakError:
    """The same error, with advice for a program instead of the command line."""
    if error.code == "usage" and error.kafka_code is not None:
        error.try_ = ("help(yak.Producer) and help(yak.Consumer) list the settings",)
    error.try_ = _TRY.get(error.code, error.try_)
    return error


def translated(error: Any, what: str) -> YakError:
    """A YakError for a KafkaError of a message or partition."""
    return for_python(from_kafka(error, what))


def send_failed(error: Any, topic: str, cause: Any) -> SendFailed:
    """A SendFailed for the KafkaError of a delivery report, and the KafkaError that explains it."""
    written = was_written(error)
    plain = from_kafka(cause, "")
    outcome = "it is not in the log" if written == "no" else "it may be in the log all the same"
    failed = SendFailed(
        slug_of(cause), f'a record for topic "{topic}" was not acknowledged; {outcome}', why=plain.why, try_=plain.try_
    )
    failed.written = written
    failed.kafka_code = int(cause.code())
    for_python(failed)
    return failed


@contextmanager
def explaining(what: str) -> Iterator[None]:
    """Translate exceptions of librdkafka's binding into a YakError: `what` failed. YakErrors get their advice."""
    try:
        yield
    except YakError as error:
        for_python(error)
        raise
    except kafka_exceptions() as error:
        raise for_python(from_exception(error, what)) from None


def is_whole_number(number: Any) -> bool:
    """Whether a number is a whole one from 0 on; numpy's are too."""
    try:
        return index(number) >= 0
    except TypeError:
        return False


def bad_argument(what: str, why: str, *try_: str) -> UsageError:
    """The error for an argument that a call cannot have."""
    return UsageError("usage", what, why=why, try_=try_)


SECONDS_MAX = 2_000_000
"""librdkafka has milliseconds in 31 bits."""


def require_seconds(name: str, seconds: Any) -> None:
    """Refuse a limit that is none. librdkafka waits for ever with 0, and reports the others as its own settings, or as an
    unreachable broker. Raises UsageError."""
    if not (isinstance(seconds, int | float) and 0 < seconds <= SECONDS_MAX):
        raise bad_argument(
            f"{name}={seconds!r} is no time limit",
            f"it is a number of seconds from above 0 to {SECONDS_MAX}",
            f"{name}=30",
        )


def require_wait(seconds: Any) -> float:
    """Refuse what is no time to wait: confluent-kafka's -1, or a NaN, which never ends. Raises UsageError."""
    if not (isinstance(seconds, int | float) and seconds >= 0):
        why = "it is a number of seconds from 0 on; infinity waits without end"
        raise bad_argument(f"timeout={seconds!r} is no time to wait", why, "timeout=30")
    return seconds


def require_partitions(partitions: Iterable[TopicPartition]) -> None:
    """Refuse other things than partitions: one partition alone is an iterable of a name and a number. Raises UsageError."""
    for each in partitions:
        if not isinstance(each, TopicPartition):
            raise bad_argument(
                f"{each!r} is no partition",
                "the call takes several TopicPartitions",
                '[yak.TopicPartition("orders", 0)]',
            )


def require_text(*texts: Any) -> None:
    """Refuse what librdkafka's binding crashes on or cuts off: text that is not UTF-8, or has a null character.

    Raises ValueError. What is no text is passed on.
    """
    for text in texts:
        if isinstance(text, str) and 0 in text.encode():
            raise ValueError(f"{text!r} has a null character")


def closed(what: str) -> UsageError:
    """The error for a call to a closed producer, consumer or client."""
    return UsageError(
        "closed",
        f"this {what} is closed",
        why="close() was called, its with block is over, or the process was forked: it stays open in the parent alone",
        try_=(f"make a new one, or move the call into the with block of the {what}",),
    )
