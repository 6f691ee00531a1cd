"""Seeds that must hold, and the comparison of their traces with those of another process."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache

from yak.sim.seed_report import SeedReport
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

OTHER_HASH_SEED = "12345"
"""The tests' own process has one that Python draws."""


@cache
def report_of(spec: Spec) -> SeedReport:
    """The report of a run, which two tests read."""
    return run_spec(spec)


def must_hold(specs: Iterable[Spec]) -> None:
    reports = [report_of(spec) for spec in specs]
    failures = [f"{each.spec.command()} --lines    # {each.error}" for each in reports if each.error is not None]
    assert not failures, "\n" + "\n".join(failures)


def totals_of(specs: Iterable[Spec]) -> Counter[str]:
    """What happened in all these runs, which must hold."""
    specs = list(specs)
    must_hold(specs)
    totals: Counter[str] = Counter()
    for spec in specs:
        totals.update(report_of(spec).counts)
    return totals


def must_be_the_same_in_another_process(specs: list[Spec]) -> None:
    """The traces are those of a process with another hash seed, and differ from each other."""
    assert os.environ.get("PYTHONHASHSEED") != OTHER_HASH_SEED
    program = (
        "import json; from yak.sim.spec import Spec;"
        f" from yak.sim.trial import run_spec; print(json.dumps([run_spec(spec).trace_hash for spec in {specs}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": OTHER_HASH_SEED, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    here = [report_of(spec).trace_hash for spec in specs]
    assert here == json.loads(done.stdout)
    assert len(set(here)) == len(here)
