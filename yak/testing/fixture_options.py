"""The cluster and topic that a test requests: by its parameter, its markers, the command line and the ini file.

Precedence, highest first: indirect parameter, the function's marker, the class's, the module's, the command line, the
ini file.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from yak.testing.shape import AS_KAFKA, ClusterShape

MARKER: Final = "yak"
_BROKERS: Final = 1
_LOG_LINES: Final = 40
_CLUSTER_OPTIONS: Final = ("brokers", "configs", "fresh", "as_kafka")
_TOPIC_OPTIONS: Final = ("partitions", "replication_factor", "topic_configs")
_MERGED: Final = ("configs", "topic_configs")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")
_NAME_LENGTH_MAX: Final = 100
"""Limit of the readable part of a topic's name: Kafka allows 249 characters in all."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults for tests that request nothing."""

    brokers: int = _BROKERS
    configs: tuple[tuple[str, str], ...] = ()
    fresh: bool = False
    log_lines: int = _LOG_LINES
    """Lines of each broker's log in the report of a failed test."""

    @classmethod
    def of(cls, config: pytest.Config) -> "Defaults":
        """From the command line and the ini file. Raises pytest's UsageError."""
        pairs = [*config.getini("yak_configs"), *(config.getoption("yak_configs") or [])]
        as_kafka = config.getoption("yak_as_kafka") or config.getini("yak_as_kafka")
        found = cls(
            brokers=_number(config, "yak_brokers", _BROKERS, least=1),
            configs=(*map(_pair, pairs), *([(AS_KAFKA, as_kafka)] if as_kafka else [])),
            fresh=bool(config.getoption("yak_fresh") or config.getini("yak_fresh")),
            log_lines=_number(config, "yak_log_lines", _LOG_LINES, least=0),
        )
        try:
            ClusterShape.of(found.brokers)
        except ValueError as error:
            raise pytest.UsageError(f"--yak-brokers or yak_brokers: {error}") from None
        return found


@dataclass(frozen=True, slots=True)
class WantedCluster:
    """The requested `yak_cluster`."""

    shape: ClusterShape
    fresh: bool


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """The requested `yak_topic`."""

    partitions: int
    replication_factor: int | None
    configs: Mapping[str, object]


def wanted_cluster(request: pytest.FixtureRequest, *, fresh: bool = False) -> WantedCluster:
    """The cluster of a test, always a new one if `fresh`; fails the test for unknown options."""
    options = _options(request, _CLUSTER_OPTIONS, "brokers")
    defaults = Defaults.of(request.config)
    configs = {**dict(defaults.configs), **options.get("configs", {})}
    if options.get("as_kafka") is not None:
        configs[AS_KAFKA] = options["as_kafka"]
    try:
        shape = ClusterShape.of(options.get("brokers", defaults.brokers), configs)
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)
    return WantedCluster(shape, fresh or bool(options.get("fresh", defaults.fresh)))


def wanted_topic(request: pytest.FixtureRequest) -> WantedTopic:
    """The topic of a test; fails the test for unknown options."""
    options = _options(request, _TOPIC_OPTIONS, "partitions")
    return WantedTopic(
        options.get("partitions", 1), options.get("replication_factor"), options.get("topic_configs", {})
    )


def topic_name(node: pytest.Item) -> str:
    """A valid, unique topic name that includes the test's name.

    It has no dot or underscore, which collide in Kafka's metrics (Topic.hasCollision).
    """
    readable = _NOT_IN_A_NAME.sub("-", node.name).strip("-")[:_NAME_LENGTH_MAX]
    return f"{readable or 'test'}-{uuid.uuid4().hex[:12]}"


def _options(request: pytest.FixtureRequest, known: tuple[str, ...], of_a_number: str) -> dict[str, Any]:
    """The options of the markers and the parameter for one of the two fixtures."""
    found: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        _take(found, mark.args, mark.kwargs, f"@pytest.mark.{MARKER}")
    parameter = getattr(request, "param", None)
    if isinstance(parameter, Mapping):
        _take(found, (), dict(parameter), f"the parameter of {request.fixturename}")
    elif parameter is not None:
        _take(found, (), {of_a_number: parameter}, f"the parameter of {request.fixturename}")
    return {word: value for word, value in found.items() if word in known}


def _take(found: dict[str, Any], args: tuple[object, ...], given: Mapping[str, Any], where: str) -> None:
    options = (*_CLUSTER_OPTIONS, *_TOPIC_OPTIONS)
    wrong = [*map(repr, args), *(word for word in given if word not in options)]
    if wrong:
        pytest.fail(f"{where} does not know {', '.join(wrong)}; it takes {'=, '.join(options)}=", pytrace=False)
    for word, value in given.items():
        if word in _MERGED:
            if not isinstance(value, Mapping):
                pytest.fail(f"{where}: {word} is a dict of Kafka's config names and values", pytrace=False)
            value = {**found.get(word, {}), **value}
        found[word] = value


def _number(config: pytest.Config, name: str, default: int, *, least: int) -> int:
    given = config.getoption(name)
    text = str(config.getini(name) or default if given is None else given)
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        option = f"--{name.replace('_', '-')} or {name}"
        raise pytest.UsageError(f"{option}: {text!r} is not a number from {least} on")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise pytest.UsageError(f"--yak-config or yak_configs: {text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
