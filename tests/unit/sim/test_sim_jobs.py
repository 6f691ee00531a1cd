"""Jobs of a simulated broker pause between their disk calls, and end with their process."""

import threading
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.unit.plans import Calls
from yak.core.events import RunJob
from yak.core.jobs import SIDE_BY_SIDE
from yak.sim import jobs as sim_jobs
from yak.sim.disk import Death, ProcessEnded, SimDisk
from yak.sim.jobs import Jobs
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec
from yak.sim.trial import run_spec
from yak.sim.world import World


@pytest.fixture
def process(monkeypatch):
    """The jobs of a process whose every job pauses before every disk call."""
    monkeypatch.setattr(sim_jobs, "_PAUSING_PERCENT", 100)
    monkeypatch.setattr(sim_jobs, "_PAUSE_PERCENT", (100,))
    world, disk, done = World(), SimDisk(), []
    disk.make_directory("/d")
    jobs = Jobs(disk, SeededRandom(1), world.after, done.append, Counter())
    jobs.pauses = SeededRandom(1)
    yield SimpleNamespace(world=world, disk=disk, jobs=jobs, done=done)
    jobs.close()


def run_until(process, condition):
    process.world.run(condition, events_max=1_000)


def write_two(process):
    process.disk.write_file("/d/one", b"1")
    process.disk.write_file("/d/two", b"2")
    return "written"


def test_job_pauses_between_its_disk_calls_while_the_world_continues(process):
    process.jobs.start(RunJob(1, "flush", Calls(lambda: write_two(process))))
    run_until(process, lambda: process.disk.exists("/d/one"))
    assert not process.disk.exists("/d/two")
    assert process.jobs.counts["pauses of jobs"] == 2
    run_until(process, lambda: process.done)
    assert process.disk.exists("/d/two")
    assert [(each.job_id, each.result, each.error) for each in process.done] == [(1, "written", None)]


def test_job_error_after_a_pause_comes_back(process):
    process.jobs.start(RunJob(1, "read", Calls(lambda: process.disk.read_file("/d/absent"))))
    run_until(process, lambda: process.done)
    assert isinstance(process.done[0].error, FileNotFoundError)


def test_job_without_a_source_of_pauses_runs_in_one_piece(process):
    process.jobs.pauses = None
    process.jobs.start(RunJob(1, "flush", Calls(lambda: write_two(process))))
    run_until(process, lambda: process.disk.exists("/d/one"))
    assert process.disk.exists("/d/two")


def test_jobs_of_a_kind_run_side_by_side_up_to_the_shells_limit(process):
    for number in range(4):
        process.jobs.start(
            RunJob(number, "checkpoint", Calls(lambda name=f"/d/{number}": process.disk.write_file(name, b"")))
        )
    most = 0

    def all_are_done():
        nonlocal most
        most = max(most, len(process.jobs._running))
        return len(process.done) == 4

    run_until(process, all_are_done)
    assert most == SIDE_BY_SIDE["checkpoint"]


def test_jobs_that_wait_for_a_paused_one_run_when_it_ends(process, monkeypatch):
    process.jobs.delays_us = {"delete": 0}
    process.jobs.start(RunJob(1, "delete", Calls(lambda: write_two(process))))
    run_until(process, lambda: process.jobs._running)
    monkeypatch.setattr(sim_jobs, "_PAUSING_PERCENT", 0)
    for number in (2, 3, 4):
        process.jobs.start(RunJob(number, "delete", Calls(lambda: None)))
    run_until(process, lambda: len(process.done) == 4)


def test_interrupted_job_makes_no_further_disk_call(process):
    def run():
        try:
            write_two(process)
        finally:
            process.disk.write_file("/d/cleanup", b"")

    process.jobs.start(RunJob(1, "flush", Calls(run)))
    run_until(process, lambda: process.disk.exists("/d/one"))
    process.jobs.end()
    process.disk.kill()
    assert process.disk.names("/d") == ["one"]
    assert process.jobs.counts["jobs interrupted"] == 1
    process.disk.write_file("/d/next", b"")
    assert not process.done


def test_process_that_ends_inside_a_job_ends_in_the_run_too(process):
    process.disk.end_inside(Death(SeededRandom(1), 1))
    process.jobs.start(RunJob(1, "flush", Calls(lambda: write_two(process))))
    with pytest.raises(ProcessEnded):
        run_until(process, lambda: process.done)
    process.jobs.end()
    process.disk.kill()
    assert process.jobs.counts["jobs interrupted"] == 0


def test_run_with_pauses_is_reproducible_and_leaves_no_thread():
    threads = threading.active_count()
    one, two = run_spec(Spec(3, 3)), run_spec(Spec(3, 3))
    assert one.counts["pauses of jobs"] > 0
    assert one.trace_hash == two.trace_hash
    assert threading.active_count() <= threads, "threads of earlier tests may end meanwhile"


@pytest.mark.parametrize("brokers", [1, 3])
def test_run_may_leave_the_pauses_out(brokers):
    assert run_spec(Spec(3, brokers, without=("pauses",))).counts.get("pauses of jobs", 0) == 0
