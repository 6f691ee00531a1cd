"""Requests about groups: to every broker, or to each group's coordinator, with retries while it moves.

The requests are raw ones, because librdkafka handles one group per request, has no call for OffsetDelete, and does
not expose the members' subscriptions. Kafka from 4.0 on and YAK support all the versions used here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, cast

from yak.client.admin import Admin
from yak.client.errors import from_kafka
from yak.client.metadata import Broker
from yak.client.raw_connection import Api, RawConnection
from yak.errors import Unreachable, YakError

_FIND_COORDINATOR: Final = 10, 4
LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
RETRIED: Final = frozenset({LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""Error codes of a coordinator that moves to another broker, or still loads its groups."""
PAUSE_S: Final = 0.1
ANSWER_S: Final = 5.0
GROUPS_AT_ONCE: Final = 500
"""Groups per request: even for large groups the response stays within a broker's limits."""
_KEY_TYPES: Final = {"group": 0, "transaction": 1}
UNKNOWN: Final = -1
"""UNKNOWN_SERVER_ERROR, for a group missing in a response."""

Answer = TypeVar("Answer")
Call: TypeAlias = Callable[[RawConnection, Sequence[str]], Mapping[str, tuple[int, Answer]]]
"""Sends one coordinator a request for some of its groups; returns an error code and an answer for each. Raises OSError."""


def failure(code: int, what: str, message: str | None = None) -> YakError:
    """The error for a Kafka error code; `message` is the broker's."""
    from confluent_kafka import KafkaError

    error = from_kafka(KafkaError(code), what)
    if message:
        error.why = f"{message} ({error.why})"
    return error


def answered(found: Answer | YakError) -> Answer:
    """The answer about a group; raises the error that came in its place."""
    if isinstance(found, YakError):
        raise found
    return found


class GroupBrokers:
    """The brokers of a cluster, for requests about groups, or about transactions, whose coordinators move alike.

    A context manager, since it keeps connections open.
    """

    def __init__(self, admin: Admin, coordinates: Literal["group", "transaction"] = "group") -> None:
        self.admin = admin
        self._coordinates = coordinates
        self.brokers: dict[int, Broker] = {}
        self._open: dict[str, RawConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for address in list(self._open):
            self._close(address)

    def every(self, api: Api, fields: Mapping[str, object]) -> tuple[dict[Broker, Any], dict[Broker, str]]:
        """The response of each broker, and the brokers that gave none before the timeout, with the reason."""
        answers: dict[Broker, Any] = {}
        deadline = time.monotonic() + self.admin.timeout_s
        left = self._all_brokers()
        while True:
            for broker in list(left):
                try:
                    answer = self._connection(broker.address).call(api, fields)
                except OSError as error:
                    self._close(broker.address)
                    left[broker] = str(error) or type(error).__name__
                    continue
                if not (code := int(answer.error_code)):
                    answers[broker] = answer
                    del left[broker]
                else:
                    left[broker] = failure(code, "").why
                    if code not in RETRIED:
                        raise failure(code, f"broker {broker.node_id} does not list its {self._coordinates}s")
            if not left or time.monotonic() >= deadline:
                return answers, left
            time.sleep(PAUSE_S)
            there = self._all_brokers()
            if any(broker not in there for broker in left):
                # A dead broker's groups have moved to a broker that may have answered before it loaded them.
                answers, left = {}, there

    def _all_brokers(self) -> dict[Broker, str]:
        self.brokers = self.admin.metadata().brokers
        return dict.fromkeys(self.brokers.values(), "")

    def ask(self, groups: Sequence[str], what: str, call: Call[Answer]) -> dict[str, Answer | YakError]:
        """The answer of each group's coordinator; `what` is the message of an error, with `{}` for the group's name.

        When a coordinator moves, loads or disconnects, the request is retried until the timeout. So `call` must be
        repeatable.
        """
        wanted = list(dict.fromkeys(groups))
        results: dict[str, Answer | YakError] = {}
        for start in range(0, len(wanted), GROUPS_AT_ONCE):
            results |= self._ask(wanted[start : start + GROUPS_AT_ONCE], what, call)
        return results

    def _ask(self, pending: list[str], what: str, call: Call[Answer]) -> dict[str, Answer | YakError]:
        results: dict[str, Answer | YakError] = {}
        reasons: dict[str, YakError] = {}
        deadline = time.monotonic() + self.admin.timeout_s
        while pending:
            by_address, reasons = self._find(pending, what)
            results |= {name: error for name, error in reasons.items() if not _passes(error)}
            for address, names in by_address.items():
                try:
                    answered = call(self._connection(address), names)
                except OSError as error:
                    self._close(address)
                    reasons |= {name: _silent(address, error, what.format(name)) for name in names}
                    continue
                for name in names:
                    code, answer = answered.get(name, (UNKNOWN, None))
                    if code in RETRIED:
                        reasons[name] = failure(code, what.format(name))
                    else:
                        results[name] = failure(code, what.format(name)) if code else cast("Answer", answer)
            pending = [name for name in pending if name not in results]
            if pending and time.monotonic() >= deadline:
                return results | {name: reasons[name] for name in pending}
            if pending:
                time.sleep(PAUSE_S)
        return results

    def coordinators(self, groups: Sequence[str]) -> dict[str, Broker]:
        """The present coordinator of each group. Raises YakError (`no-coordinator`) after the timeout."""
        found: dict[str, Broker] = {}

        def note(connection: RawConnection, names: Sequence[str]) -> dict[str, tuple[int, None]]:
            found.update(
                (name, next(each for each in self.brokers.values() if each.address == connection.address))
                for name in names
            )
            return dict.fromkeys(names, (0, None))

        for answer in self.ask(groups, 'no coordinator was found for group "{}"', note).values():
            answered(answer)
        return found

    def _find(self, groups: Sequence[str], what: str) -> tuple[dict[str, list[str]], dict[str, YakError]]:
        """Groups by their coordinator's address, and the reasons why others have none (FindCoordinator, key 10)."""
        answer, reason = None, None
        addresses = dict.fromkeys([self.admin.answered, *(each.address for each in self.brokers.values())])
        fields = {"key_type": _KEY_TYPES[self._coordinates], "coordinator_keys": list(groups)}
        for address in addresses:
            try:
                answer = self._connection(address).call(_FIND_COORDINATOR, fields)
                break
            except OSError as error:
                self._close(address)
                reason = address, error
        if answer is None:
            assert reason is not None
            return {}, {name: _silent(*reason, what.format(name)) for name in groups}
        by_address: dict[str, list[str]] = {}
        reasons = {name: failure(UNKNOWN, what.format(name), "the answer has no coordinator") for name in groups}
        for each in answer.coordinators:
            if int(each.error_code):
                reasons[each.key] = failure(int(each.error_code), what.format(each.key), each.error_message)
                continue
            broker = Broker(int(each.node_id), each.host, int(each.port))
            self.brokers[broker.node_id] = broker
            by_address.setdefault(broker.address, []).append(each.key)
            reasons.pop(each.key, None)
        return by_address, reasons

    def _connection(self, address: str) -> RawConnection:
        found = self._open.get(address)
        if found is None:
            found = self._open[address] = RawConnection(address, timeout_s=min(ANSWER_S, self.admin.timeout_s))
        return found

    def _close(self, address: str) -> None:
        found = self._open.pop(address, None)
        if found is not None:
            found.__exit__()


def _passes(error: YakError) -> bool:
    """Whether another FindCoordinator may help."""
    return getattr(error, "kafka_code", None) in RETRIED or isinstance(error, Unreachable)


def _silent(address: str, error: OSError, what: str) -> YakError:
    why = f"{address}: {error.strerror or error or type(error).__name__}".lower()
    return Unreachable("unreachable", what, why=f"the coordinator did not answer: {why}", try_=("yak doctor",))
