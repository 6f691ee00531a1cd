"""`cluster.faults`: each word becomes a rule's field, whatever carries the calls out."""

from typing import Any

import pytest

from yak.testing.faults import Fault, Faults


class Cluster:
    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.rules = [
            {"id": "id-1", "node_id": 1, "calls": 3, "hits": 1},
            {"id": "id-1", "node_id": 2, "calls": 2, "hits": 0},
            {"id": "other", "node_id": 2, "calls": 9, "hits": 9},
            {"id": "of a replica", "node_id": 2},
        ]

    def __call__(self, call: str, **arguments: Any) -> Any:
        self.calls.append((call, arguments))
        return {"add_fault": "id-1", "list_faults": self.rules}.get(call)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_every_argument_becomes_a_field_of_the_rule(cluster: Cluster) -> None:
    faults = Faults(cluster)
    args: dict[str, Any] = {"times": 2, "on_call": 3, "client_id": "c", "topic": "t", "partition": 0}
    faults.inject_error("Produce", "X", after=True, broker=2, **args)
    faults.disconnect_on("Fetch", **args)
    faults.delay_on("Fetch", 5)
    faults.blackhole_client("c", times=1, broker=3)
    faults.lag_replica("t", 0, 2)
    faults.freeze_isr("t")
    faults.freeze_isr("t", 1)
    assert [each["broker"] for _call, each in cluster.calls] == [2, None, None, 3, 2, None, None]
    assert [each["rule"] for _call, each in cluster.calls] == [
        {"fault": "inject_error", "api": "Produce", "error": "X", "after": True, **args},
        {"fault": "disconnect_on", "api": "Fetch", "after": False, **args},
        {"fault": "delay_on", "api": "Fetch", "delay_ms": 5},
        {"fault": "blackhole_client", "client_id": "c", "times": 1},
        {"fault": "lag_replica", "topic": "t", "partition": 0, "broker": 2},
        {"fault": "freeze_isr", "topic": "t"},
        {"fault": "freeze_isr", "topic": "t", "partition": 1},
    ]


def test_fault_counts_over_all_brokers_and_ends_with_its_block(cluster: Cluster) -> None:
    with Faults(cluster).delay_on("Fetch", 5) as fault:
        assert (fault.id, fault.calls, fault.hits) == ("id-1", 5, 1)
    assert cluster.calls[-1] == ("clear_faults", {"rule_id": "id-1"})
    assert (Fault(cluster, "of a replica").calls, Fault(cluster, "of a replica").hits) == (0, 0)


def test_all_faults_are_listed_and_cleared(cluster: Cluster) -> None:
    faults = Faults(cluster)
    assert faults.list(broker=2) == cluster.rules
    faults.clear()
    assert cluster.calls == [("list_faults", {"broker": 2}), ("clear_faults", {})]
