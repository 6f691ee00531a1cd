"""Trio's wait with that of a selector in it, and a task's wait for a selector."""

import selectors
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import trio
import trio.testing

from yak.server.io_wait import Ready, SelectorWait

WAYS = pytest.mark.parametrize("is_joined", [True, False], ids=["in Trio's wait", "in a task"])


@contextmanager
def readable() -> Iterator[tuple[selectors.DefaultSelector, socket.socket]]:
    """A selector with one socket that stays readable, and that socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs, selectors.DefaultSelector() as selector:
        selector.register(ours, selectors.EVENT_READ)
        theirs.sendall(b"x")
        yield selector, ours


@asynccontextmanager
async def serving(
    selector: selectors.DefaultSelector,
    serve: Callable[[Ready], None],
    is_due: Callable[[], bool] = lambda: False,
    *,
    is_joined: bool = True,
) -> AsyncIterator[SelectorWait]:
    """The selector is served meanwhile: by Trio's wait, or by a task since that serves another."""
    with selectors.DefaultSelector() as other:
        async with trio.open_nursery() as nursery:
            if not is_joined:
                nursery.start_soon(SelectorWait(other, lambda _ready: None, lambda: False).run)
                await trio.testing.wait_all_tasks_blocked()
            wait = SelectorWait(selector, serve, is_due)
            nursery.start_soon(wait.run)
            yield wait
            nursery.cancel_scope.cancel()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        with trio.fail_after(5):
            await main()

    trio.run(limited)


@WAYS
def test_ready_socket_is_served(*, is_joined: bool) -> None:
    with readable() as (selector, sock):

        async def main() -> None:
            served = trio.Event()

            def serve(_ready: Ready) -> None:
                assert sock.recv(1) == b"x"
                served.set()

            async with serving(selector, serve, is_joined=is_joined):
                await served.wait()

        run(main)


@WAYS
def test_a_deadline_passes_while_the_selector_is_always_ready(*, is_joined: bool) -> None:
    with readable() as (selector, _sock):

        async def main() -> None:
            async with serving(selector, lambda _ready: None, is_joined=is_joined):
                await trio.sleep(0.01)

        run(main)


def test_deadline_that_serving_moves_earlier_is_met() -> None:
    with readable() as (selector, sock):

        async def main() -> None:
            with trio.move_on_after(60) as limit:

                def serve(_ready: Ready) -> None:
                    sock.recv(1)
                    limit.deadline = trio.current_time() + 0.01

                async with serving(selector, serve):
                    await trio.sleep_forever()
            assert limit.cancelled_caught

        run(main)


@WAYS
def test_files_of_trio_are_served_while_the_selector_is_always_ready(*, is_joined: bool) -> None:
    with readable() as (selector, _sock):

        async def main() -> None:
            left, right = trio.socket.socketpair()
            with left, right:
                async with serving(selector, lambda _ready: None, is_joined=is_joined), trio.open_nursery() as nursery:
                    nursery.start_soon(left.send, b"hello")
                    assert await right.recv(5) == b"hello"
                    assert await trio.to_thread.run_sync(lambda: 7) == 7

        run(main)


@WAYS
def test_due_work_is_served_in_every_pass_although_no_socket_is_ready(*, is_joined: bool) -> None:
    async def main() -> None:
        left = 0
        done = trio.Event()

        def serve(_ready: Ready) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set()

        with selectors.DefaultSelector() as selector:
            async with serving(selector, serve, lambda: left > 0, is_joined=is_joined) as wait:
                await trio.testing.wait_all_tasks_blocked()
                left = 3
                wait.wake()
                await done.wait()

    run(main)


@WAYS
def test_an_error_in_serving_ends_the_run_as_a_task_does(*, is_joined: bool) -> None:
    with readable() as (selector, _sock):

        def serve(_ready: Ready) -> None:
            raise ZeroDivisionError

        async def main() -> None:
            async with serving(selector, serve, is_joined=is_joined):
                await trio.sleep_forever()

        with pytest.raises(ExceptionGroup) as raised:
            run(main)
    assert raised.value.subgroup(ZeroDivisionError)


def test_trio_waits_as_before_at_the_end() -> None:
    with readable() as (selector, _sock):

        async def main() -> None:
            served: list[Ready] = []
            async with serving(selector, served.append):
                await trio.sleep(0.01)
            count = len(served)
            assert count
            await trio.sleep(0.01)
            assert len(served) == count
            assert len(selector.get_map()) == 1

        run(main)


def test_the_clock_of_a_test_still_jumps() -> None:
    async def main() -> None:
        with selectors.DefaultSelector() as selector:
            async with serving(selector, lambda _ready: None):
                await trio.sleep(10_000)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
