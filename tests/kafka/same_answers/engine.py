"""The same requests to Apache Kafka and to YAK, and where their answers differ.

A scenario is a function of a `Side`: it asks, and may use earlier answers of its own side. It runs once for each side with
the same random numbers. What cannot be equal (ids, ports, texts of errors) is replaced in the recorded answers.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import random
import re
import time
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from kio.serial.errors import OutOfBoundValue

from tests.integration.support.raw import Closed, RawClient
from yak.protocol.record_batch import BatchHeader, iterate_headers
from yak.sim.wire import nested, read_answer, request_class, request_frame

Scenario = Callable[["Side", random.Random], None]

PATIENCE_SECONDS: Final = 8.0
PASSING: Final = re.compile("concurrent_transactions|coordinator_(load|not)|not_coordinator|leader_not_available")
"""Errors after which a request is sent again."""
UNEQUAL: Final = {"port", "cluster_id", "throttle_time", "crc", "batch_length"}


def filled(cls: Any, fields: dict[str, Any]) -> Any:
    """A kio structure from plain values: fields that this version does not have are dropped, absent ones are empty."""
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if field.name in fields:
            values[field.name] = _value(cls, field.name, hints[field.name], fields[field.name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            values[field.name] = _empty(hints[field.name])
    return cls(**values)


def _value(cls: Any, name: str, hint: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return filled(nested(cls, name), value)
    if isinstance(value, (list, tuple)):
        return tuple(filled(nested(cls, name), each) if isinstance(each, dict) else each for each in value)
    is_time = "timedelta" in repr(hint).lower() and isinstance(value, int)
    return dt.timedelta(milliseconds=value) if is_time else value


def _empty(hint: Any) -> Any:
    """An empty array, text or structure, null, 0 or 5 s."""
    if "None" in repr(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return filled(hint, {})
    if "timedelta" in repr(hint).lower():
        return dt.timedelta(seconds=5)
    return "" if issubclass(getattr(hint, "__supertype__", hint), str) else 0


def plain(value: Any) -> Any:
    """An answer as dicts, lists, numbers and texts."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dt.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    return value


class Side:
    """One of the brokers. `trace` has what a scenario asked and was answered, in comparable form."""

    def __init__(self, name: str, port: int, run: str) -> None:
        self.name, self.port, self.run = name, port, run
        self.trace: list[tuple[str, Any]] = []
        self.hidden: frozenset[str] = frozenset()
        """Fields that are not compared."""
        self._aliases: dict[Any, str] = {}
        self._raw: RawClient | None = None

    def topic(self, name: str) -> str:
        """A topic's name that no earlier run has used."""
        return f"{name}-{self.run}"

    def close(self) -> None:
        """Close the connection."""
        if self._raw is not None:
            self._raw.sock.close()
            self._raw = None

    def ask(self, api_key: int, version: int, *, note: str = "", **fields: Any) -> Any:
        """Send, record and return the plain answer; "closed" or another word instead of one. Passing errors are retried."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.once(api_key, version, **fields)
            if not PASSING.search(repr(answer)) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        name = request_class(api_key, version).__name__.removesuffix("Request")
        self.record(f"{name} v{version} {note}", answer)
        return answer

    def record(self, request: str, answer: Any) -> None:
        """Record a plain answer to what was asked."""
        self.trace.append((request.replace(self.run, "RUN"), self._comparable("", answer)))

    def once(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send once, record nothing."""
        if self._raw is None:
            self._raw = RawClient(self.port)
        self._raw.send_frame(request_frame(api_key, version, 1, filled(request_class(api_key, version), fields)))
        try:
            return plain(read_answer(api_key, version, self._raw.receive_frame())[1])
        except Closed:
            self.close()
            return "closed"
        except TimeoutError:
            self.close()
            return "no answer"
        except OutOfBoundValue:  # of kio: Kafka's -1 for the start of a transaction that has not begun
            return "a negative time"

    def _comparable(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._comparable(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._comparable(name, each) for each in value]
        if isinstance(value, bytes):
            return [self._comparable("batch", _fields_of(header)) for _, header in iterate_headers(value)]
        if isinstance(value, uuid.UUID):
            return self._aliases.setdefault(value, f"id{len(self._aliases)}")
        if (name == "producer_id" and value >= 0) or (name == "session_id" and value > 0):
            return self._aliases.setdefault((name, value), f"{name}{len(self._aliases)}")
        if name in self.hidden or name in UNEQUAL or (name.endswith("error_message") and value is not None):
            return name
        return value.replace(self.run, "RUN") if isinstance(value, str) else value


def _fields_of(header: BatchHeader) -> dict[str, Any]:
    """The fields of a batch's header; a marker has the times at which its broker wrote it."""
    return header._asdict() | ({"base_timestamp": None, "max_timestamp": None} if header.is_control else {})


def unlike(path: str, one: Any, two: Any) -> Iterator[str]:
    """Where two recorded answers differ. An error text that only YAK has is no difference, nor is null for no items."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *(key for key in two if key not in one)]:
            yield from unlike(f"{path}.{key}" if path else key, one.get(key, "absent"), two.get(key, "absent"))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, (each, other) in enumerate(zip(one, two, strict=True)):
            yield from unlike(f"{path}[{number}]", each, other)
    elif one != two and not (path.endswith("error_message") and one is None) and (one or two or one == 0 or two == 0):
        yield f"{path}: {one!r} | {two!r}"


def differences(scenario: Scenario, ports: dict[str, int], seed: int = 0) -> list[str]:
    """Run a scenario for both; each difference, with what was asked."""
    run = f"{scenario.__name__.replace('_', '')}{seed}x{time.time_ns() // 1_000_000 % 100_000_000}"
    sides = [Side(name, port, run) for name, port in ports.items()]
    for side in sides:
        try:
            scenario(side, random.Random(seed))
        except (AssertionError, KeyError, IndexError, TypeError) as error:
            side.trace.append(("scenario ended", repr(error)))
        finally:
            side.close()
    found = []
    for one, two in itertools.zip_longest(sides[0].trace, sides[1].trace, fillvalue=("nothing", None)):
        if one[0] != two[0]:
            return [*found, f"{one[0]} | {two[0]}: not the same question"]
        if paths := list(unlike("", one[1], two[1])):
            found.append(f"{one[0]}\n    " + "\n    ".join(path[:600] for path in paths[:8]))
    return found
