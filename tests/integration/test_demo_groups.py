"""`yak demo groups` for real: its promise, that its check is a check, and that no consumer outlives it."""

import json
import queue
import time
from dataclasses import replace
from typing import Any

import pytest
from support.waiting import wait_until

from yak.commands.main import run
from yak.local import processes
from yak.local.demo import groups
from yak.local.demo.group_member import MemberProcess, MemberSettings
from yak.sim.history_checker.history import Event, History, Poll


def test_a_member_and_the_coordinator_are_killed_and_every_message_is_accounted_for(yak):
    ran = yak.run("demo", "groups", "--fast", "-o", "json", timeout=110)
    assert ran.code == 0, ran.err
    verdict = ran.json
    assert verdict["ok"] is True
    assert verdict["acknowledged"] > 0
    assert verdict["read"] >= verdict["acknowledged"]
    assert (verdict["lost"], verdict["twice_committed"], verdict["commits_lost"]) == (0, 0, 0)
    assert all(each["acknowledged"] > 0 for each in verdict["partitions"])

    moved = verdict["killed_member"]["partitions"]
    assert len(moved) == 2  # six partitions among three
    for each in moved:
        assert each["taken_by"] != verdict["killed_member"]["name"]
        assert each["began_at"] == each["committed"] > 0
        readers = verdict["partitions"][each["partition"]]["readers"]
        assert {"member-2", each["taken_by"]} <= set(readers)
    assert sum(each["read_again"] for each in moved) <= verdict["twice_uncommitted"]

    coordinator = verdict["killed_coordinator"]
    assert coordinator["pid"]
    assert coordinator["node_id"] != coordinator["new_node_id"]
    assert verdict["times"]["next_commit_ms"] > 0
    for number in range(1, 7):
        assert f"{number}/6   " in ran.err
    assert "For a short demo they allow consumers a session of 3 s" in ran.err
    assert [line for line in ran.err.splitlines() if len(line) > 80] == []


@pytest.mark.thorough
def test_demo_groups_with_keep_leaves_a_cluster_whose_group_has_read_all_records(yak):
    ran = yak.run("demo", "groups", "--fast", "--keep", "--data-dir", "kept", timeout=110)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("PARTITION")
    assert "every message was read, and no committed one twice" in ran.err
    commands = ran.err.partition("What to type next")[2].splitlines()
    (describe,) = [line.split() for line in commands if "yak groups describe" in line]
    status = yak.run("up", "--status", "--data-dir", "kept", "-o", "json").json
    assert [each["state"] for each in status["brokers"]] == ["running"] * 3  # the killed one too
    told = yak.run(*describe[1:], "-o", "json")
    assert told.code == 0, told.err
    (group,) = told.json
    assert (group["group"], group["state"].lower(), group["members"], group["lag"]) == ("demo", "empty", 0, 0)
    assert len(group["partitions"]) == 6
    assert yak.run("down", "--data-dir", "kept").code == 0


def test_a_message_that_no_member_read_and_one_read_after_its_commit_are_exit_code_4(monkeypatch, capsys):
    complete = groups.partition_counts
    missing: list[Poll] = []
    repeated: list[Poll] = []

    def forged(history: History, events: list[Event], names: tuple[str, ...]) -> list[dict[str, Any]]:
        reads = [each for each in events if isinstance(each, Poll) and each.runs[0].partition == names[0]]
        missing.append(reads[3])
        repeated.append(replace(reads[5], ended=time.monotonic()))
        return complete(history, [*(each for each in events if each is not reads[3]), *repeated], names)

    monkeypatch.setattr(groups, "partition_counts", forged)
    assert run(["demo", "groups", "--fast", "-o", "json"]) == 4
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["ok"] is False
    for name, (poll,) in (("lost", missing), ("twice_committed", repeated)):
        assert verdict[name] == sum(len(run.offsets) for run in poll.runs) > 0


def test_member_process_ends_when_its_parent_process_has_ended():
    told: queue.SimpleQueue[Event] = queue.SimpleQueue()
    member = MemberProcess(MemberSettings("127.0.0.1:1", "g", "t", "alone", 6000), told.put)
    member.start()
    try:
        wait_until(lambda: member.process is not None, "the member to be ready")
        member.ask_to_end()  # closes its standard input, as the kernel does for a process that is gone
        member.wait_end(30)
        assert member.process is not None
        assert not processes.is_running(member.process)
    finally:
        member.abandon()
