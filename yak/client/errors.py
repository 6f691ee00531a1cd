"""librdkafka's and the broker's errors as YakErrors: message, reason, advice, and whether a record was written."""

from functools import cache
from typing import Any, Final, Literal, NamedTuple

from yak.errors import Unreachable, UsageError, YakError

Written = Literal["no", "unknown"]

NOT_WRITTEN = {
    "MSG_SIZE_TOO_LARGE",
    "_MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "INVALID_MSG",
    "INVALID_MSG_SIZE",
    "INVALID_REQUIRED_ACKS",
    "INVALID_TIMESTAMP",
    "NOT_ENOUGH_REPLICAS",
    "TOPIC_EXCEPTION",
    "UNKNOWN_TOPIC_OR_PART",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "TOPIC_AUTHORIZATION_FAILED",
    "POLICY_VIOLATION",
    "_UNKNOWN_TOPIC",
    "_UNKNOWN_PARTITION",
    "_PURGE_QUEUE",
    "_QUEUE_FULL",
}
"""Errors after which the record is certainly not in the log; after any other error it may be."""

_SLUGS = {
    "UNKNOWN_TOPIC_OR_PART": "unknown-topic",
    "_UNKNOWN_TOPIC": "unknown-topic",
    "_UNKNOWN_PARTITION": "unknown-partition",
    "TOPIC_ALREADY_EXISTS": "topic-exists",
    "TOPIC_EXCEPTION": "bad-topic-name",
    "INVALID_PARTITIONS": "bad-partition-count",
    "INVALID_REPLICATION_FACTOR": "bad-replication-factor",
    "INVALID_CONFIG": "bad-config",
    "INVALID_REQUEST": "refused-by-broker",
    "POLICY_VIOLATION": "refused-by-broker",
    "NOT_ENOUGH_REPLICAS": "not-enough-replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "not-enough-replicas",
    "NOT_LEADER_FOR_PARTITION": "not-leader",
    "FENCED_LEADER_EPOCH": "not-leader",
    "UNKNOWN_LEADER_EPOCH": "not-leader",
    "LEADER_NOT_AVAILABLE": "no-leader",
    "_NOENT": "no-leader",
    "OFFSET_OUT_OF_RANGE": "offset-out-of-range",
    "_AUTO_OFFSET_RESET": "offset-out-of-range",
    "MSG_SIZE_TOO_LARGE": "record-too-large",
    "_MSG_SIZE_TOO_LARGE": "record-too-large",
    "RECORD_LIST_TOO_LARGE": "record-too-large",
    "INVALID_TIMESTAMP": "bad-timestamp",
    "UNSUPPORTED_VERSION": "not-supported",
    "_UNSUPPORTED_FEATURE": "not-supported",
    "_TIMED_OUT": "timed-out",
    "_MSG_TIMED_OUT": "timed-out",
    "REQUEST_TIMED_OUT": "timed-out",
    "_TRANSPORT": "unreachable",
    "_ALL_BROKERS_DOWN": "unreachable",
    "_RESOLVE": "unreachable",
    "_AUTHENTICATION": "login-failed",
    "SASL_AUTHENTICATION_FAILED": "login-failed",
    "UNSUPPORTED_SASL_MECHANISM": "login-failed",
    "UNACCEPTABLE_CREDENTIAL": "bad-credential",
    "RESOURCE_NOT_FOUND": "unknown-user",
    "_INVALID_ARG": "usage",
    "COORDINATOR_NOT_AVAILABLE": "no-coordinator",
    "COORDINATOR_LOAD_IN_PROGRESS": "no-coordinator",
    "NOT_COORDINATOR": "no-coordinator",
    "_WAIT_COORD": "no-coordinator",
    "REBALANCE_IN_PROGRESS": "rebalance-in-progress",
    "ILLEGAL_GENERATION": "left-group",
    "UNKNOWN_MEMBER_ID": "left-group",
    "STALE_MEMBER_EPOCH": "left-group",
    "FENCED_MEMBER_EPOCH": "left-group",
    "_ASSIGNMENT_LOST": "left-group",
    "_MAX_POLL_EXCEEDED": "left-group",
    "FENCED_INSTANCE_ID": "instance-taken",
    "UNRELEASED_INSTANCE_ID": "instance-taken",
    "_FENCED": "instance-taken",
    "INVALID_GROUP_ID": "bad-group-id",
    "GROUP_ID_NOT_FOUND": "unknown-group",
    "NON_EMPTY_GROUP": "group-active",
    "GROUP_SUBSCRIBED_TO_TOPIC": "group-subscribed",
    "GROUP_MAX_SIZE_REACHED": "group-full",
    "INCONSISTENT_GROUP_PROTOCOL": "group-protocol",
    "OFFSET_METADATA_TOO_LARGE": "refused-by-broker",
    "TOPIC_AUTHORIZATION_FAILED": "not-authorized",
    "GROUP_AUTHORIZATION_FAILED": "not-authorized",
    "CLUSTER_AUTHORIZATION_FAILED": "not-authorized",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "not-authorized",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "not-authorized",
}

_TRY = {
    "not-enough-replicas": ("yak topics describe TOPIC",),
    "record-too-large": ("yak topics alter TOPIC -c max.message.bytes=BYTES",),
    "timed-out": ("yak doctor", "give it more time with --timeout 30s"),
    "unreachable": ("yak up -d", "yak doctor"),
    "unknown-topic": ("yak topics list",),
    "no-leader": ("yak topics list --unavailable-partitions",),
    "no-coordinator": ("yak isr __consumer_offsets", "give it more time with --timeout 30s"),
    "unknown-group": ("yak groups list",),
    "group-active": ("stop its members, and try again", "yak groups members GROUP"),
    "group-subscribed": ("stop the members that read the topic, and try again", "yak groups members GROUP -o wide"),
    "group-full": ("yak brokers describe ID --all-configs", "stop a member"),
    "group-protocol": ("yak groups describe GROUP", "use another group"),
    "bad-group-id": ("yak groups list",),
    "not-authorized": ("yak acls list     as a user that may, such as one of super.users", "log in as another user"),
}


def name_of(error: Any) -> str:
    """Kafka's name of a `KafkaError`."""
    return str(error.name())


def slug_of(error: Any) -> str:
    """YAK's stable slug for a `KafkaError`."""
    return _SLUGS.get(name_of(error), "kafka-error")


def reason(error: Any) -> str:
    """The error in one phrase, with Kafka's name."""
    text = " ".join(str(error.str()).split())
    return f"{text} ({name_of(error)})"


def was_written(error: Any) -> Written:
    """Whether a record whose delivery failed may be in the log."""
    return "no" if name_of(error) in NOT_WRITTEN else "unknown"


def from_kafka(error: Any, what: str, *, try_: tuple[str, ...] = ()) -> YakError:
    """A YakError for a `KafkaError`: `what` names the request and its values."""
    slug = slug_of(error)
    kind = {"unreachable": Unreachable, "usage": UsageError}.get(slug, YakError)
    failure = kind(slug, what, why=reason(error), try_=try_ or _TRY.get(slug, (f"yak help {slug}",)))
    failure.kafka_code = int(error.code())
    return failure


def from_answer(answer: Any, what: str, slug: str, *, invalid: str = "") -> YakError:
    """A YakError for an answer of kio's with an error: `not-authorized`, `timed-out`, and `slug` for all others.

    `invalid` is the command that helps when the broker calls the request invalid, which is then a mistake in its use.
    """
    name, why = answer.error_code.name.upper(), answer.error_message or answer.error_code.name.replace("_", " ")
    if invalid and name == "INVALID_REQUEST":
        return UsageError(slug, what, why=why, try_=(invalid,))
    if _SLUGS.get(name) in ("not-authorized", "timed-out"):
        slug = _SLUGS[name]
    failure = YakError(slug, what, why=why, try_=_TRY.get(slug, (f"yak help {slug}",)))
    failure.kafka_code = int(answer.error_code)
    return failure


def from_exception(error: BaseException, what: str, *, try_: tuple[str, ...] = ()) -> YakError:
    """A YakError for an exception of librdkafka's Python binding: a KafkaException, or a timeout of a future."""
    from confluent_kafka import KafkaError, KafkaException

    if isinstance(error, YakError):
        return error
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return from_kafka(error.args[0], what, try_=try_)
    if isinstance(error, TimeoutError):
        return YakError("timed-out", what, why="no answer in the time given", try_=try_ or _TRY["timed-out"])
    if isinstance(error, ValueError | TypeError | OverflowError):
        return UsageError("usage", what, why=str(error), try_=try_)
    raise error


UNCHANGED: Final = "Nothing was changed"
"""What YAK's brokers say when they refuse a change by REQUEST_TIMED_OUT before they try it."""


class Change(NamedTuple):
    """The text of a change, as `topic "a" was` and `created`; `check` is the command that shows its outcome."""

    subject: str
    done: str
    check: str

    @property
    def not_made(self) -> str:
        """That the change was not made."""
        return f"{self.subject} not {self.done}"

    def failure(self, error: YakError) -> YakError:
        """The error of the change; one without an answer says that the change may be made all the same."""
        if error.code != "timed-out" or UNCHANGED in error.why:
            return error
        what = f"unknown: {self.subject} {self.done} or not"
        error.message, error.args = what, (what,)
        error.why += "; the change may be made all the same, now or later"
        error.try_ = (f"{self.check}          before the command is repeated", *_TRY["timed-out"])
        return error


def reason_of(error: Exception) -> str:
    """Why a broker did not answer: of an OSError in the system's words, without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def names_no_partition(error: BaseException) -> bool:
    """Whether the error says that the topic or the partition does not exist."""
    reported = error.args[0] if error.args else None
    return getattr(reported, "name", str)() in ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


@cache
def kafka_exceptions() -> tuple[type[Exception], ...]:
    """The exceptions of librdkafka's binding to translate; a function, so that the import happens on first use."""
    from confluent_kafka import KafkaException

    return (KafkaException, TimeoutError, ValueError, TypeError, OverflowError)
