"""The REST proxy's errors, in one object with ours.

    {"error": "unknown-instance", "message": "...", "hint": "...", "error_code": 40403}

The codes are kafka-rest's (Errors.java) and rest-utils' (KafkaExceptionMapper.java); as there, an error without a code
of its own has the HTTP status as its code. Where the proxy answers 500 for a client error or a transient one, YAK
answers 4xx or 503, with the proxy's code.
"""

from functools import partial
from typing import Any, Final, NamedTuple

from yak.server.http.problems import Problem

UNPROCESSABLE: Final = 422


class _Kind(NamedTuple):
    status: int
    code: int
    slug: str
    hint: str


_REBALANCING: Final = _Kind(409, 40903, "rebalancing", "the group is rebalancing: read records first, then continue")
_UNREACHABLE: Final = _Kind(503, 50003, "broker-unreachable", "a broker is unreachable or busy: retry in a moment")
_UNKNOWN_TOPIC: Final = _Kind(404, 40401, "unknown-topic-or-partition", "GET /topics lists all topics")
_FORBIDDEN: Final = _Kind(403, 40301, "forbidden", "")
_NO_OFFSET: Final = _Kind(
    409,
    40903,
    "no-offset",
    "auto.offset.reset is none and there is no committed offset: set one with POST .../positions",
)
_KINDS: Final = {
    "UNKNOWN_TOPIC_OR_PART": _UNKNOWN_TOPIC,
    "_UNKNOWN_TOPIC": _UNKNOWN_TOPIC,
    "UNKNOWN_TOPIC_ID": _UNKNOWN_TOPIC,
    "_UNKNOWN_PARTITION": _Kind(404, 40402, "unknown-topic-or-partition", "GET /topics/{name} lists its partitions"),
    "REBALANCE_IN_PROGRESS": _REBALANCING,
    "ILLEGAL_GENERATION": _REBALANCING,
    "UNKNOWN_MEMBER_ID": _REBALANCING,
    "STALE_MEMBER_EPOCH": _REBALANCING,
    "FENCED_MEMBER_EPOCH": _REBALANCING,
    "_STATE": _REBALANCING,
    "INCONSISTENT_GROUP_PROTOCOL": _Kind(
        409, 40903, "other-protocol", "the members of this group use another assignment protocol: use another group"
    ),
    "_AUTO_OFFSET_RESET": _NO_OFFSET,
    "_NO_OFFSET": _NO_OFFSET,
    "OFFSET_METADATA_TOO_LARGE": _Kind(422, 422, "metadata-too-large", "commit shorter metadata"),
    "INVALID_TOPIC_EXCEPTION": _Kind(400, 40002, "bad-topic", ""),
    "TOPIC_AUTHORIZATION_FAILED": _FORBIDDEN,
    "GROUP_AUTHORIZATION_FAILED": _FORBIDDEN,
    "_AUTHENTICATION": _Kind(
        401, 40101, "login-failed", "DELETE the instance, and create it with the right user and password"
    ),
    "_TRANSPORT": _UNREACHABLE,
    "_ALL_BROKERS_DOWN": _UNREACHABLE,
    "_TIMED_OUT": _UNREACHABLE,
    "_TIMED_OUT_QUEUE": _UNREACHABLE,
    "_WAIT_COORD": _UNREACHABLE,
    "_RESOLVE": _UNREACHABLE,
    "FENCED_LEADER_EPOCH": _UNREACHABLE,
    "UNKNOWN_LEADER_EPOCH": _UNREACHABLE,
}
"""By librdkafka's error name; a retriable error that is missing here counts as an unreachable broker."""
_OTHER: Final = _Kind(500, 50002, "kafka-error", "the broker's log may have the cause")


def refusal(status: int, code: int, slug: str, message: str, hint: str = "") -> Problem:
    """A problem with the proxy's code."""
    return Problem(status, slug, message, hint, more={"error_code": code})


unprocessable: Final = partial(refusal, UNPROCESSABLE, UNPROCESSABLE, "bad-body")
"""The problem for valid JSON with invalid content."""
forbidden: Final = partial(refusal, 403, 40301, "forbidden")
"""The problem for what ACLs, or the owner of an instance, do not allow."""
illegal_state: Final = partial(refusal, 409, 40903, "illegal-state")
"""The problem for a request in the wrong state or order."""


def bad_config(message: str, hint: str) -> Problem:
    """The problem for settings that no instance can have."""
    return refusal(UNPROCESSABLE, 42204, "bad-config", f"the consumer cannot be created: {message}", hint)


def unknown_instance() -> Problem:
    """The problem for an instance that does not exist, any more or at all."""
    return refusal(
        404,
        40403,
        "unknown-instance",
        "this broker has no such consumer instance",
        "POST /consumers/{group} creates one. An idle instance is closed. Only the broker in its base_uri knows it.",
    )


def kafka_failure(error: Any, what: str) -> Problem:
    """The problem for an error of librdkafka (a KafkaError); `what` names the failed action."""
    kind = _KINDS.get(error.name())
    if kind is None:
        kind = _UNREACHABLE if error.retriable() else _OTHER
    return refusal(kind.status, kind.code, kind.slug, f"{what}: {error.str()}", kind.hint)


def with_code(problem: Problem, media_type: str) -> Problem:
    """Adds the proxy's code and content type to any problem."""
    problem.more.setdefault("error_code", problem.status)
    problem.headers["content-type"] = media_type
    return problem
