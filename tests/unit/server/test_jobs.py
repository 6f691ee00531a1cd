"""Jobs in threads: whatever one raises comes back as its end."""

import gc
import traceback
import weakref

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


class Refused(Exception):
    """What a job raises of what it found."""


class Decompressed(bytearray):
    """What a job made before it failed."""


def test_failed_job_frees_what_its_frames_held_without_a_garbage_collection():
    made: list[weakref.ref[Decompressed]] = []

    def decompress() -> Decompressed:
        output = Decompressed(1000)
        made.append(weakref.ref(output))
        if len(output):
            raise ValueError("a bomb")
        return output

    def run() -> None:
        try:
            decompress()
        except ValueError as error:
            raise Refused from error

    gc.disable()
    try:
        (bad,) = ends_of(run)
        assert [ref() for ref in made] == [None]
        traceback_lines = "".join(traceback.format_exception(bad.error))
        assert "in decompress" in traceback_lines
        end = weakref.ref(bad.error)
        del bad
        assert end() is None
    finally:
        gc.enable()
