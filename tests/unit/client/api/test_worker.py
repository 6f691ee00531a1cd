"""A consumer's thread and the event loop, on both loops: calls in turn, questions back, and clean cancellation."""

import asyncio
import functools
import os
import signal
import threading
import time
from concurrent.futures import Future

import pytest
import trio

import yak.aio
import yak.trio
from yak.client.api.asynchronous.worker import Worker, in_thread
from yak.client.api.failures import SendFailed
from yak.client.api.producer import Delivery
from yak.errors import UsageError


@pytest.fixture(params=[yak.aio.LOOP, yak.trio.LOOP], ids=["asyncio", "trio"])
def loop(request):
    return request.param


def run(loop, main):
    return trio.run(main) if loop is yak.trio.LOOP else asyncio.run(main())


def in_loop(test):
    """Run a test that is a coroutine in the loop that it gets."""

    @functools.wraps(test)
    def in_its_loop(loop, **fixtures):
        run(loop, functools.partial(test, loop, **fixtures))

    return in_its_loop


async def is_cancelled(loop, seconds, work):
    """Do this, but cancel it after a moment; whether it was cancelled."""
    if loop is yak.trio.LOOP:
        with trio.move_on_after(seconds) as scope:
            await work()
        return scope.cancelled_caught
    try:
        async with asyncio.timeout(seconds):
            await work()
    except TimeoutError:
        return True
    return False


@pytest.fixture
def worker(loop):
    made = Worker(loop, "test")
    yield made
    made.end()


@in_loop
async def test_calls_are_done_one_after_the_other_in_one_thread(loop, worker):
    first = await worker.run(threading.get_ident)
    assert first == await worker.run(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0)


@in_loop
async def test_call_after_the_end_of_a_worker_raises_closed(loop, worker):
    await worker.run(threading.get_ident, is_last=True)
    worker.end()
    with pytest.raises(UsageError, match="this consumer is closed") as refused:
        await worker.run(threading.get_ident)
    assert refused.value.code == "closed"


@in_loop
async def test_a_question_is_answered_by_the_task_that_called_and_can_use_the_thread_meanwhile(loop, worker):
    order = []

    async def answer():
        order.append(("answer", threading.get_ident()))
        await loop.sleep(0)
        order.append(("visit", await worker.run(threading.get_ident)))
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 / 0)

    def work():
        order.append(("work", threading.get_ident()))
        worker.ask(answer)
        worker.ask(answer)
        order.append(("done", threading.get_ident()))
        return 7

    assert await worker.run(work) == 7
    assert await worker.run(lambda: 8) == 8
    here, there = threading.get_ident(), order[0][1]
    assert here != there
    assert order == [("work", there), *[("answer", here), ("visit", there)] * 2, ("done", there)]


@pytest.mark.parametrize("kind", ["is_last", "reads"])
@in_loop
async def test_last_work_or_read_of_another_task_waits_until_the_answer_has_been_given(loop, worker, kind):
    order = []
    rounds = [Future(), Future()]

    async def answer():
        order.append("answer begins")
        rounds[0].set_result(None)
        await loop.sleep(0.05)
        await worker.run(lambda: order.append("visit"))
        order.append("answer ends")

    def work():
        worker.ask(answer)
        order.append("work ends")

    async def first():
        await worker.run(work)
        rounds[1].set_result(None)

    async def second():
        await loop.wait(rounds[0])
        await worker.run(lambda: order.append("last"), **{kind: True})
        await loop.wait(rounds[1])

    if loop is yak.aio.LOOP:
        await asyncio.gather(first(), second())
    else:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            nursery.start_soon(second)
    assert order == ["answer begins", "visit", "answer ends", "work ends", "last"]


@in_loop
async def test_exception_of_a_callback_is_raised_by_the_call_after_the_work_is_done(loop, worker):
    done = []

    async def answer():
        raise LookupError("the caller's own")

    def work():
        worker.ask(answer)
        done.append(True)

    with pytest.raises(LookupError, match="the caller's own"):
        await worker.run(work)
    assert done == [True]
    assert await worker.run(lambda: 1) == 1


@in_loop
async def test_a_cancelled_call_ends_when_its_work_is_done_and_not_before(loop, worker):
    done = []
    begun = threading.Event()

    def work():
        begun.set()
        time.sleep(0.2)
        done.append(True)

    assert await is_cancelled(loop, 0.05, lambda: worker.run(work))
    assert begun.is_set()
    assert done == [True]
    assert await worker.run(lambda: 1) == 1


@in_loop
async def test_a_call_that_waits_for_its_turn_is_never_done_when_it_is_cancelled(loop, worker):
    done = []
    go_on = threading.Event()
    long = in_thread(go_on.wait)
    busy = worker._pool.submit(go_on.wait)
    assert await is_cancelled(loop, 0.05, lambda: worker.run(lambda: done.append(True)))
    go_on.set()
    await loop.wait(long)
    await loop.wait(busy)
    await worker.run(lambda: None)
    assert done == []


@in_loop
async def test_last_work_is_done_when_its_task_is_cancelled_before_it_begins(loop, worker):
    """It closes the consumer, which would otherwise stay in its group until its session ends."""
    done = []
    go_on = threading.Event()

    async def last():
        with loop.shielded():
            await worker.run(lambda: done.append(True), is_last=True)
        await loop.sleep(0)

    worker._pool.submit(go_on.wait)
    threading.Timer(0.1, go_on.set).start()
    assert await is_cancelled(loop, 0.02, last)
    assert done == [True]


@in_loop
async def test_cancelled_answer_lets_the_thread_continue(loop, worker):
    done = []

    async def answer():
        await loop.sleep(60)

    def work():
        worker.ask(answer)
        done.append(True)

    assert await is_cancelled(loop, 0.05, lambda: worker.run(work))
    assert done == [True]


def test_interrupt_during_a_call_is_raised_after_the_questions_of_the_call():
    """Without an answer the thread would wait for ever, and the program could not end."""
    worker, done = Worker(yak.trio.LOOP, "test"), []

    async def answer():
        done.append("answer")

    def work():
        time.sleep(0.05)  # the task waits by then
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        worker.ask(answer)
        done.append("work")

    async def main():
        with trio.fail_after(5), pytest.raises(KeyboardInterrupt):
            await worker.run(work)

    trio.run(main)
    worker.end()
    assert done == ["answer", "work"]


@in_loop
async def test_cancelled_wait_for_a_future_does_not_cancel_the_future(loop):
    future = Future()
    assert await is_cancelled(loop, 0.02, lambda: loop.wait(future))
    assert not future.cancelled()
    future.set_result(3)
    assert await loop.wait(future) == 3
    assert await loop.wait_through(future) == 3


@in_loop
async def test_failure_after_a_cancelled_wait_is_not_marked_as_checked(loop):
    """`flush` raises it then: the task that waited never got it."""
    delivery = Delivery()
    assert await is_cancelled(loop, 0.02, lambda: loop.wait(delivery))
    delivery.set_exception(SendFailed("timed-out", "a record was not acknowledged"))
    for _ in range(3):
        await loop.sleep(0.01)
    assert not delivery.was_checked
    with pytest.raises(SendFailed):
        await loop.wait(delivery)
    assert delivery.was_checked


@in_loop
async def test_wait_through_delivers_a_cancellation_at_the_end(loop):
    started = time.monotonic()
    slow = in_thread(lambda: time.sleep(0.2))

    async def work():
        await loop.wait_through(slow)
        await loop.sleep(0)

    assert await is_cancelled(loop, 0.02, work)
    assert slow.done()
    assert time.monotonic() - started >= 0.2


@in_loop
async def test_a_shield_lets_a_cancelled_task_wait(loop):
    waited = []

    async def work():
        try:
            await loop.sleep(60)
        finally:
            with loop.shielded():
                await loop.wait(in_thread(lambda: time.sleep(0.05)))
                waited.append(True)

    assert await is_cancelled(loop, 0.02, work)
    assert waited == [True]


def test_future_that_completes_after_the_loop_has_ended_logs_nothing(loop, caplog):
    future = Future()

    async def main():
        await is_cancelled(loop, 0.02, lambda: loop.wait(future))

    run(loop, main)
    future.set_result(1)
    assert caplog.records == []
