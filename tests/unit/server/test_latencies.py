"""How long things took: buckets against arithmetic, and a real turn of the shell against the core's notes."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plans import Calls
from tests.unit.server.shell_rig import IdleCore
from yak.broker.apis import NAMES
from yak.broker.counters import FOLLOWER_FETCH, Counters
from yak.core.events import Effect, Event, JobDone, RunJob
from yak.server.latencies import BOUNDS_SECONDS, Histogram, Latencies
from yak.server.shell import Shell
from yak.sim.disk import SimDisk

HOUR_NS = 3_600 * 10**9


@given(st.lists(st.integers(0, 1000 * 24 * HOUR_NS) | st.integers(0, 200_000_000)))
def test_buckets_say_how_many_took_no_longer(times_ns: list[int]) -> None:
    histogram = Histogram()
    for time_ns in times_ns:
        histogram.note(time_ns)
    totals, count, sum_seconds = histogram.cumulative()
    assert count == len(times_ns)
    assert sum_seconds == sum(times_ns) / 1e9
    assert totals == [sum(time_ns < bound * 1e9 for time_ns in times_ns) for bound in BOUNDS_SECONDS]


def test_a_request_took_its_turn_and_one_that_waited_from_the_beginning_of_its_own() -> None:
    counters = Counters()
    latencies = Latencies(counters)
    counters.answered.extend([0, 0, 3])
    counters.waited.append((1, 1_000_000))
    counters.waited.append((FOLLOWER_FETCH, 2_000_000))
    latencies.turn_ended(5_000_000, 300_000)
    found = {key: histogram.cumulative()[1:] for key, histogram in latencies.by_api.items() if histogram.cells[-1]}
    assert found == {0: (2, 0.0006), 3: (1, 0.0003), 1: (1, 0.004), FOLLOWER_FETCH: (1, 0.003)}
    assert not counters.answered
    assert not counters.waited


def test_every_api_has_its_histogram() -> None:
    assert set(Latencies(Counters()).by_api) == {*NAMES, FOLLOWER_FETCH}


class Answering(IdleCore):
    """A core that notes one answer a turn, and has one job run."""

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.began_ns: list[int] = []
        self.done = trio.Event()

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        if isinstance(event, JobDone):
            self.counters.waited.append((1, self.began_ns[0]))
            self.done.set()
        elif not self.began_ns:
            self.began_ns.append(self.counters.turn_ns)
            self.counters.answered.append(0)
            return [RunJob(1, "flush", Calls(lambda: None))]
        return []


async def test_the_shell_measures_turns_and_jobs() -> None:
    latencies = Latencies(Counters())
    core = Answering(latencies.counters)
    async with trio.open_nursery() as nursery:
        shell = Shell(core, nursery, disk=SimDisk(), latencies=latencies)
        before_ns = shell.clock.now_ns()
        shell.begin_turn()
        shell.end_turn()
        with trio.fail_after(5):
            await core.done.wait()
        after_ns = shell.clock.now_ns()
        assert before_ns <= core.began_ns[0] <= after_ns
        for key in (0, 1):
            _, count, seconds = latencies.by_api[key].cumulative()
            assert count == 1
            assert 0 < seconds <= (after_ns - before_ns) / 1e9
        assert latencies.by_api[1].cells[-1] > latencies.by_api[0].cells[-1]
        assert shell.jobs.durations["flush"].cumulative()[1] == 1
        assert shell.jobs.durations["read"].cumulative()[1] == 0
