"""Plans that run together in one job."""

import pytest

from tests.unit.plans import Calls
from yak.core.jobs import Together
from yak.sim.disk import SimDisk


def fail_with(error):
    def fail():
        raise error

    return Calls(fail)


def test_plan_that_fails_on_purpose_leaves_the_results_of_the_others():
    error = OSError(5, "EIO")
    assert Together((Calls(lambda: 1), fail_with(error), Calls(lambda: 2))).run(SimDisk()) == [1, error, 2]


def test_bug_in_one_plan_fails_the_job():
    with pytest.raises(ZeroDivisionError):
        Together((Calls(lambda: 1), fail_with(ZeroDivisionError()))).run(SimDisk())
