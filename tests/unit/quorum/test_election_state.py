"""The vote on disk, and what waits for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.quorum.conftest import STATE_PATH, Node, directory_id
from yak.core.events import DisksLost, JobDone
from yak.errors import StartRefused
from yak.quorum.election_state import ElectionState, StateWrite
from yak.sim.disk import Death, ProcessEnded, SimDisk
from yak.sim.seeded_random import SeededRandom


def disk_with(state: ElectionState) -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    StateWrite(STATE_PATH, state).run(disk)
    return disk


@given(
    st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1), st.one_of(st.none(), st.uuids().filter(lambda id_: id_.int))
)
def test_file_round_trips(epoch, voted_id, directory):
    state = ElectionState(epoch, voted_id, directory)
    assert ElectionState.read(disk_with(state), STATE_PATH) == state


def test_new_node_has_no_vote():
    assert ElectionState.read(SimDisk(), STATE_PATH) == ElectionState(0, -1, None)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"data_version":7}', b'{"data_version":1,"leaderEpoch":"x"}'])
def test_unreadable_file_refuses_the_start(content):
    disk = disk_with(ElectionState(1, 1, directory_id(1)))
    disk.write_file(STATE_PATH, content)
    with pytest.raises(StartRefused):
        ElectionState.read(disk, STATE_PATH)


@given(st.integers(0, 10_000), st.integers(0, 4))
def test_crash_within_a_write_leaves_the_old_vote_or_the_new_one(seed, writes):
    old, new = ElectionState(1, 1, directory_id(1)), ElectionState(2, 3, directory_id(3))
    disk, rng = disk_with(old), SeededRandom(seed)
    disk.end_inside(Death(rng, writes))
    try:
        StateWrite(STATE_PATH, new).run(disk)
        is_over = True
    except ProcessEnded:
        is_over = False
    disk.end_inside(None)
    disk.crash(rng)
    assert ElectionState.read(disk, STATE_PATH) in ((new,) if is_over else (old, new))


def test_newer_state_during_a_write_is_written_before_anything_leaves():
    node = Node()
    node.quorum.start()
    first, second = node.vote(2, 1), node.vote(3, 4)
    node.collect()
    node.run_job(0)
    assert (first, second) == ([], [])
    node.run_jobs()
    assert ElectionState.read(node.disk, STATE_PATH) == ElectionState(4, 3, directory_id(3))
    assert len(first) == len(second) == 1


def test_failed_write_of_the_vote_stops_the_node():
    node = Node()
    node.quorum.start()
    answers = node.vote(2, 1)
    node.collect()
    job = node.waiting.pop()
    node.jobs.on_done(JobDone(job.job_id, None, OSError(5, "EIO")))
    assert any(isinstance(effect, DisksLost) for effect in node.effects)
    assert answers == []
