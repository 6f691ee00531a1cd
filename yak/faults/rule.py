"""One fault rule: what happens to which requests, and how often."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NoReturn

from yak.errors import ErrorCode, UsageError, closest
from yak.faults.rows import PARTITIONED, TOPICAL

DELAY_MS_MAX: Final = 3_600_000
TEXT_LENGTH_MAX: Final = 249
"""Of a topic (Kafka's limit), a client id, and the id of a rule."""
_INT32_MAX: Final = 2**31 - 1
_PREFIX: Final = "*"
_LISTED_MAX: Final = 10
_CLOSE: Final = 0.5
"""How alike two names are to be mistaken for each other, as difflib's ratio."""


class FaultKind(StrEnum):
    """What a rule does (KAFKA-21074's names); the last two act on replicas, not on requests."""

    INJECT_ERROR = "inject_error"
    DISCONNECT_ON = "disconnect_on"
    DELAY_ON = "delay_on"
    BLACKHOLE_CLIENT = "blackhole_client"
    LAG_REPLICA = "lag_replica"
    FREEZE_ISR = "freeze_isr"


OF_REPLICAS: Final = frozenset({FaultKind.LAG_REPLICA, FaultKind.FREEZE_ISR})
_OF_REQUESTS: Final = frozenset({"client_id", "times", "on_call"})
_OF_AN_API: Final = _OF_REQUESTS | {"api", "topic", "partition"}
_FIELDS: Final[Mapping[FaultKind, frozenset[str]]] = {
    FaultKind.INJECT_ERROR: _OF_AN_API | {"error", "after"},
    FaultKind.DISCONNECT_ON: _OF_AN_API | {"after"},
    FaultKind.DELAY_ON: _OF_AN_API | {"delay_ms"},
    FaultKind.BLACKHOLE_CLIENT: _OF_REQUESTS,
    FaultKind.LAG_REPLICA: frozenset({"topic", "partition", "broker", "delay_ms"}),
    FaultKind.FREEZE_ISR: frozenset({"topic", "partition"}),
}
_NEEDED: Final[Mapping[FaultKind, tuple[str, ...]]] = {
    FaultKind.INJECT_ERROR: ("api", "error"),
    FaultKind.DISCONNECT_ON: ("api",),
    FaultKind.DELAY_ON: ("api", "delay_ms"),
    FaultKind.BLACKHOLE_CLIENT: ("client_id",),
    FaultKind.LAG_REPLICA: ("topic", "partition", "broker"),
    FaultKind.FREEZE_ISR: ("topic",),
}
_NUMBERS: Final[Mapping[str, tuple[int, int]]] = {
    "times": (1, _INT32_MAX),
    "on_call": (1, _INT32_MAX),
    "delay_ms": (1, DELAY_MS_MAX),
    "partition": (0, _INT32_MAX),
    "broker": (0, _INT32_MAX),
}
_TEXTS: Final = frozenset({"id", "fault", "api", "error", "client_id", "topic"})


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One rule. None matches anything; `times` None: each matching call from the `on_call`-th on.

    A `client_id` that ends in `*` is a prefix. `after`: the request has its effect, and only the answer is changed.
    """

    rule_id: str
    fault: FaultKind
    api_key: int | None = None
    api: str | None = None
    error_code: ErrorCode | None = None
    delay_ms: int = 0
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    times: int | None = None
    on_call: int = 1
    after: bool = False

    def is_of_client(self, client_id: str | None) -> bool:
        """Whether requests with this client id match."""
        wanted, given = self.client_id, client_id or ""
        if wanted is None:
            return True
        return given.startswith(wanted[:-1]) if wanted.endswith(_PREFIX) else given == wanted

    def fires_on(self, call: int) -> bool:
        """Whether the rule acts on its `call`-th matching request, counted from 1."""
        return call >= self.on_call and (self.times is None or call < self.on_call + self.times)

    def names(self, topic: str | None, partition: int | None) -> bool:
        """Whether the rule is about a topic of a request; partition None: the request names the topic as a whole."""
        return (self.topic is None or self.topic == topic) and (
            partition is None or self.partition in (None, partition)
        )

    def hits(self, topic: str | None, partition: int | None) -> bool:
        """Whether the rule changes a row of an answer; partition None: the row is the topic's own."""
        return (self.topic is None or self.topic == topic) and self.partition in (None, partition)

    def as_json(self) -> dict[str, Any]:
        """The rule as it is given, without what it leaves open."""
        fields: dict[str, Any] = {
            "api": self.api,
            "error": None if self.error_code is None else self.error_code.name.upper(),
            "delay_ms": self.delay_ms or None,
            "client_id": self.client_id,
            "topic": self.topic,
            "partition": self.partition,
            "broker": self.broker,
            "times": self.times,
            "on_call": self.on_call if self.on_call != 1 else None,
            "after": self.after or None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return {"id": self.rule_id, "fault": str(self.fault), **given}


def parse_rule(fields: Mapping[str, Any], apis: Mapping[int, str]) -> FaultRule:
    """The rule that JSON fields describe; `apis` are the names of the APIs that clients may send, by key.

    `on_call` without `times` is that call alone. Raises UsageError (`bad-fault`) with the closest name for a wrong one.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        _check_type(name, value)
    rule_id = given.pop("id", "")
    if not rule_id:
        _refuse("a fault needs an id", "the caller chooses it, so that it is the same on all brokers")
    fault = FaultKind(_choose("fault", str(given.pop("fault", "")).replace("-", "_").lower(), list(FaultKind)))
    unknown = sorted(set(given) - _FIELDS[fault])
    if unknown:
        _refuse(f"{fault} takes no {unknown[0]}", f"it takes {', '.join(sorted(_FIELDS[fault]))}")
    for name in _NEEDED[fault]:
        if name not in given:
            _refuse(f"{fault} needs {name}", f"it needs {', '.join(_NEEDED[fault])}")
    if "partition" in given and "topic" not in given:
        _refuse("partition needs topic", "a partition is one of a topic")
    if "on_call" in given:
        given.setdefault("times", 1)
    if "api" in given:
        given["api_key"], given["api"] = _api_of(given["api"], apis)
        _check_place(given["api_key"], given["api"], given)
    if "error" in given:
        given["error_code"] = _error_of(given.pop("error"))
    return FaultRule(rule_id=rule_id, fault=fault, **given)


def _check_type(name: str, value: object) -> None:
    if name in _NUMBERS:
        least, most = _NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            _refuse(f"{name} is {_quoted(value)}", f"it is a number from {least} to {most}")
    elif name in _TEXTS:
        if not isinstance(value, str) or not 0 < len(value) <= TEXT_LENGTH_MAX or not value.isprintable():
            _refuse(f"{name} is {_quoted(value)}", f"it is a text of 1 to {TEXT_LENGTH_MAX} characters")
    elif name == "after":
        if not isinstance(value, bool):
            _refuse(f"after is {_quoted(value)}", "it is true or false")
    else:
        known = [*_TEXTS, *_NUMBERS, "after"]
        _refuse(f"a fault has no field {_quoted(name)}", _closest(name, known) or f"it has {', '.join(sorted(known))}")


def _api_of(text: str, apis: Mapping[int, str]) -> tuple[int, str]:
    """The API that a text names: Produce, PRODUCE, init_producer_id."""
    wanted = _plain(text)
    found = next(((key, name) for key, name in apis.items() if _plain(name) == wanted), None)
    if found is None:
        _refuse_choice("api", text, list(apis.values()))
    return found


def _error_of(text: str) -> ErrorCode:
    names = [code.name.upper() for code in ErrorCode if code is not ErrorCode.none]
    return ErrorCode[_choose("error", text.strip().upper(), names).lower()]


def _check_place(api_key: int, api: str, given: Mapping[str, Any]) -> None:
    """Raise UsageError if the API has no topics or partitions to which a fault could be narrowed."""
    if "topic" in given and api_key not in TOPICAL:
        _refuse(f"{api} has no result for a topic", "leave topic out, or name an API that has topics, such as Produce")
    if "partition" in given and api_key not in PARTITIONED:
        _refuse(f"{api} has no result for a partition", f"{api} has one for each topic: leave partition out")


def _choose(what: str, text: str, choices: Collection[str]) -> str:
    if text not in choices:
        _refuse_choice(what, text, choices)
    return text


def _refuse_choice(what: str, text: str, choices: Collection[str]) -> NoReturn:
    few = f"there are {', '.join(choices)}" if len(choices) <= _LISTED_MAX else "the names are Kafka's"
    _refuse(f'there is no {what} "{text}"' if text else f"{what} is missing", _closest(text, choices) or few)


def _closest(text: str, choices: Collection[str]) -> str:
    by_plain = {_plain(choice): choice for choice in choices}
    found = closest(_plain(text), by_plain, _CLOSE)
    return f"the closest name is {by_plain[found]}" if found else ""


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").strip().lower()


def _quoted(value: object) -> str:
    return repr(value)[:80]


def _refuse(message: str, why: str) -> NoReturn:
    raise UsageError("bad-fault", message, why=why, try_=("yak faults add --help",))
