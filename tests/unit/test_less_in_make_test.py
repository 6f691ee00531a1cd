"""`make test` tries fewer examples than `make test-all`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

MANY, FEW, LEAST = 120, 40, 7
tried: list[int] = []


class Machine(RuleBasedStateMachine):
    runs = 0

    def __init__(self):
        super().__init__()
        Machine.runs += 1

    @rule(number=st.integers())
    def step(self, number):
        assert number == number + 0


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=MANY, stateful_step_count=2)


@settings(max_examples=MANY)
@given(number=st.integers())
def test_property_with_many_examples(number):
    tried.append(number)
    assert isinstance(number, int)


@settings(max_examples=FEW)
@given(number=st.integers())
def test_property_with_few_examples(number):
    assert isinstance(number, int)


@pytest.mark.parametrize("times", [1, 2])
@settings(max_examples=LEAST)
@given(number=st.integers())
def test_property_with_least_examples(number, times):
    assert isinstance(number * times, int)


def test_examples_are_a_quarter_and_25_at_least_in_make_test(pytestconfig):
    found = [
        TestMachine.settings.max_examples,
        *(
            each._hypothesis_internal_use_settings.max_examples
            for each in (
                test_property_with_many_examples,
                test_property_with_few_examples,
                test_property_with_least_examples,
            )
        ),
    ]
    assert found == ([MANY, MANY, FEW, LEAST] if pytestconfig.getoption("all_examples") else [30, 30, 25, LEAST])
    test_property_with_many_examples()
    assert len(tried) in ({MANY, 2 * MANY} if pytestconfig.getoption("all_examples") else {30, 60})


def test_machine_that_a_test_runs_by_itself_has_a_quarter_of_its_examples_in_make_test(pytestconfig):
    Machine.runs = 0
    run_state_machine_as_test(Machine, settings=settings(max_examples=MANY, stateful_step_count=2))
    assert Machine.runs == (MANY if pytestconfig.getoption("all_examples") else MANY // 4)
