"""The hunt for a seed that notices a mutant, with runs whose end the test sets."""

import pytest

from yak.sim.mutants import hunt as hunt_module
from yak.sim.mutants.hunt import hunt
from yak.sim.mutants.mutant import Mutant
from yak.sim.seed_report import SeedReport

IDLE = Mutant("idle", "a rule", lambda _swaps: None, 4, brokers=1)


@pytest.fixture
def fails(monkeypatch):
    """Seeds that fail, by the name of the mutant; the empty name is the broker with all its rules."""
    fails: dict[str, set[int]] = {"idle": set(), "": set()}

    def run(spec):
        error = "Violation: I1" if spec.seed in fails[spec.mutant] else None
        return SeedReport(spec, "", 1, 1.0, error=error, found_by="committed_stays" if error else "")

    monkeypatch.setattr(hunt_module, "run_spec", run)
    monkeypatch.setattr(hunt_module, "is_sound", hunt_module.is_sound.__wrapped__)
    return fails


def test_hunt_with_a_seed_that_fails_without_the_mutant_skips_it(fails):
    fails["idle"] |= {2, 3}
    fails[""] |= {2}
    finding = hunt(IDLE)
    assert (finding.seed, finding.seeds_tried) == (3, 3)
    assert finding.unsound == ("yak sim run --seed 2",)


def test_hunt_with_no_seed_but_those_that_fail_without_the_mutant_finds_nothing(fails):
    fails["idle"] |= {1, 4}
    fails[""] |= {1, 4}
    finding = hunt(IDLE)
    assert finding.seed is None
    assert len(finding.unsound) == 2


def test_hunt_with_sound_seeds_names_the_first_that_notices(fails):
    fails["idle"] |= {2}
    finding = hunt(IDLE)
    assert (finding.seed, finding.found_by, finding.unsound) == (2, "committed_stays", ())
