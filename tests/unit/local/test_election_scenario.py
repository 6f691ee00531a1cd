"""The parts of the election demo that need no cluster."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from yak.client.quorum import QuorumState
from yak.local.demo.delivery import Delivery
from yak.local.demo.failover import ElectionScenario, elected_at
from yak.local.demo.scenario import Reporter, Settings
from yak.local.failover import Failover

LINE = '2026-11-25T17:26:19.309Z INFO    quorum-leader-elected epoch=2 granted="[2, 3]"'


@pytest.mark.parametrize(
    ("line", "epoch", "is_found"),
    [
        (LINE, 2, True),
        (LINE, 3, False),
        ("2026-11-25T17:26:19.309Z INFO    quorum-leader-followed leader=2 epoch=2", 2, False),
        ("", 2, False),
    ],
)
def test_election_is_read_from_the_new_leaders_log(line: str, epoch: int, is_found: bool) -> None:
    assert elected_at(line, epoch) == (1_795_627_579.309 if is_found else None)


def test_result_names_the_leaders_and_the_longest_waits(tmp_path: Path) -> None:
    found: Any = ElectionScenario(Settings(6.0, data_dir=str(tmp_path)), Reporter())
    found.before, found.after = QuorumState(3, 4, 10, (), ()), QuorumState(1, 5, 20, (), ())
    found.failover = Failover(3, 41, True, ())
    found.loads, found.delivered = [SimpleNamespace(topic="a", name="client")], (Delivery("a", 10, 10),)
    found.times |= {"election_ms": 48.26, "total_ms": 1000.0, "start_ms": 500.0}
    found.pauses = {"server_metrics": 12.34}
    result = found.result()
    assert result.holds
    assert "broker 1 replaced the quorum's leader in 48 ms, epoch 5" in result.notes
    document = result.as_json()
    assert (document["killed_node"], document["new_leader"], document["epoch_before"], document["epoch"]) == (
        3,
        1,
        4,
        5,
    )
    assert document["longest_pause_ms"] == {"server_metrics": 12.3}
    assert document["times"]["election_ms"] == 48.3
