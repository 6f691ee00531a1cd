"""A cluster from recorded answers and events, for tests and screenshots. It gives the same picture each time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlencode

from yak.errors import YakError
from yak.tui.source.base import Event

if TYPE_CHECKING:
    from yak.tui.source.local_control import LocalClusterControl

P = ParamSpec("P")
T = TypeVar("T")


class RecordedSource:
    """A source that replays recorded answers, events and calls.

    `answers` are keyed by `"GET /api/groups"` (with `?...` where the parameters matter), `calls` by function name.
    An answer may be a function of the parameters. A request without a recorded answer raises YakError `not-recorded`.
    `requests` logs all requests.
    """

    def __init__(
        self,
        answers: Mapping[str, Any],
        events: list[Event],
        *,
        title: str = "local",
        calls: Mapping[str, Any] | None = None,
        local: "LocalClusterControl | None" = None,
    ) -> None:
        self.title = title
        self.local = local
        self.bootstrap = "127.0.0.1:9092"
        self.progress = ""
        self.lacks: tuple[str, ...] = ()
        self.answers = dict(answers)
        self.events = events
        self.calls = dict(calls or {})
        self.requests: list[tuple[str, str, Any]] = []
        self.more: asyncio.Queue[Event] = asyncio.Queue()
        """Later events: a test adds them."""

    async def ask(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """The recorded answer. Raises YakError `not-recorded`, or the recorded error."""
        self.requests.append((method, path, body))
        plain = f"{method} {path}"
        full = f"{plain}?{urlencode(params)}" if params else plain
        for name in (full, plain):
            if name in self.answers:
                found = self.answers[name]
                if isinstance(found, YakError):
                    raise found
                return found(params or {}) if callable(found) else found
        raise YakError("not-recorded", f"nothing is recorded for {full}")

    async def follow(self) -> AsyncIterator[Event]:
        """All events at once, then those added to `more`."""
        for event in self.events:
            yield event
        while True:
            yield await self.more.get()

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The recorded result of the function, by its name; if a function is recorded, it is called."""
        name = getattr(function, "__name__", str(function))
        if name not in self.calls:
            raise YakError("not-recorded", f"nothing is recorded for {name}")
        found = self.calls[name]
        if isinstance(found, YakError):
            raise found
        return found(*args, **kwargs) if callable(found) else found  # type: ignore[no-any-return]

    async def close(self) -> None:
        pass
