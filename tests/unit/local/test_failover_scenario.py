"""The parts of the failover demo that need no cluster."""

from types import SimpleNamespace

import pytest

from yak.local.demo.delivery import Delivery
from yak.local.demo.failover import FailoverScenario, truncated_records
from yak.local.demo.scenario import Reporter, Settings
from yak.local.failover import Failover, Timeline


def scenario(tmp_path, *delivered, brokers=5, keep=False):
    found = FailoverScenario(Settings(6.0, brokers, keep, str(tmp_path)), Reporter())
    found.failover = Failover(1, 41, True, (), timeline=Timeline(31.44, 33, 34, 41, 66.66))
    found.loads = [SimpleNamespace(topic=each.topic, name="client") for each in delivered]
    found.delivered, found.new_leader, found.bootstrap = delivered, 2, "h:1"
    found.times["total_ms"] = 1.26
    return found


@pytest.mark.parametrize(
    ("line", "records"),
    [
        ("2026-11-20T11:22:21.278Z INFO    log-truncated partition=t-0 leader_epoch=2 from_offset=12 to_offset=9", 3),
        ("2026-11-20T11:22:21.278Z INFO    isr-changed partition=t-0 from_offset=12 to_offset=9", 0),
        ("", 0),
    ],
)
def test_truncated_records_of_a_replica_are_counted_from_its_log_line(line, records):
    assert truncated_records(line) == records


def test_replication_factor_is_four_at_most(tmp_path):
    assert [scenario(tmp_path, brokers=count).replication_factor for count in (3, 4, 5)] == [3, 4, 4]


def test_result_of_all_topics_and_its_json(tmp_path):
    good = Delivery("a", 10, 11, unconfirmed=1)
    bad = Delivery("b", 10, 9, lost=1)
    assert scenario(tmp_path, good).result().holds
    assert not scenario(tmp_path, good, bad).result().holds
    assert not scenario(tmp_path).result().holds
    document = scenario(tmp_path, good, bad).result().as_json()
    assert (document["ok"], document["acknowledged"], document["read"], document["lost"]) == (False, 20, 20, 1)
    assert (document["killed_node"], document["new_leader"], document["was_controller"]) == (1, 2, True)
    assert document["topics"][1]["client"] == "client"
    assert document["timeline"]["first_ack_ms"] == 66.7
    assert document["times"]["total_ms"] == 1.3
    assert document["data_dir"] is None
    assert scenario(tmp_path, good, keep=True).result().as_json()["bootstrap"] == "h:1"
