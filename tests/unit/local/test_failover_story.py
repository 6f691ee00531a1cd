"""The parts of the failover demo that need no cluster."""

import pytest

from yak.local.demo.failover_story import FailoverDemoResult, FailoverDemoSettings, FailoverTimes, truncated_records
from yak.local.demo.ledger import Verdict
from yak.local.failover import Failover
from yak.local.failover_timeline import Timeline


def result(*verdicts, keep=False):
    failover = Failover(1, 41, True, (), Timeline(31.44, 33, 34, 41, 66.66))
    settings = FailoverDemoSettings(6.0, brokers=5, keep=keep)
    names = {verdict.topic: "client" for verdict in verdicts}
    return FailoverDemoResult(settings, verdicts, names, failover, 2, 3, FailoverTimes(total_ms=1.26), "h:1", "/d")


@pytest.mark.parametrize(
    ("line", "records"),
    [
        ("2026-11-20T11:22:21.278Z INFO    log-truncated partition=t-0 leader_epoch=2 from_offset=12 to_offset=9", 3),
        ("2026-11-20T11:22:21.278Z INFO    isr-changed partition=t-0 from_offset=12 to_offset=9", 0),
        ("", 0),
    ],
)
def test_what_a_replica_cut_off_is_read_from_its_log(line, records):
    assert truncated_records(line) == records


def test_the_replication_factor_is_four_at_most():
    assert [FailoverDemoSettings(1.0, brokers=count).replication_factor for count in (3, 4, 5)] == [3, 4, 4]


def test_the_verdict_of_all_topics_and_its_json():
    good = Verdict("a", 10, 11, 0, 0, 0, 0, 1)
    bad = Verdict("b", 10, 9, 1, 0, 0, 0, 0)
    assert result(good).holds
    assert not result(good, bad).holds
    assert not result().holds
    document = result(good, bad).as_json()
    assert (document["ok"], document["acknowledged"], document["read"], document["lost"]) == (False, 20, 20, 1)
    assert (document["killed_node"], document["new_leader"], document["was_controller"]) == (1, 2, True)
    assert document["timeline"]["first_ack_ms"] == 66.7
    assert document["times"]["total_ms"] == 1.3
    assert document["data_dir"] is None
    assert result(good, keep=True).as_json()["bootstrap"] == "h:1"
