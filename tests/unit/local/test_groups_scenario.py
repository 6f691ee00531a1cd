"""The parts of the groups demo that need no cluster."""

import pytest

from yak.local.demo.groups import GroupsScenario, broker_configs
from yak.local.demo.scenario import Reporter, Settings

GOOD = {
    "partition": 0, "readers": ("member-2", "member-3"), "acknowledged": 447, "read": 449, "lost": 0,
    "twice_committed": 0, "twice_uncommitted": 3, "unconfirmed": 2, "ok": True,
}  # fmt: skip
BAD = GOOD | {"lost": 6, "ok": False}
HANDOVER = {"partition": 0, "ok": True}


@pytest.fixture
def result_of(tmp_path):
    def result(*counts, keep=False, handovers=(HANDOVER,), commits_lost=0):
        settings = Settings(2.5, keep=keep, data_dir=str(tmp_path), session_timeout_ms=3000)
        found = GroupsScenario(settings, Reporter())
        found.cluster.restart = restarted.append
        found.counts, found.commits_lost = list(counts), commits_lost
        found.killed_member = {"name": "member-2", "pid": 41, "partitions": list(handovers)}
        found.killed_coordinator = {"node_id": 3}
        found.bootstrap = "h:1"
        found.times |= {"start_ms": 2198.4, "taken_over_ms": 3012.34, "next_commit_ms": 191.2, "total_ms": 15_040.0}
        return found.result()

    restarted = []
    yield result
    assert restarted in ([], [3])


def test_result_holds_only_if_every_part_of_the_promise_does(result_of):
    assert result_of(GOOD).holds
    assert not result_of().holds
    assert not result_of(GOOD | {"acknowledged": 0}).holds
    assert not result_of(GOOD, BAD).holds
    assert not result_of(GOOD, commits_lost=1).holds
    assert not result_of(GOOD, handovers=()).holds
    assert not result_of(GOOD, handovers=(HANDOVER, HANDOVER | {"ok": False})).holds


def test_json_has_counts_times_and_a_retained_cluster(result_of):
    document = result_of(GOOD, BAD).as_json()
    assert (document["ok"], document["acknowledged"], document["read"], document["lost"]) == (False, 894, 898, 6)
    assert (document["twice_committed"], document["twice_uncommitted"]) == (0, 6)
    assert document["group"]["session_timeout_ms"] == 3000
    assert document["killed_coordinator"]["node_id"] == 3
    assert document["times"]["taken_over_ms"] == 3012.3
    assert [each["ok"] for each in document["partitions"]] == [True, False]
    assert document["data_dir"] is None
    assert result_of(GOOD, keep=True).as_json()["bootstrap"] == "h:1"


def test_table_has_a_row_for_each_partition(result_of):
    assert result_of(GOOD).rows[0] == {
        "partition": 0, "readers": "2, 3", "acknowledged": 447, "read": 449, "lost": 0, "twice_committed": 0,
        "twice_uncommitted": 3,
    }  # fmt: skip


def test_notes_have_the_counts_and_times_in_lines_that_fit(result_of):
    notes = result_of(GOOD, BAD).notes
    assert notes[0] == "acked 894, read 898, lost 6, committed and read again 0"
    assert notes[1] == "read again because it was not committed yet: 6"
    assert notes[-2] == "the dead member's partitions went to the others in 3012 ms (session 3 s)"
    assert notes[-1] == "from the kill of the coordinator to the next commit 191 ms"
    assert not [line for line in notes if len(line) > 74]
    assert "commits lost with the coordinator: 2" in result_of(GOOD, commits_lost=2).notes


def test_session_that_kafka_would_refuse_is_allowed_to_the_demos_brokers_only_then():
    assert "group.min.session.timeout.ms=3000" in broker_configs(3000)
    assert not [each for each in broker_configs(6000) if each.startswith("group.min")]
    assert "min.insync.replicas=2" in broker_configs(6000)
