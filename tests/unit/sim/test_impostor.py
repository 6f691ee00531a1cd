"""The client that passes for a broker: it is refused, with a wrong proof and without one, and an answer would be a violation."""

import pytest

from yak.sim.mutants.catalogue import BY_NAME
from yak.sim.spec import Spec
from yak.sim.trial import run_spec

SEED = 5
"""One that has an impostor."""


def test_impostor_of_a_sound_cluster_is_refused():
    report = run_spec(Spec(SEED, 3))
    assert report.error is None
    assert report.counts["impostors refused"] > 0


def test_impostor_left_out_sends_nothing():
    assert "impostors refused" not in run_spec(Spec(SEED, 3, without=("impostor",))).counts


@pytest.mark.parametrize("name", ["unproven-fetch-counts", "any-proof-believed"])
def test_fetch_of_an_impostor_that_is_answered_is_a_violation(name):
    with BY_NAME[name].on():
        report = run_spec(Spec(SEED, 3))
    assert report.found_by == "impostor"
