"""Waits for the sockets of a selector in the place where Trio waits for its own, and serves them without a task.

A task that waits in Trio for a socket costs a second `epoll_wait`, a change of the registration and a pass of the
scheduler for each time that the socket is ready: some 40 us of the 250 that the broker takes for a single request, when
its caches are cold. Here the selector also has Trio's epoll, so one wait has both.

Trio's public interface has such a wait only in `start_guest_run`, which takes a thread for it. `_TrioWithSelector`
therefore takes the place of the `io_manager` of Trio's runner, which is not part of that interface. Where the runner
lacks a part that is used here (on another system, or in another version of Trio), or waits for a selector already, a task
waits for the selector as for any file.
"""

import selectors
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import trio
from trio._core import _run

Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]


class SelectorWait:
    """Calls `serve` with what is ready in a selector; while `is_due`, in each pass of the event loop even if nothing is.

    `serve` must not await: it may run between Trio's tasks.
    """

    def __init__(
        self, selector: selectors.DefaultSelector, serve: Callable[[Ready], None], is_due: Callable[[], bool]
    ) -> None:
        self.selector = selector
        self.is_due = is_due
        self._serve = serve
        self._wait: trio.CancelScope | None = None
        self._failed = trio.Event()
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Serve until cancelled. Raises what `serve` raises."""
        runner: Any = getattr(_run.GLOBAL_RUN_CONTEXT, "runner", None)
        manager: Any = getattr(runner, "io_manager", None)
        is_known = all(hasattr(manager, name) for name in ("_epoll", "get_events", "process_events")) and all(
            hasattr(runner, name) for name in ("runq", "deadlines", "clock")
        )
        if not is_known or isinstance(manager, _TrioWithSelector):
            await self._run_in_task()
            return
        trio_key = self.selector.register(manager._epoll.fileno(), selectors.EVENT_READ)  # noqa: SLF001
        runner.io_manager = _TrioWithSelector(runner, trio_key, self)
        try:
            await self._failed.wait()
        finally:
            runner.io_manager = manager
            self.selector.unregister(trio_key.fileobj)
        if self._failure is not None:
            raise self._failure

    async def _run_in_task(self) -> None:
        while True:
            with trio.CancelScope() as self._wait:
                if not self.is_due():
                    await trio.lowlevel.wait_readable(self.selector.fileno())
            await trio.lowlevel.checkpoint()
            self._serve(self.selector.select(0))

    def wake(self) -> None:
        """Call this when `is_due` becomes true."""
        if self._wait is not None:
            self._wait.cancel()

    def serve(self, ready: Ready) -> None:
        """Serve outside of a task; what that raises is raised in the task of `run`."""
        try:
            self._serve(ready)
        except BaseException as error:  # noqa: BLE001
            self._failure = error
            self._failed.set()


class _TrioWithSelector:
    """An `io_manager` of Trio that waits for a selector too."""

    def __init__(self, runner: Any, trio_key: selectors.SelectorKey, wait: SelectorWait) -> None:
        self._runner = runner
        self._manager = runner.io_manager
        self._trio_key = trio_key
        self._wait = wait
        self.process_events = self._manager.process_events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def get_events(self, timeout: float) -> Any:
        """Wait until Trio has an event, a task can run, or a deadline or `timeout` (seconds) has passed.

        Returns Trio's events. What is ready in the selector is served meanwhile, in one pass at least.
        """
        runner, trio_key = self._runner, self._trio_key
        select, is_due, serve = self._wait.selector.select, self._wait.is_due, self._wait.serve
        ends = time.perf_counter() + timeout
        while True:
            found = select(0 if is_due() else timeout)
            ready = [each for each in found if each[0] is not trio_key]
            if ready or is_due():
                serve(ready)
            if len(ready) != len(found):
                return self._manager.get_events(0)
            # what was served may have made a task runnable, or moved a deadline
            timeout = min(
                ends - time.perf_counter(), runner.clock.deadline_to_sleep_time(runner.deadlines.next_deadline())
            )
            if timeout <= 0 or runner.runq:
                return []
