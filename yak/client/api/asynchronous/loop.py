"""The event loop interface of the asynchronous API, and work in threads that a loop can await."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Loop(Protocol):
    """An event loop. `yak.aio` has asyncio's, `yak.trio` has Trio's."""

    cancelled: type[BaseException]
    """The exception that is raised in a cancelled task."""

    async def wait(self, future: Future[_T]) -> _T:
        """The future's result. A cancellation leaves the future running."""

    async def wait_through(self, future: Future[_T]) -> _T:
        """As `wait`, but a cancellation takes effect only when the future is done."""

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks for at least this long; 0 only checks for a cancellation."""

    def shielded(self) -> AbstractContextManager[object]:
        """A scope in which a cancelled task can still await."""


def in_thread(work: Callable[[], _T]) -> Future[_T]:
    """Start work in a new daemon thread, which does not keep the program from ending."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=settle, args=(future, work), name="yak-call", daemon=True).start()
    return future


def settle(future: Future[_T], work: Callable[[], _T]) -> None:
    """Run the work here, and store its result or exception in the future."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the future is waited for
        future.set_exception(error)
    else:
        future.set_result(result)
