"""Bugs that the simulator plants in a broker: what they cost, and that one which costs something else is told."""

import pytest

from tests.rig import Rig
from tests.sim.seeds import totals_of
from yak import fail_stop
from yak.core import events
from yak.errors import FailStop
from yak.partitions.leader_appends import LeaderAppends
from yak.sim.deliveries import Violation
from yak.sim.planted_bugs import PlantedBug
from yak.sim.seeded_random import SeededRandom
from yak.sim.spec import Spec
from yak.sim.trial import run_spec


def planted(rig: Rig, where: str) -> None:
    """Plant a bug in this kind of place, by the first random source that chooses it, to strike at its first call."""
    for seed in range(200):
        rig.node.bugs.withdraw()
        assert rig.node.bugs.plant(SeededRandom(f"bug {seed}"))
        plan = rig.node.bugs._waiting
        if plan.target == where and plan.wait == 0:
            return
    raise AssertionError(f"no rng choose {where}")


def test_planted_bugs_end_connections_and_brokers_and_every_invariant_holds(pytestconfig: pytest.Config) -> None:
    # each seed has 12 bugs, which end connections and brokers
    seeds = (2, 3) if pytestconfig.getoption("all_examples") else (3,)
    counts = totals_of(Spec(seed, 3, faults=("bug",)) for seed in seeds)
    assert counts["requests failed by a bug"] > 0
    assert counts["fail-stops"] > 0


def test_bug_in_a_handler_ends_the_connection_and_is_no_violation() -> None:
    rig = Rig()
    planted(rig, "a handler")
    assert rig.ask(3, 4, topics=None, allow_auto_topic_creation=False) is None
    assert rig.ask(3, 4, client=rig.new_client(), topics=None, allow_auto_topic_creation=False) is not None


def test_bug_in_a_write_that_a_handler_survives_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.create_topic("orders")
    monkeypatch.setattr(fail_stop, "_marked", fail_stop._marked - {LeaderAppends.append_to_leader_log.__code__})
    planted(rig, "a write")
    with pytest.raises(Violation, match="did not stop the broker"):
        rig.produce("orders", [b"a"])


def test_unplanted_bug_ends_the_run_by_its_own_name() -> None:
    rig = Rig()
    with pytest.raises(ZeroDivisionError):
        rig.node.bugs.stopped(_because(FailStop("append_to_leader_log"), ZeroDivisionError()))
    with pytest.raises(PlantedBug):
        rig.node.bugs.request_failed(events.Notice("error", "request-failed", {}, error=PlantedBug("of another run")))


def _because(failure: FailStop, cause: Exception) -> FailStop:
    failure.__cause__ = cause
    return failure


@pytest.mark.parametrize("seed", [800272, 800398])
def test_seeds_in_which_the_model_took_a_planted_bug_for_a_fault_of_the_broker_hold(seed: int) -> None:
    """In-process connections had one name together; an ack left in a turn whose end was a bug, before the append was noted."""
    assert run_spec(Spec(seed, 3)).error is None


def test_a_bug_strikes_one_broker_too_and_stops_it_or_ends_a_connection(pytestconfig):
    seeds = range(1, 9) if pytestconfig.getoption("all_examples") else (2, 4, 8)
    totals = totals_of(Spec(seed, 1, faults=("bug",)) for seed in seeds)
    for name in ("bug", "fail-stops", "requests failed by a bug"):
        assert totals[name] > 0, name
