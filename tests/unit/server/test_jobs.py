"""Jobs in threads: whatever one raises comes back as its end."""

import gc
import traceback
import weakref

import pytest
import trio

from tests.unit.plans import Calls
from tests.unit.server.threads import start_no_thread
from yak.core.events import JobDone, RunJob
from yak.core.jobs import SIDE_BY_SIDE
from yak.errors import ErrorCode, PeerError, ProtocolViolation
from yak.server.clock import Clock
from yak.server.jobs import DEADLINE_MS, JobRunner
from yak.sim.disk import SimDisk


class NativePanic(BaseException):
    """What a panic in native code looks like from here."""


def ends_of(*runs) -> list[JobDone]:
    done: list[JobDone] = []

    async def main() -> None:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                runner = JobRunner(nursery, done.append, Clock(), SimDisk())
                for number, run in enumerate(runs):
                    runner.submit(RunJob(number, "recompress", Calls(run)))

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


def test_job_waits_while_the_system_starts_no_thread(monkeypatch, caplog):
    failures = start_no_thread(monkeypatch, times=2)
    (end,) = ends_of(lambda: 7)
    assert end.result == 7
    assert failures == []
    assert caplog.messages == ["job-thread-missing"] * 2


class Decompressed(bytearray):
    """What a job made before it failed."""


@pytest.fixture
def no_collections():
    gc.disable()
    yield
    gc.enable()


def fail_with_much(made: list[weakref.ref[Decompressed]], error: BaseException):
    def decompress() -> None:
        output = Decompressed(1000)
        made.append(weakref.ref(output))
        if len(output):
            raise ValueError("a bomb")

    def run() -> None:
        try:
            decompress()
        except ValueError as cause:
            raise error from cause

    return run


def test_job_that_fails_frees_what_its_frames_held_and_keeps_its_traceback(no_collections):
    made: list[weakref.ref[Decompressed]] = []
    (bad,) = ends_of(fail_with_much(made, OSError(5, "EIO")))
    assert [ref() for ref in made] == [None]
    assert "in decompress" in "".join(traceback.format_exception(bad.error))


@pytest.mark.parametrize("error", [PeerError(ErrorCode.corrupt_message), ProtocolViolation("a bomb")])
def test_job_that_refuses_leaves_nothing_to_a_garbage_collection(no_collections, error):
    made: list[weakref.ref[Decompressed]] = []
    (bad,) = ends_of(fail_with_much(made, error))
    assert [ref() for ref in made] == [None]
    assert bad.error is error
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


def test_every_kind_of_job_has_a_deadline():
    assert DEADLINE_MS.keys() == SIDE_BY_SIDE.keys()
