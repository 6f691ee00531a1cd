"""The demo as the app sees it: a starting cluster, then a normal one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from yak.errors import YakError
from yak.tui.demo.run import DemoRun
from yak.tui.demo.state import DemoState
from yak.tui.source.base import Event
from yak.tui.source.live import LiveSource
from yak.tui.source.local_control import LocalClusterControl

P = ParamSpec("P")
T = TypeVar("T")

_POLL_SECONDS: Final = 0.05
TITLE: Final = "demo"


class DemoSource:
    """See `ClusterSource`. Requests wait until the cluster is up; `demo` is the supervisor's reported state."""

    title = TITLE
    lacks = ()

    def __init__(self, run: DemoRun) -> None:
        self._run = run
        self._live: LiveSource | None = None
        self.local: LocalClusterControl | None = LocalClusterControl(run.data_dir)

    @property
    def demo(self) -> DemoState:
        """The progress of the start, and the clients' counters."""
        return self._run.state

    @property
    def progress(self) -> str:
        """The step in progress; empty once the cluster is up."""
        state = self._run.state
        if state.phase == "starting":
            return f"The demo begins: {state.step} ..."
        if state.phase == "failed" and state.error is not None:
            why = f": {state.error.why}" if state.error.why else ""
            return f"The demo failed: {state.error.message}{why}. Q ends it."
        return ""

    @property
    def bootstrap(self) -> str:
        """The addresses that Kafka clients connect to first; empty while the cluster starts."""
        return self._live.bootstrap if self._live is not None else self._run.state.bootstrap

    async def _up(self) -> LiveSource:
        """Wait for the cluster. Raises the YakError that prevented its start."""
        while self._live is None:
            state = self._run.state
            if state.error is not None:
                raise state.error
            if state.phase == "running":
                self._live = LiveSource(state.bootstrap, title=TITLE, http=state.http, local=self.local)
            else:
                await asyncio.sleep(_POLL_SECONDS)
        return self._live

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        return await (await self._up()).ask(method, path, **more)

    async def kafka(self, function: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await (await self._up()).kafka(function, *args, **kwargs)

    async def follow(self) -> AsyncIterator[Event]:
        """The progress of the start, then the cluster's events; and `source` whenever the clients have counted."""
        events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        state = self._run.state

        def changed() -> None:
            event = {"kind": "source", "time_ms": state.counted_ms or 0}
            loop.call_soon_threadsafe(events.put_nowait, event)

        self._run.on_change = changed
        live: asyncio.Task[None] | None = None
        try:
            live = asyncio.create_task(self._listen(events))
            while True:
                yield await events.get()
        finally:
            self._run.on_change = lambda: None
            if live is not None:
                live.cancel()
                await asyncio.gather(live, return_exceptions=True)

    async def _listen(self, events: "asyncio.Queue[Event]") -> None:
        try:
            source = await self._up()
        except YakError:
            return  # `progress` reports the failure
        async for event in source.follow():
            await events.put(event)

    async def close(self) -> None:
        if self._live is not None:
            await self._live.close()
