"""Jobs in threads: whatever one raises comes back as its end."""

import trio

from yak.broker.events import JobDone, RunJob
from yak.server.clock import Clock
from yak.server.jobs import JobRunner


class NativePanic(BaseException):
    """What a panic in native code looks like from here."""


def ends_of(*runs) -> list[JobDone]:
    done: list[JobDone] = []

    async def main() -> None:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                runner = JobRunner(nursery, done.append, Clock())
                for number, run in enumerate(runs):
                    runner.submit(RunJob(number, "recompress", run))

    trio.run(main)
    return sorted(done, key=lambda end: end.job_id)


def fail(error: BaseException):
    def run() -> None:
        raise error

    return run


def test_a_result_and_an_error_come_back():
    error = OSError(5, "EIO")
    good, bad = ends_of(lambda: 7, fail(error))
    assert (good.result, good.error) == (7, None)
    assert (bad.result, bad.error) == (None, error)


def test_a_panic_of_native_code_ends_the_job_only():
    bad, good = ends_of(fail(NativePanic("index out of bounds")), lambda: 7)
    assert isinstance(bad.error, RuntimeError)
    assert "NativePanic: index out of bounds" in str(bad.error)
    assert good.result == 7
