"""The clients' speed between two moments, and the figures of a follower's return."""

import pytest

from yak.local.bench.replication import CatchUp, rate_between

SAMPLES = [(0.0, 0), (1.0, 1000), (2.0, 2000), (3.0, 2500), (4.0, 3000)]


def test_a_rate_is_taken_between_the_samples_inside() -> None:
    assert rate_between(SAMPLES, 0.0, 2.0) == 1000
    assert rate_between(SAMPLES, 1.5, 4.5) == 500


@pytest.mark.parametrize(("begin", "end"), [(0.1, 0.9), (0.5, 1.5), (9.0, 10.0)])
def test_too_few_samples_are_no_rate(begin: float, end: float) -> None:
    assert rate_between(SAMPLES, begin, end) == 0


def test_catch_up_reports_megabytes_a_second_and_the_share_the_clients_retained() -> None:
    found = CatchUp(1_000_000_000, start_s=0.5, seconds=5.0, before_per_s=1000, meanwhile_per_s=700)
    assert found.mb_per_s == 200
    assert found.clients_share == pytest.approx(0.7)
    assert CatchUp(1, 0.5, 5.0, 0.0, 0.0).clients_share == 0
