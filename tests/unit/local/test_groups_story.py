"""The parts of the groups demo that need no cluster."""

import socket
from dataclasses import replace

import pytest

from yak.errors import NothingInTime
from yak.local.demo.group_ledger import Hold, PartitionVerdict
from yak.local.demo.group_state import coordinator_of
from yak.local.demo.groups_result import (
    GroupsDemoResult,
    GroupsDemoSettings,
    GroupsTimes,
    Handover,
    KilledCoordinator,
    KilledMember,
)
from yak.local.demo.groups_story import broker_configs, handovers

GOOD = PartitionVerdict(0, ("member-1",), 10, 10, 0, 0, 2, 0)
HANDOVER = Handover(0, 8, 10, "member-3", 8)


def result(*verdicts, keep=False, rows=(HANDOVER,), commits_lost=0):
    return GroupsDemoResult(
        GroupsDemoSettings(2.5, 3000, keep),
        verdicts,
        KilledMember("member-2", 41, tuple(rows)),
        KilledCoordinator(3, 51, True, 1, 0, 0),
        commits_lost,
        GroupsTimes(taken_over_ms=3012.34),
        "h:1",
        "/d",
    )


def test_the_verdict_holds_only_if_every_part_of_the_promise_does():
    assert result(GOOD).holds
    assert not result().holds
    assert not result(replace(GOOD, acknowledged=0)).holds
    assert not result(GOOD, replace(GOOD, lost=1)).holds
    assert not result(GOOD, replace(GOOD, twice_committed=1)).holds
    assert not result(GOOD, commits_lost=1).holds
    assert not result(GOOD, rows=()).holds
    assert not result(GOOD, rows=(HANDOVER, replace(HANDOVER, began_at=9))).holds
    assert not result(GOOD, rows=(replace(HANDOVER, began_at=7),)).holds


def test_the_json_has_it_all():
    document = result(GOOD, replace(GOOD, partition=1, lost=1)).as_json()
    assert (document["ok"], document["acknowledged"], document["read"], document["lost"]) == (False, 20, 20, 1)
    assert (document["twice_committed"], document["twice_uncommitted"]) == (0, 4)
    assert document["group"]["session_timeout_ms"] == 3000
    assert document["killed_member"]["partitions"] == [
        {
            "partition": 0, "committed": 8, "read_to": 10, "taken_by": "member-3", "began_at": 8, "read_again": 2,
            "ok": True,
        }
    ]  # fmt: skip
    assert document["killed_coordinator"]["new_node_id"] == 1
    assert document["times"]["taken_over_ms"] == 3012.3
    assert [each["ok"] for each in document["partitions"]] == [True, False]
    assert document["data_dir"] is None
    assert result(GOOD, keep=True).as_json()["bootstrap"] == "h:1"


def test_a_session_that_kafka_would_refuse_is_allowed_to_the_demos_brokers_only_then():
    assert "group.min.session.timeout.ms=3000" in broker_configs(3000)
    assert not [each for each in broker_configs(6000) if each.startswith("group.min")]
    assert "min.insync.replicas=2" in broker_configs(6000)


def test_a_partition_goes_to_the_first_that_read_it():
    dead = (
        Hold("a", 0, 1.0, 0, first_offset=0, read_to=9, committed=7),
        Hold("a", 1, 1.0, 4),
    )
    later = (
        Hold("b", 0, 5.0, 7),
        Hold("c", 0, 6.0, 7, first_offset=7),
        Hold("c", 1, 5.0, 4, first_offset=4),
    )
    assert handovers(dead, later, {0: 7, 1: 4}) == (Handover(0, 7, 9, "c", 7), Handover(1, 4, 4, "c", 4))
    assert [each.again for each in handovers(dead, later, {0: 7, 1: 4})] == [2, 0]


def test_a_group_whose_brokers_are_all_gone_has_no_coordinator():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(NothingInTime) as caught:
        coordinator_of(f"{address},{address}", "g", timeout_seconds=0.1)
    assert (caught.value.code, caught.value.why) == ("demo-group", "no broker answered")
