"""Traces of an independent description of KRaft, a TLA+ specification, replayed on the real Quorum, step by step."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.sim.quorum_traces.replay import Mismatch, replay
from tests.sim.quorum_traces.trace import Step
from yak.sim.mutants.catalogue import BY_NAME

FILE = Path(__file__).parent / "quorum_traces" / "traces.json"
LINES = json.loads(FILE.read_text())
TRACES = [[Step.decode(line) for line in lines] for lines in LINES]
TRACES_PER_TEST = 10
DETECTED = (
    "quorum-vote-twice",
    "quorum-vote-unsynced",
    "quorum-vote-forgotten",
    "quorum-vote-by-length",
    "quorum-pre-vote-of-followers",
    "quorum-commit-by-counting",
    "quorum-apply-early",
    "quorum-no-divergence",
)
"""Without the pre-vote no trace begins. The others are about flushes, reads, snapshots and changes of the voters, of
which the specification has no steps here.
"""


def replay_all() -> None:
    for steps in TRACES:
        replay(steps)


@pytest.mark.parametrize("first", range(0, len(TRACES), TRACES_PER_TEST))
def test_quorum_replaying_a_trace_of_the_specification_has_its_states(first):
    failures = []
    for number, steps in enumerate(TRACES[first : first + TRACES_PER_TEST], first):
        try:
            replay(steps)
        except Mismatch as mismatch:
            failures.append(f"trace {number}, {mismatch}")
    assert not failures, "\n" + "\n".join(failures)


def test_traces_have_each_step_of_the_specification():
    steps = [step for trace in TRACES for step in trace]
    counts = Counter(step.action for step in steps)
    assert len(TRACES) >= 100
    assert counts["BecomeLeader"] > len(TRACES)
    for action in (
        "HandleVoteRequest",
        "HandleVoteResponse",
        "ConcludePreVote",
        "AcceptBeginQuorumRequest",
        "ResendBeginQuorumEpochRequest",
        "AcceptFetchRequest",
        "DivergingFetchRequest",
        "RejectFetchRequest",
        "HandleFetchResponse",
        "HandleClientRequest",
        "VoterFetchTimeout",
        "VoterElectionTimeout",
        "CheckQuorumResign",
        "RestartWithState",
        "ChangeNetworkConnectivity",
    ):
        assert counts[action] > 3, f"{action}: {counts}"


def test_lines_of_a_trace_are_encoded_as_they_were_decoded():
    assert [[step.encode() for step in trace] for trace in TRACES] == LINES


@pytest.mark.parametrize("name", DETECTED)
def test_quorum_without_a_rule_fails_a_trace(name):
    with BY_NAME[name].on(), pytest.raises(Mismatch):
        replay_all()


@pytest.mark.parametrize(
    ("field", "value"), [("role", "C"), ("epoch", 99), ("vote", 99), ("leader", 99), ("log", "1.99"), ("hwm", 99)]
)
def test_trace_with_one_other_value_fails(field, value):
    steps = [Step.decode(line) for line in LINES[0]]
    changed = next(
        change for step in steps for change in step.changes.values() if change.get(field) not in (None, value)
    )
    changed[field] = value
    with pytest.raises(Mismatch):
        replay(steps)
