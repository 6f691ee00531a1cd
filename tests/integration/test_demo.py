"""`yak demo`: both stories, and that their checks are checks."""

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.waiting import wait_until

from yak.commands.main import run
from yak.local.chaos.recorder import Recorder
from yak.local.demo import order_flow
from yak.sim.history_checker.history import History

TOPICS = ("server_metrics", "files")


class ObservedFlow(order_flow.OrderFlow):
    """The workload of `yak ui --demo`, with the topics of which its readers reported an error."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.reported: set[str] = set()

    def _take(self, message: Any) -> None:
        if message is not None and message.error() is not None:
            self.reported.add(message.topic())
        super()._take(message)


def forget_one_record(monkeypatch: pytest.MonkeyPatch, partition: str) -> None:
    """Take a record out of what was read of a partition."""
    complete = Recorder.history

    def incomplete(recorder: Recorder) -> History:
        history = complete(recorder)
        run = next(run for poll in history.polls() for run in poll.runs if run.partition == partition)
        del run.offsets[0], run.values[0]  # type: ignore[attr-defined]
        return history

    monkeypatch.setattr(Recorder, "history", incomplete)


def test_the_only_broker_is_killed_and_every_acknowledged_message_is_read_back(yak):
    ran = yak.run("demo", "restart", "--fast", "-o", "json", timeout=90)
    assert ran.code == 0, ran.err
    verdict = ran.json
    assert verdict["ok"] is True
    assert verdict["acknowledged"] == verdict["read"] > 0
    assert (verdict["lost"], verdict["duplicated"], verdict["moved"], verdict["out_of_order"]) == (0, 0, 0, 0)
    assert verdict["killed_pid"]
    assert verdict["times"]["restart_ms"] > 0
    assert verdict["times"]["kill_to_first_ack_ms"] > 0
    counts = {topic["topic"]: topic["acknowledged"] for topic in verdict["topics"]}
    assert all(counts[topic] > 0 for topic in TOPICS)
    assert not (yak.folder / "yak-data").exists()


def test_the_quorums_leader_is_killed_and_another_voter_is_elected(yak):
    ran = yak.run("demo", "election", "--fast", "-o", "json", timeout=120)
    assert ran.code == 0, ran.err
    verdict = ran.json
    assert verdict["ok"] is True
    assert verdict["acknowledged"] == verdict["read"] > 0
    assert (verdict["lost"], verdict["duplicated"], verdict["moved"], verdict["out_of_order"]) == (0, 0, 0, 0)
    assert verdict["new_leader"] != verdict["killed_node"]
    assert verdict["epoch"] > verdict["epoch_before"]
    assert verdict["times"]["election_ms"] > 0
    assert verdict["longest_pause_ms"]["server_metrics"] > 0
    assert "Redis and" not in ran.err


def test_demo_without_a_terminal_prints_numbered_steps_and_keeps_a_cluster_that_can_be_inspected(yak):
    ran = yak.run("demo", "restart", "--duration", "1s", "--keep", "--data-dir", "kept", timeout=90)
    assert ran.code == 0, ran.err
    for number in range(1, 7):
        assert f"{number}/6   " in ran.err
    assert "every acknowledged message is there" in ran.err
    assert "What to type next" in ran.err
    assert ran.out.startswith("TOPIC")
    assert "\x1b[" not in ran.err + ran.out
    status = yak.run("up", "--status", "--data-dir", "kept", "-o", "json").json
    assert status["brokers"][0]["state"] == "running"
    assert status["bootstrap"] in ran.err


def test_demo_detects_a_single_missing_record_and_exits_with_code_4(monkeypatch, capsys):
    forget_one_record(monkeypatch, "files-0")
    assert run(["demo", "restart", "--duration", "1s", "-o", "json"]) == 4
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["ok"] is False
    assert verdict["lost"] == 1
    assert verdict["read"] == verdict["acknowledged"] - 1


def test_the_leader_of_three_brokers_is_killed_and_nothing_is_lost(yak):
    ran = yak.run("demo", "--fast", "-o", "json", timeout=110)
    assert ran.code == 0, ran.err
    verdict = ran.json
    assert (verdict["ok"], verdict["brokers"], verdict["replication_factor"]) == (True, 3, 3)
    assert verdict["acknowledged"] > 0
    assert (verdict["lost"], verdict["duplicated"], verdict["moved"], verdict["out_of_order"]) == (0, 0, 0, 0)
    assert verdict["was_controller"] is True
    assert verdict["new_leader"] != verdict["killed_node"]
    steps = verdict["timeline"]
    assert 0 < steps["fenced_ms"] <= steps["elected_ms"] <= steps["first_ack_ms"] + 5
    for number in range(1, 8):
        assert f"{number}/7   " in ran.err
    assert "back in every ISR" in ran.err


def test_a_failover_that_lost_a_message_is_exit_code_4(monkeypatch, capsys):
    forget_one_record(monkeypatch, "server_metrics-0")
    assert run(["demo", "failover", "--duration", "1s", "-o", "json"]) == 4
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["ok"], verdict["lost"]) == (False, 1)


def test_a_topic_counts_as_deleted_only_once_the_producer_finds_it_gone(module_broker):
    admin = AdminClient({"bootstrap.servers": module_broker.bootstrap, "log_level": 0})
    flow = ObservedFlow(module_broker.bootstrap, lambda pause: None)
    flow.start()
    try:
        wait_until(lambda: {"orders", "payments"} <= flow.reported, "readers that find neither topic")
        topics = [NewTopic(topic.name, topic.partitions, 1) for topic in order_flow.TOPICS]
        for created in admin.create_topics(topics).values():
            created.result(20)
        wait_until(lambda: flow.counts().read >= 10, "the first records to be read")
        assert not flow.gone
        admin.delete_topics(["payments"])["payments"].result(20)
        wait_until(lambda: flow.gone == {"payments"}, "the deleted topic to be noticed")
    finally:
        flow.abandon()
