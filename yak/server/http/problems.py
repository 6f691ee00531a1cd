"""Error answers `{"error", "message", "hint"}` and their bytes, and the HTTP status for each Kafka error."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from yak.errors import ErrorCode
from yak.exact_json import plain
from yak.plain_text import json_text

SECURITY_HEADERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
"""Of every answer."""

_ERRORS: Final[Mapping[int, str]] = {
    403: (
        "topic_authorization_failed group_authorization_failed cluster_authorization_failed "
        "transactional_id_authorization_failed"
    ),
    404: (
        "unknown_topic_or_partition unknown_topic_id group_id_not_found resource_not_found "
        "broker_id_not_registered unknown_member_id"
    ),
    409: (
        "topic_already_exists duplicate_broker_registration stale_broker_epoch non_empty_group "
        "rebalance_in_progress group_subscribed_to_topic reassignment_in_progress election_not_needed"
    ),
    413: "message_too_large record_list_too_large",
    416: "offset_out_of_range",
    500: "unknown_server_error",
    503: (
        "not_enough_replicas not_enough_replicas_after_append leader_not_available not_leader_or_follower "
        "coordinator_not_available coordinator_load_in_progress not_coordinator not_controller "
        "broker_not_available replica_not_available kafka_storage_error"
    ),
    504: "request_timed_out",
}
_STATUS: Final = {name: status for status, names in _ERRORS.items() for name in names.split()}
"""An error that is missing here is the client's: 400."""
_HINTS: Final[Mapping[str, str]] = {
    "unknown_topic_or_partition": "GET /topics lists all topics",
    "topic_already_exists": "DELETE it first, or use another name",
    "offset_out_of_range": "GET /topics/{name} lists the log start and end offset of each partition",
    "message_too_large": "send smaller batches, or raise max.message.bytes of the topic",
    "not_enough_replicas": "nothing was written; GET /api/isr lists the ISR",
    "not_enough_replicas_after_append": "it was written and may still be committed; GET /api/isr lists the ISR",
    "leader_not_available": "retry in a moment; GET /api/isr lists the leaders",
    "not_leader_or_follower": "a leader election is in progress: retry in a moment",
    "invalid_replication_factor": "each replica needs its own YAK broker; GET /api/cluster lists them",
    "invalid_replica_assignment": "replicas need live YAK brokers; GET /get_active_brokers lists them",
    "invalid_partitions": "the number of partitions can only be increased",
    "request_timed_out": "the result is unknown: check the state before a retry",
}


class Problem(Exception):
    """An error answer: status, a slug that never changes, what happened, and what to do."""

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        hint: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.hint = hint
        self.headers = dict(headers or {})
        self.more = dict(more or {})
        """Further fields of the answer, such as which rows failed."""

    def as_json(self) -> dict[str, Any]:
        """The answer's body."""
        return {"error": self.error, "message": self.message, "hint": self.hint, **self.more}


bad_body: Final = partial(Problem, 400, "bad-body")
bad_parameter: Final = partial(Problem, 400, "bad-parameter")


def kafka_problem(code: ErrorCode | int, what: str, message: str | None = None) -> Problem:
    """The problem for a Kafka error code; `what` is its object, `message` the broker's text, if any."""
    name = ErrorCode(code).name
    text = (message or "").rstrip(".") or name.replace("_", " ")
    return Problem(_STATUS.get(name, 400), name.replace("_", "-"), f"{what}: {text}", _HINTS.get(name, ""))


def check_error(answer: Any, what: str) -> None:
    """Raises the problem of an answer, or of a part of one, that has an error code."""
    if answer.error_code:
        raise kafka_problem(answer.error_code, what, getattr(answer, "error_message", None))


def json_bytes(content: object) -> bytes:
    """A line of compact UTF-8. Raises ValueError for NaN, which is a bug of ours."""
    return json_text(plain(content)).encode() + b"\n"


_ITEMS_AT_ONCE: Final = 200
"""Of a list, encoded by one call: less than 5 ms, after which another thread may have the GIL."""


def large_json_bytes(content: object) -> bytes:
    """Like `json_bytes`, for a thread: long lists are encoded in slices, since one call of the encoder keeps the GIL."""
    return b"".join(_json_pieces(content)) + b"\n"


def _json_pieces(content: object) -> Iterator[bytes]:
    if isinstance(content, dict) and content:
        before = b"{"
        for name, value in content.items():
            yield before + json_bytes({name: None})[1:-6]  # without `null}` and the line end
            yield from _json_pieces(value)
            before = b","
        yield b"}"
    elif isinstance(content, list | tuple) and len(content) > _ITEMS_AT_ONCE:
        before = b"["
        for start in range(0, len(content), _ITEMS_AT_ONCE):
            yield before + json_bytes(content[start : start + _ITEMS_AT_ONCE])[1:-2]
            before = b","
        yield b"]"
    else:
        yield json_bytes(content)[:-1]


def body_of(problem: Problem) -> tuple[bytes, list[tuple[str, str]]]:
    """The body of an error answer, and its headers."""
    headers = {"content-type": "application/json", **SECURITY_HEADERS, **problem.headers}
    return json_bytes(problem.as_json()), list(headers.items())
