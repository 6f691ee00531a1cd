"""The thread of one asynchronous consumer, and its calls back into the event loop.

A call is work for the thread. A rebalance can happen within it; then the task that made the call runs the caller's
coroutine. So YAK creates no task, and cancel scopes and context variables are the caller's. While the coroutine runs,
the thread blocks inside librdkafka and runs the consumer calls of the coroutine (`await consumer.commit()`), which must
complete before the rebalance goes on.
"""

import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from yak.client.api.failures import closed

_Result = TypeVar("_Result")
_Blocking = TypeVar("_Blocking")
_Parameters = ParamSpec("_Parameters")


class Loop(Protocol):
    """An event loop. `yak.aio` has asyncio's, `yak.trio` has Trio's."""

    cancelled: type[BaseException]
    """The exception that is raised in a cancelled task."""

    async def wait(self, future: Future[_Result]) -> _Result:
        """The future's result. A cancellation leaves the future running."""

    async def wait_through(self, future: Future[_Result]) -> _Result:
        """As `wait`, but a cancellation takes effect only when the future is done."""

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks for at least this long; 0 only checks for a cancellation."""

    def shielded(self) -> AbstractContextManager[object]:
        """A scope in which a cancelled task can still await."""


def in_thread(work: Callable[[], _Result]) -> Future[_Result]:
    """Start work in a new daemon thread, which does not keep the program from ending."""
    future: Future[_Result] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=settle, args=(future, work), name="yak-call", daemon=True).start()
    return future


def settle(future: Future[_Result], work: Callable[[], _Result]) -> None:
    """Run the work here, and store its result or exception in the future."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the future is waited for
        future.set_exception(error)
    else:
        future.set_result(result)


def awaited(
    method: Callable[Concatenate[_Blocking, _Parameters], _Result],
) -> Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Result]]:
    """A method of a blocking client as a coroutine of the asynchronous one, whose `_call` runs it in a thread."""

    @wraps(method)
    async def call(self: Any, /, *arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        result: _Result = await self._call(lambda blocking: method(blocking, *arguments, **options))
        return result

    return call


_T = TypeVar("_T")
Visit: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class _Question:
    """A coroutine for the event loop to run, and the calls of that coroutine for the thread; None ends it."""

    ask: Callable[[], Awaitable[None]]
    visits: "queue.SimpleQueue[Visit | None]" = field(default_factory=queue.SimpleQueue)


@dataclass(slots=True)
class _Call(Generic[_T]):
    """Work for the thread; `step` is done when the thread has a question, or is finished (`done`)."""

    step: "Future[_Question | None]" = field(default_factory=Future)
    done: "Future[_T]" = field(default_factory=Future)


_asking_worker: "ContextVar[Worker | None]" = ContextVar("asking_worker", default=None)
"""Within the coroutine that a worker's thread waits for: that worker."""


class Worker:
    """One thread that runs calls in sequence. Calls come from one event loop."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._visits: queue.SimpleQueue[Visit | None] | None = None
        """While a question is being answered: the queue to the waiting thread."""
        self._current: _Call[Any] | None = None
        """The call that the thread runs; used only by the thread."""
        self._is_ended = False

    async def run(self, work: Callable[[], _T], *, is_last: bool = False, reads: bool = False) -> _T:
        """Run the work in the thread. A cancellation takes effect before the work begins, or when it is done.

        The last work, which closes the consumer, is done in any case. Neither it nor a read runs while the coroutine of
        another task is being run: librdkafka can do neither within a rebalance. Raises UsageError (`closed`) after `end`.
        """
        if self._is_ended:
            raise closed("consumer")
        call: _Call[_T] = _Call()
        if self._visits is not None and (_asking_worker.get() is self or not (is_last or reads)):
            self._visits.put(partial(settle, call.done, work))
            return await self._loop.wait_through(call.done)
        queued = self._pool.submit(self._do, call, work)
        stopped: BaseException | None = None
        try:
            await self._loop.wait(call.step)
        except (self._loop.cancelled, KeyboardInterrupt) as error:  # without answers the thread would wait for ever
            if not is_last and queued.cancel():
                raise
            stopped = error
        await self._finish(call, stopped)
        return call.done.result()

    async def _finish(self, call: _Call[Any], stopped: BaseException | None) -> None:
        """Answer the thread's questions until the call is done; only then raise a cancellation or error."""
        while True:
            try:
                question = await self._loop.wait_through(call.step)
            except (self._loop.cancelled, KeyboardInterrupt) as error:
                stopped = stopped or error
                continue
            if question is None:
                break
            call.step = Future()
            self._visits = question.visits
            token = _asking_worker.set(self)
            try:
                await question.ask()
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - raised when the thread is done
                stopped = stopped or error
            finally:
                _asking_worker.reset(token)
                self._visits = None
                question.visits.put(None)
        if stopped is not None:
            raise stopped

    def _do(self, call: _Call[_T], work: Callable[[], _T]) -> None:
        self._current = call
        settle(call.done, work)
        self._current = None
        call.step.set_result(None)

    def ask(self, coroutine: Callable[[], Awaitable[None]]) -> None:
        """Called within the thread's work: let the loop run this coroutine, and run the coroutine's calls meanwhile."""
        call = self._current
        assert call is not None, "callbacks run within a call"
        question = _Question(coroutine)
        call.step.set_result(question)
        while (visit := question.visits.get()) is not None:
            visit()

    def end(self) -> None:
        """Accept no more calls; the thread ends by itself."""
        self._is_ended = True
        self._pool.shutdown(wait=False)
