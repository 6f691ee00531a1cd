"""A cluster out of files: answers and events that were recorded, for tests and pictures. The same picture each time."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlencode

from yak.errors import YakError
from yak.tui.source.base import Event, LocalControl

P = ParamSpec("P")
T = TypeVar("T")


class RecordedSource:
    """`answers` by `"GET /api/groups"` (with `?...` where the parameters matter), `events` in order, `calls` by function name.
    An answer may be a function of the parameters.

    What is asked and is not there is a YakError `not-recorded`; what was asked is in `asked`.
    """

    def __init__(
        self,
        answers: Mapping[str, Any],
        events: list[Event],
        *,
        title: str = "local",
        calls: Mapping[str, Any] | None = None,
        local: LocalControl | None = None,
    ) -> None:
        self.title = title
        self.local = local
        self.bootstrap = "127.0.0.1:9092"
        self.progress = ""
        self.answers = dict(answers)
        self.events = events
        self.calls = dict(calls or {})
        self.asked: list[tuple[str, str, Any]] = []
        self.more: asyncio.Queue[Event] = asyncio.Queue()
        """Events for later: a test puts them in."""

    @classmethod
    def load(cls, path: str | Path, **more: Any) -> "RecordedSource":
        """From a JSON file with `answers`, `events` and `calls`."""
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(found["answers"], found["events"], calls=found.get("calls"), **more)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        node_id: int | None = None,  # noqa: ARG002 - all brokers say the same
    ) -> Any:
        """What was recorded. Raises YakError `not-recorded`, or what the record says that it raises."""
        self.asked.append((method, path, body))
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
        """All events at once, then those that are put into `more`."""
        for event in self.events:
            yield event
        while True:
            yield await self.more.get()

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What was recorded under the function's name; a function in its place is called."""
        name = getattr(function, "__name__", str(function))
        if name not in self.calls:
            raise YakError("not-recorded", f"nothing is recorded for {name}")
        found = self.calls[name]
        if isinstance(found, YakError):
            raise found
        return found(*args, **kwargs) if callable(found) else found  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Nothing to close."""
