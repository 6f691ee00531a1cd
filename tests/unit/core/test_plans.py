"""Jobs are data: a plan is a frozen dataclass, and none of its fields leads to what only the step may change."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import pytest

import yak
from tests.unit.plans import Calls
from yak.core.jobs import CombinedPlan, Jobs
from yak.sim.disk import SimDisk

ROOMS = ("broker", "coordination", "groups", "partitions", "lifecycle", "replication", "core", "cluster", "storage")
OF_THE_STEP = {"Any", "Broker", "Callable", "Context", "Jobs", "Log", "LogDirectory", "LogStore", "Partition", "object"}


def classes():
    """All classes of the rooms of the core."""
    for room in ROOMS:
        package = importlib.import_module(f"{yak.__name__}.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            yield from (each for each in vars(module).values() if getattr(each, "__module__", "") == found.name)


def is_plan(each):
    run = vars(each).get("run") if inspect.isclass(each) and not getattr(each, "_is_protocol", False) else None
    return run is not None and list(inspect.signature(run).parameters) == ["self", "disk"]


PLANS = sorted({each for each in classes() if is_plan(each)}, key=lambda each: each.__qualname__)


def test_every_job_start_of_the_core_has_a_plan_class():
    names = {each.__name__ for each in PLANS}
    assert {"CheckpointPlan", "CompactionPiece", "FlushPlan", "LogCreation", "LoweringPlan", "ReadPlan"} <= names
    assert list(inspect.signature(Jobs.run).parameters) == ["self", "kind", "plan", "on_done"]


@pytest.mark.parametrize("plan", PLANS, ids=lambda each: each.__name__)
def test_plan_is_a_frozen_slotted_dataclass(plan):
    assert dataclasses.is_dataclass(plan)
    assert plan.__dataclass_params__.frozen
    assert "__slots__" in vars(plan)


@pytest.mark.parametrize("plan", PLANS, ids=lambda each: each.__name__)
def test_field_of_a_plan_is_nothing_that_only_the_step_may_change(plan):
    for field in dataclasses.fields(plan):
        annotation = field.type if isinstance(field.type, str) else str(field.type)
        assert not OF_THE_STEP & set(re.findall(r"\w+", annotation)), f"{plan.__qualname__}.{field.name}: {annotation}"


def fail_with(error):
    def fail():
        raise error

    return Calls(fail)


def test_plan_that_fails_on_purpose_leaves_the_results_of_the_others():
    error = OSError(5, "EIO")
    assert CombinedPlan((Calls(lambda: 1), fail_with(error), Calls(lambda: 2))).run(SimDisk()) == [1, error, 2]


def test_bug_in_one_plan_fails_the_job():
    with pytest.raises(ZeroDivisionError):
        CombinedPlan((Calls(lambda: 1), fail_with(ZeroDivisionError()))).run(SimDisk())
