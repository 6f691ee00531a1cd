"""`yak sim`: what it prints, and what it returns."""

import json
import re

import pytest

from yak.sim import trial
from yak.sim.coverage import NEVER_FROM
from yak.sim.mutants import catalogue
from yak.sim.mutants.mutant import Mutant

SOUND = catalogue.BY_NAME["ack-before-flush"]


@pytest.fixture
def two_mutants(monkeypatch):
    """One that is noticed, and one that lacks nothing."""
    idle = Mutant("idle", "nothing", lambda _swaps: None, 2, 1)
    for module in (catalogue, trial):
        monkeypatch.setattr(module, "BY_NAME", {"ack-before-flush": SOUND, "idle": idle})


def test_the_command_prints_the_table_and_fails_when_one_is_not_found(yak, two_mutants):
    ran = yak("sim", "mutants", "--workers", "1")
    assert ran.code == 4
    assert ran.out.splitlines()[-1] == "1 of 2 found"
    assert "deliveries" in ran.out
    assert "idle: no check noticed within 2 seeds" in ran.err
    ran = yak("sim", "mutants", "--workers", "1", "--name", "ack-before-flush", "-o", "json")
    (row,) = json.loads(ran.out)
    assert ran.code == 0
    assert row["found_at_seed"] >= 1
    assert row["replay"].endswith("--mutant ack-before-flush")


def test_sim_run_prints_what_it_reached_and_what_many_seeds_never_reached(yak):
    small = ("--workers", "1", "--faults", "none", "--producers", "1", "--values", "2")
    ran = yak("sim", "run", "--seeds", str(NEVER_FROM), *small)
    assert ran.code == 0
    assert ran.out.startswith(f"{NEVER_FROM} of {NEVER_FROM} seeds hold; ")
    assert "  process" in ran.out
    assert "never reached: " in ran.out
    assert "never reached: " not in yak("sim", "run", "--seed", "1", *small).out


def test_interrupted_sim_run_reports_the_seeds_that_ended(yak, monkeypatch):
    def interrupted(work, specs, _workers, **_how):
        yield from map(work, specs[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr("yak.commands.sim.in_order", interrupted)
    ran = yak("sim", "run", "--seeds", "5")
    assert ran.code == 130
    assert ran.out.startswith("2 of 2 seeds hold; ")


def test_a_class_of_faults_can_be_had_alone(yak):
    small = ("--producers", "1", "--values", "20")
    ran = yak("sim", "run", "--brokers", "3", "--seed", "2", "--faults", "misdirected", *small)
    assert ran.code == 0, ran.err
    assert "misdirected " in ran.out


def test_processes_give_the_same_as_one(yak, monkeypatch):
    monkeypatch.setattr("yak.commands.sim.SEEDS_AT_ONCE", 2)
    args = ("sim", "run", "--seeds", "5", "--faults", "none", "--producers", "1", "--values", "2", "-o", "json")
    alone = yak(*args, "--workers", "1")
    assert alone.code == 0
    assert [json.loads(line)["seed"] for line in alone.out.splitlines()] == list(range(1, 6))
    assert yak(*args, "--workers", "2").out == alone.out


def test_a_failing_seed_is_made_small_and_its_command_replays_it(yak):
    ran = yak("sim", "run", "--seed", "15", "--brokers", "3", "--mutant", "stale-epoch-append", "--shrink")
    assert ran.code == 4
    found, size, command = ran.out.splitlines()
    assert found.startswith("single_leader: ")
    before, after = (int(values) for values in re.findall(r"(\d+) values", size))
    assert after * 5 < before
    args = command.replace('"', "").split()[1:-1]
    again = yak(*args)
    assert again.code == 4
    assert found.partition(": ")[2] in again.err


def test_sim_run_without_a_violation_is_not_shrunk(yak):
    ran = yak("sim", "run", "--seed", "1", "--shrink")
    assert ran.code == 0
    assert "nothing to shrink" in ran.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--seeds", "2", "--lines"), "--lines is for one seed"),
        (("--seeds", "2", "--shrink"), "--shrink is for one seed"),
        (("--faults", "wipe"), 'no class of faults is named "wipe"'),
        (("--brokers", "3", "--metadata", "raft", "--faults", "outage"), 'no class of faults is named "outage"'),
        (("--brokers", "3", "--faults", "flood"), 'no class of faults is named "flood"'),
        (("--mutant", "no-such"), "no mutant is named no-such"),
        (("--mutant", "truncate-to-hw"), "truncate-to-hw is a mutant for 3 brokers"),
        (("--keep", "two"), '--keep "two" is not a list of numbers'),
    ],
)
def test_sim_run_with_invalid_options_is_refused_with_a_message(yak, args, message):
    ran = yak("sim", "run", *args)
    assert ran.code == 2
    assert message in ran.err
