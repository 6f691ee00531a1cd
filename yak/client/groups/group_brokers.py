"""Requests about groups: to every broker, or to each group's coordinator, with retries while it moves.

The requests are raw ones, because librdkafka handles one group per request, has no call for OffsetDelete, and does
not expose the members' subscriptions. Kafka from 4.0 on and YAK support all the versions used here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, cast

from yak.client.admin import Admin
from yak.client.errors import from_kafka, reason_of
from yak.client.metadata import Broker
from yak.client.raw_connection import Api, RawConnection
from yak.client.reach import of_each
from yak.errors import Unreachable, YakError

_FIND_COORDINATOR: Final = 10, 4
LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
RETRIED: Final = frozenset({LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""Error codes of a coordinator that moves to another broker, or still loads its groups."""
PAUSE_S: Final = 0.1
ANSWER_S: Final = 3.0
"""How long a broker may take to answer; one that does not answer in this time is silent."""
GROUPS_AT_ONCE: Final = 500
"""Groups per request: even for large groups the response stays within a broker's limits."""
_KEY_TYPES: Final = {"group": 0, "transaction": 1}
UNKNOWN: Final = -1
"""UNKNOWN_SERVER_ERROR, for a group missing in a response."""

Answer = TypeVar("Answer")
Response = TypeVar("Response")
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
        """The response of each broker, and the brokers that gave none, with the reason.

        A broker that loads is asked until the timeout, and one that is gone for `ANSWER_S`, until it is fenced.
        """
        answers: dict[Broker, Any] = {}
        began = time.monotonic()
        left = self._all_brokers()
        while True:
            is_loading = False
            responses = of_each(left, lambda broker: self._send(broker.address, lambda to: to.call(api, fields)))
            for broker, answer in responses.items():
                if isinstance(answer, OSError):
                    left[broker] = reason_of(answer)
                elif not (code := int(answer.error_code)):
                    answers[broker] = answer
                    del left[broker]
                else:
                    is_loading = True
                    left[broker] = failure(code, "").why
                    if code not in RETRIED:
                        raise failure(code, f"broker {broker.node_id} does not list its {self._coordinates}s")
            patience_s = self.admin.timeout_s if is_loading else min(ANSWER_S, self.admin.timeout_s)
            if not left or time.monotonic() >= began + patience_s:
                return answers, left
            time.sleep(PAUSE_S)
            there = self._all_brokers()
            if any(broker not in there for broker in left):
                # A dead broker's groups have moved to a broker that may have answered before it loaded them.
                answers, left = {}, there

    def _all_brokers(self) -> dict[Broker, str]:
        self.brokers = self.admin.metadata().brokers
        return dict.fromkeys(self.brokers.values(), "")

    def ask(
        self, groups: Sequence[str], what: str, call: Call[Answer], *, known: Mapping[str, str] | None = None
    ) -> dict[str, Answer | YakError]:
        """The answer of each group's coordinator; `what` is the message of an error, with `{}` for the group's name.

        When a coordinator moves, loads or disconnects, the request is retried until the timeout. So `call` must be
        repeatable. `known` are addresses of coordinators, which need not be found before the first request.
        """
        wanted = list(dict.fromkeys(groups))
        results: dict[str, Answer | YakError] = {}
        for start in range(0, len(wanted), GROUPS_AT_ONCE):
            results |= self._ask(wanted[start : start + GROUPS_AT_ONCE], what, call, known or {})
        return results

    def _ask(
        self, pending: list[str], what: str, call: Call[Answer], known: Mapping[str, str]
    ) -> dict[str, Answer | YakError]:
        results: dict[str, Answer | YakError] = {}
        reasons: dict[str, YakError] = {}
        deadline = time.monotonic() + self.admin.timeout_s
        while pending:
            by_address, reasons = self._find(pending, what, known)
            known = {}
            results |= {name: error for name, error in reasons.items() if not passes(error)}
            for address, answered in self._send_each(by_address, call).items():
                names = by_address[address]
                if isinstance(answered, OSError):
                    reasons |= {name: _silent(address, answered, what.format(name)) for name in names}
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

    def _find(
        self, groups: Sequence[str], what: str, known: Mapping[str, str]
    ) -> tuple[dict[str, list[str]], dict[str, YakError]]:
        """Groups by their coordinator's address, and the reasons why others have none (FindCoordinator, key 10)."""
        by_address: dict[str, list[str]] = {}
        for name in groups:
            if known.get(name):
                by_address.setdefault(known[name], []).append(name)
        keys = [name for name in groups if not known.get(name)]
        if not keys:
            return by_address, {}
        addresses = dict.fromkeys([self.admin.answered, *(each.address for each in self.brokers.values())])
        fields = {"key_type": _KEY_TYPES[self._coordinates], "coordinator_keys": keys}
        # a broker without a connection may be silent
        for address in sorted(addresses, key=lambda each: each not in self._open):
            answer = self._send(address, lambda to: to.call(_FIND_COORDINATOR, fields))
            if not isinstance(answer, OSError):
                break
        else:
            return by_address, {name: _silent(address, answer, what.format(name)) for name in keys}
        reasons = {name: failure(UNKNOWN, what.format(name), "the answer has no coordinator") for name in keys}
        for each in answer.coordinators:
            if int(each.error_code):
                reasons[each.key] = failure(int(each.error_code), what.format(each.key), each.error_message)
                continue
            broker = Broker(int(each.node_id), each.host, int(each.port))
            self.brokers[broker.node_id] = broker
            by_address.setdefault(broker.address, []).append(each.key)
            reasons.pop(each.key, None)
        return by_address, reasons

    def _send_each(
        self, by_address: Mapping[str, Sequence[str]], call: Call[Answer]
    ) -> dict[str, Mapping[str, tuple[int, Answer]] | OSError]:
        """What each coordinator answers for its groups."""
        return of_each(by_address, lambda address: self._send(address, lambda to: call(to, by_address[address])))

    def _send(self, address: str, send: Callable[[RawConnection], Response]) -> Response | OSError:
        """The answer of one broker; the connection stays open unless it fails."""
        try:
            found = self._open.get(address)
            if found is None:
                found = self._open[address] = RawConnection(address, timeout_s=min(ANSWER_S, self.admin.timeout_s))
            return send(found)
        except OSError as error:
            self._close(address)
            return error

    def _close(self, address: str) -> None:
        found = self._open.pop(address, None)
        if found is not None:
            found.__exit__()


def passes(error: YakError) -> bool:
    """Whether another FindCoordinator may help."""
    return error.kafka_code in RETRIED or isinstance(error, Unreachable)


def _silent(address: str, error: OSError, what: str) -> YakError:
    why = f"{address}: {reason_of(error)}".lower()
    return Unreachable("unreachable", what, why=f"the coordinator did not answer: {why}", try_=("yak doctor",))
