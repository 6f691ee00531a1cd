"""What the asynchronous API asks of an event loop, and work in threads that a loop can wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Loop(Protocol):
    """An event loop. `yak.aio` has asyncio's, `yak.trio` has Trio's."""

    cancelled: type[BaseException]
    """What is raised in a task that is cancelled."""

    async def wait(self, future: Future[_T]) -> _T:
        """The future's result. Cancelled, it leaves the future to itself."""

    async def wait_through(self, future: Future[_T]) -> _T:
        """The same, but a cancellation is heard only when the future is done."""

    async def sleep(self, seconds: float) -> None:
        """Let others run, for this long at least; 0 only looks whether we are cancelled."""

    def shielded(self) -> AbstractContextManager[object]:
        """Inside, waiting works also in a task that is cancelled."""


def in_thread(work: Callable[[], _T]) -> Future[_T]:
    """Start work in a thread of its own. Its end can be waited for or not: the thread keeps no program from ending."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=settle, args=(future, work), name="yak-call", daemon=True).start()
    return future


def settle(future: Future[_T], work: Callable[[], _T]) -> None:
    """Do the work here, and have the future hold what came of it."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the future is waited for
        future.set_exception(error)
    else:
        future.set_result(result)
