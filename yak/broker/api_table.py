"""The APIs that a broker serves: each has a key, versions, and a handler `handle(broker, call) -> Outcome`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from yak.broker.call import Call, Outcome, Slices

if TYPE_CHECKING:
    from yak.broker.broker import Broker


Handler: TypeAlias = Callable[["Broker", Call], Outcome]


class Api(NamedTuple):
    """One API. A file of one API has these names itself."""

    KEY: int
    NAME: str
    VERSIONS: range
    handle: Handler
    ABSENT: tuple[str, ...] = ()
    """Features left out on purpose."""
    slices: Callable[[Broker, Call], Slices] | None = None
    """The handler of a large request, which yields every few hundred elements (`yak.broker.large_requests`)."""


@dataclass(frozen=True, slots=True)
class ApiTable:
    """The handlers of all APIs, by key and version (`yak.broker.apis`)."""

    handlers: Mapping[tuple[int, int], Handler]
    sliced: Mapping[tuple[int, int], Callable[[Broker, Call], Slices]]
    names: Mapping[int, str]
    refuse_version: Handler
    """Answers an ApiVersions request of an unknown version (KIP-511)."""
